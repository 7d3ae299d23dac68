//! Whether a rule looks at a part that could not be read, by the paths that `record!` has for it.

/// What a rule sees of a part that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sight<'u> {
    Nothing,
    /// As part of this item of a list, of which the rule says nothing that depends on other items.
    InItem(&'u str),
    Something,
}

/// What a rule that looks at `path` (`tls.mode`, `rules[].name`, `ports[*].name`, `labels?`) sees of the part at
/// `unread`, in which it may look for something.
pub(super) fn sight<'u>(path: &str, unread: &'u str) -> Sight<'u> {
    let (here, there) = (path.replace("[*]", "[]"), without_indices(unread));
    let sees = match here.strip_suffix('?') {
        Some(path) => leads_to(&there, path),
        None => leads_to(&there, &here) || leads_to(&here, &there),
    };
    if !sees {
        return Sight::Nothing;
    }
    let alone = path.split('[').skip(1).map(|step| step.starts_with('*'));
    let items = unread.match_indices(']').map(|(at, _)| &unread[..=at]);
    let item = items.zip(alone).filter_map(|(item, alone)| alone.then_some(item)).last();
    item.map_or(Sight::Something, Sight::InItem)
}

/// Whether the part at `path` is `item` or in it.
pub(super) fn is_in(item: &str, path: &str) -> bool {
    leads_to(item, path)
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
        use Sight::{InItem, Nothing, Something};

        for (path, unread, seen) in [
            ("tls.mode", "tls.mode", Something),
            ("tls.mode", "tls", Something),
            ("tls.mode", "tls.options", Nothing),
            ("tls", "tls.mode", Something),
            ("tls", "tlsRoutes", Nothing),
            ("rules[].name", "rules", Something),
            ("rules[].name", "rules[10]", Something),
            ("rules[].name", "rules[1].matches[0].path", Nothing),
            ("rules?", "rules", Something),
            ("rules?", "rules[0]", Nothing),
            ("rules[].matches?", "rules[0]", Something),
            ("labels?", "labels[\"a.b\"]", Nothing),
            ("", "anything", Something),
            ("ports[*].name", "ports", Something),
            ("ports[*].name", "ports[10]", InItem("ports[10]")),
            ("ports[*].name", "ports[1].name", InItem("ports[1]")),
            ("ports[*].name", "ports[1].port", Nothing),
            ("ports[*]", "ports[1].names[2]", InItem("ports[1]")),
            ("hosts[*].names[*]", "hosts[1].names[2]", InItem("hosts[1].names[2]")),
            ("hosts[*].names[*]", "hosts[1]", InItem("hosts[1]")),
            ("hosts[*].names[*]", "hosts[1].names", InItem("hosts[1]")),
            ("hosts[].names[*]", "hosts[1].names[2]", InItem("hosts[1].names[2]")),
            ("hosts[].names[*]", "hosts[1]", Something),
        ] {
            assert_eq!(sight(path, unread), seen, "{path} and {unread}");
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
