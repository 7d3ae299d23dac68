//! What YAML 1.1, as kubectl's parser has it, makes of a scalar without quotes.
//!
//! kubectl reads manifests with a parser for YAML 1.1 and hands JSON to the API server. What it takes for a
//! number or a boolean is a number or a boolean here, odd forms included, so that a file means the same.

use serde_json::Number;

use crate::tree::Value;

/// `None` for the numbers that JSON has no place for.
pub(crate) fn plain(text: &str) -> Option<Value> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::BareBool(true, text.into()),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::BareBool(false, text.into()),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan"
        | ".NaN" | ".NAN" => return None,
        _ => match number(text) {
            Some(number) if number.to_string() == text => Value::Number(number),
            Some(number) => Value::BareNumber(number, text.into()),
            None => Value::Text(text.into()),
        },
    })
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.starts_with(|first: char| first.is_ascii_digit()) {
        let text = text.replace('_', "");
        integer(&text).or_else(|| float(&text))
    } else if digits.starts_with('.') {
        float(text)
    } else {
        None
    }
}

/// With the prefixes of Go, and a leading zero for octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    let value = if negative { -value } else { value };
    i64::try_from(value).map(Number::from).or_else(|_| u64::try_from(value).map(Number::from)).ok()
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, also for `08`, which is no octal number.
fn float(text: &str) -> Option<Number> {
    let is_float = text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let value: f64 = text.parse().ok().filter(|_| is_float)?;
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_yaml_1_1() {
        for (text, number) in [
            ("0", "0"),
            ("8080", "8080"),
            ("-5", "-5"),
            ("+8080", "8080"),
            ("0x1F", "31"),
            ("0X1f", "31"),
            ("-0x1F", "-31"),
            ("0b101", "5"),
            ("0o17", "15"),
            ("017", "15"),
            ("08", "8"),
            ("1_000", "1000"),
            ("0_7", "7"),
            ("1.5", "1.5"),
            ("1.10", "1.1"),
            ("1.", "1"),
            (".5", "0.5"),
            ("-.5", "-0.5"),
            ("1e3", "1000"),
            ("1E-2", "0.01"),
            ("18446744073709551615", "18446744073709551615"),
            ("123456789012345678901", "1.2345678901234568e+20"),
        ] {
            match plain(text) {
                Some(Value::Number(found)) => assert_eq!((&*found.to_string(), text), (number, number)),
                Some(Value::BareNumber(found, raw)) => {
                    assert_eq!((&*found.to_string(), &*raw), (number, text));
                }
                other => panic!("{text} is {other:?}"),
            }
        }
    }

    #[test]
    fn what_looks_like_a_number_may_be_text() {
        for text in [
            "1.2.3",
            "10.0.0.1",
            "1m",
            "0x",
            "0xg",
            "0b2",
            "+",
            "-",
            ".",
            "..",
            "_1",
            "1e",
            "e5",
            "1:30",
            "0x-1",
            "--1",
            "+-1",
            "2026-11-02",
            "2026-11-02T15:04:05Z",
            "10s",
            "infinity",
            "nan",
            "::1",
        ] {
            assert_eq!(plain(text), Some(Value::Text(text.into())), "{text}");
        }
    }

    #[test]
    fn infinity_has_no_place_in_json() {
        for text in [".inf", "-.INF", ".NaN"] {
            assert_eq!(plain(text), None);
        }
    }
}
