//! Values of annotations in the forms that Go's libraries read.

/// A duration as Go writes it, `1h30m` or `1.5h`, in whole seconds.
pub(super) fn duration(text: &str) -> Option<i64> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit() || c == '.');
        let unit_end = unit_end.map_or(rest.len(), |end| digits + end);
        let unit = match &rest[digits..unit_end] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number * unit;
        rest = &rest[unit_end..];
    }
    // Go counts nanoseconds in 63 bits.
    #[expect(clippy::cast_possible_truncation, reason = "it was compared before")]
    let whole = (seconds < 9.2e9).then_some(seconds as i64)?;
    Some(if is_negative { -whole } else { whole })
}

/// One line of values separated by commas, quoted where a value has a comma or a quote itself.
pub(super) fn csv(text: &str) -> Option<Vec<String>> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() || text.contains('\n') {
        return None;
    }
    let mut values = Vec::new();
    let mut rest = text;
    loop {
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        if value.contains('"') && !rest.starts_with('"') {
            return None;
        }
        values.push(value);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Some(values),
            None => return None,
        }
    }
}

/// Up to the closing quote, and what follows it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        value.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                value.push('"');
                rest = next;
            }
            None => return Some((value, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, seconds) in [
            ("2160h", 7_776_000),
            ("1h30m", 5_400),
            ("1.5h", 5_400),
            ("2160h0m0s", 7_776_000),
            ("0", 0),
            ("-1h", -3_600),
            ("+90s", 90),
            ("1500ms", 1),
        ] {
            assert_eq!(duration(text), Some(seconds), "{text}");
        }
        for text in ["", "90", "90d", "h", "1h30", "1 h", "1.2.3h", "-", "99999999h"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn values_may_be_quoted() {
        assert_eq!(csv("one"), Some(vec!["one".to_owned()]));
        assert_eq!(csv("one,two,"), Some(vec!["one".to_owned(), "two".to_owned(), String::new()]));
        assert_eq!(
            csv(r#""Sea, Inc","say ""so""""#),
            Some(vec!["Sea, Inc".to_owned(), r#"say "so""#.to_owned()])
        );
        for text in ["", "one\ntwo", r#""open"#, r#"a"b"#, r#""a"b"#] {
            assert_eq!(csv(text), None, "{text}");
        }
    }
}
