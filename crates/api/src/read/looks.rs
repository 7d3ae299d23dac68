//! Whether a rule looks at a part that could not be read, by the paths that `record!` has for it.

/// Whether a rule that looks at `path` (`tls.mode`, `rules[].name`, `labels?`) sees the part at `unread`, or looks
/// for something in it.
pub(super) fn sees(path: &str, unread: &str) -> bool {
    let unread = &*without_indices(unread);
    match path.strip_suffix('?') {
        Some(path) => leads_to(unread, path),
        None => leads_to(unread, path) || leads_to(path, unread),
    }
}

/// The rest of `path`, where it leads on from the record that is `here`.
pub(super) fn below<'p>(here: &str, path: &'p str) -> Option<&'p str> {
    if here.is_empty() { Some(path) } else { path.strip_prefix(here)?.strip_prefix('.') }
}

fn leads_to(above: &str, below: &str) -> bool {
    let rest = below.strip_prefix(above);
    rest.is_some_and(|rest| above.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
}

/// `rules[3].name` as `rules[].name`.
fn without_indices(path: &str) -> String {
    let parts = path.split('[').map(|part| part.trim_start_matches(|first: char| first.is_ascii_digit()));
    parts.collect::<Vec<_>>().join("[")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_sees_what_it_names_and_what_that_is_in() {
        for (path, unread, seen) in [
            ("tls.mode", "tls.mode", true),
            ("tls.mode", "tls", true),
            ("tls.mode", "tls.options", false),
            ("tls", "tls.mode", true),
            ("tls", "tlsRoutes", false),
            ("rules[].name", "rules", true),
            ("rules[].name", "rules[10]", true),
            ("rules[].name", "rules[1].matches[0].path", false),
            ("rules?", "rules", true),
            ("rules?", "rules[0]", false),
            ("rules[].matches?", "rules[0]", true),
            ("labels?", "labels[\"a.b\"]", false),
            ("", "anything", true),
        ] {
            assert_eq!(sees(path, unread), seen, "{path} and {unread}");
        }
    }

    #[test]
    fn paths_lead_on_by_steps() {
        assert_eq!(below("spec.rules[1]", "spec.rules[1].name"), Some("name"));
        assert_eq!(below("spec.rules[1]", "spec.rules[10].name"), None);
        assert_eq!(below("spec.rule", "spec.rules"), None);
        assert_eq!(below("", "spec"), Some("spec"));
    }
}
