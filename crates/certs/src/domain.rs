//! The domain that somebody registered, as far as budgets go.
//!
//! The list of public suffixes is 2.5 MB of code for a guard that need not be exact: taken too wide, a budget is
//! shared by more names; taken too narrow, the CA's own limit answers, and it is honoured. So: the last two labels,
//! or three below a country's `co`, `com`, `ac` and the like.

/// Second labels under which countries register names.
const REGISTRIES: &[&str] = &[
    "ac", "co", "com", "edu", "gob", "go", "gouv", "gov", "gv", "ind", "info", "ltd", "me", "mil", "ne",
    "net", "nom", "or", "org", "plc", "sch",
];

/// `example.co.uk` of `www.example.co.uk`; the name itself where it has no more labels.
#[must_use]
pub fn registered_domain(name: &str) -> &str {
    let labels: Vec<&str> = name.rsplit('.').take(2).collect();
    let kept = match labels[..] {
        [country, second] if country.len() == 2 && REGISTRIES.contains(&second) => 3,
        _ => 2,
    };
    let start = name.rmatch_indices('.').nth(kept - 1).map_or(0, |(dot, _)| dot + 1);
    &name[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_labels_or_three() {
        for (name, domain) in [
            ("www.example.com", "example.com"),
            ("a.b.c.example.com", "example.com"),
            ("example.com", "example.com"),
            ("com", "com"),
            ("www.example.co.uk", "example.co.uk"),
            ("example.co.uk", "example.co.uk"),
            ("co.uk", "co.uk"),
            ("a.b.example.com.au", "example.com.au"),
            ("www.example.de", "example.de"),
            ("www.com.example", "com.example"),
        ] {
            assert_eq!(registered_domain(name), domain, "{name}");
        }
    }
}
