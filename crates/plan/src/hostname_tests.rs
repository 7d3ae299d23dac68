use proptest::prelude::*;

use super::*;
use crate::Name;

fn host(text: &str) -> Hostname {
    Hostname::parse(text).unwrap()
}

#[test]
fn case_and_trailing_dot_are_read_away() {
    for text in ["a.example.com", "A.Example.COM", "a.example.com."] {
        assert_eq!(host(text).as_str(), "a.example.com");
    }
    assert_eq!(host("*.Example.com.").as_str(), "*.example.com");
    assert_eq!(host("xn--bcher-kva.example").as_str(), "xn--bcher-kva.example");
}

#[test]
fn what_is_no_hostname_is_refused_with_its_reason() {
    use HostnameError::{Character, Empty, IpAddress, LabelLength, NotAscii, TooLong, Wildcard};
    let (label, long) = ("a".repeat(64), "a.".repeat(128));
    for (text, error) in [
        ("", Empty),
        (".", Empty),
        ("a..b", LabelLength),
        (".a", LabelLength),
        ("a.b..", LabelLength),
        ("*..a", LabelLength),
        (&label, LabelLength),
        (&long, TooLong),
        ("-a.example", Character),
        ("a-.example", Character),
        ("a_b.example", Character),
        ("a b", Character),
        ("a.example:443", Character),
        ("bücher.example", NotAscii),
        ("*", Wildcard),
        ("*.", Wildcard),
        ("a.*.example", Wildcard),
        ("a*.example", Wildcard),
        ("*.*.example", Wildcard),
        ("10.0.0.1", IpAddress),
        ("10.0.0.1.", IpAddress),
        ("::1", IpAddress),
        ("[::1]", IpAddress),
        ("[10.0.0.1]", IpAddress),
        ("127.1", IpAddress),
        ("2130706433", IpAddress),
        ("0x7f000001", IpAddress),
        ("0X7F.1", IpAddress),
        ("*.0.0.1", IpAddress),
    ] {
        assert_eq!(Hostname::parse(text), Err(error), "{text:?}");
    }
}

#[test]
fn names_with_digits_are_still_names() {
    for text in ["10.0.0.1.example", "0x.org", "1a", "4.example", "a.1"] {
        assert_eq!(host(text).as_str(), text);
    }
}

#[test]
fn a_wildcard_stands_for_any_depth_but_not_for_its_base() {
    let wildcard = host("*.example.com");
    assert!(wildcard.matches("a.example.com"));
    assert!(wildcard.matches("a.b.example.com"));
    assert!(!wildcard.matches("example.com"));
    assert!(!wildcard.matches("aexample.com"));
    assert!(!wildcard.matches(".example.com"));
}

#[test]
fn specificity_is_exact_then_most_labels() {
    let mut hosts = ["*.com", "*.b.example.com", "a.com", "*.example.com", "z.b.example.com"].map(host);
    hosts.sort();
    let sorted: Vec<_> = hosts.iter().map(Hostname::as_str).collect();
    assert_eq!(sorted, ["a.com", "z.b.example.com", "*.b.example.com", "*.example.com", "*.com"]);
}

/// Names over few labels, so that they meet often.
fn some_name() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof!["a", "b", "ab", "x-1"], 1..5).prop_map(|labels| labels.join("."))
}

fn some_host() -> impl Strategy<Value = Hostname> {
    (any::<bool>(), some_name())
        .prop_map(|(wildcard, name)| host(&if wildcard { format!("*.{name}") } else { name }))
}

proptest! {
    #[test]
    fn intersection_is_symmetric_and_exactly_what_both_match(
        one in some_host(), other in some_host(), name in some_name(), below in some_name(),
    ) {
        prop_assert_eq!(one.intersection(&other), other.intersection(&one));
        prop_assert_eq!(one.intersects(&other), one.intersection(&other).is_some());
        // Random names, and some that are sure to be near.
        for name in [name, one.base().into(), other.base().into(), format!("{below}.{}", one.base()), format!("{below}.{}", other.base())] {
            let both = one.matches(&name) && other.matches(&name);
            prop_assert_eq!(both, one.intersection(&other).is_some_and(|host| host.matches(&name)), "{}", name);
        }
    }

    #[test]
    fn what_covers_is_what_intersects_in_the_other(one in some_host(), other in some_host()) {
        prop_assert_eq!(one.covers(&other), one.intersection(&other) == Some(&other));
        prop_assert!(one.covers(&one));
    }

    #[test]
    fn the_order_is_total_and_agrees_with_equality(a in some_host(), b in some_host(), c in some_host()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b) == Ordering::Equal, a == b);
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
    }

    #[test]
    fn what_is_covered_is_more_specific(one in some_host(), other in some_host()) {
        if one != other && one.covers(&other) {
            prop_assert!(other < one);
        }
    }

    #[test]
    fn sorting_does_not_depend_on_the_order_of_input(
        hosts in proptest::collection::vec(some_host(), 0..12).prop_flat_map(|hosts| (Just(hosts.clone()), Just(hosts).prop_shuffle())),
    ) {
        let (mut one, mut other) = hosts;
        one.sort();
        other.sort();
        prop_assert_eq!(one, other);
    }

    #[test]
    fn any_text_is_read_once_and_for_all(text in "[a-cA-C0-9*.:\\-_x\\[\\]]{0,12}") {
        if let Ok(host) = Hostname::parse(&text) {
            prop_assert_eq!(Hostname::parse(host.as_str()), Ok(host.clone()));
            prop_assert_eq!(Hostname::parse(&text.to_ascii_uppercase()), Ok(host.clone()));
            // A client that asks for the very hostname is read the same way.
            if !host.is_wildcard() {
                let name = Name::from_sni(&text).unwrap();
                prop_assert_eq!(name.as_str(), host.as_str());
            }
        }
    }
}
