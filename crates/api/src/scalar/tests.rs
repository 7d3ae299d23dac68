use proptest::prelude::*;
use regex::Regex;

use super::*;
use crate::tree::Value;

fn read<T: Read>(text: &str) -> (Option<T>, Vec<&'static str>) {
    let mut at = At::new("", "v1");
    let node = Node { span: crate::Span::default(), value: Value::Text(text.into()) };
    let value = T::read(&node, &mut at);
    (value, at.into_problems().iter().map(|problem| problem.rule).collect())
}

fn good<T: Read + fmt::Display>(texts: &[&str]) {
    for text in texts {
        let (value, problems) = read::<T>(text);
        assert_eq!((value.map(|value| value.to_string()).as_deref(), &*problems), (Some(*text), &[][..]));
    }
}

fn bad<T: Read>(texts: &[(&str, &str)]) {
    for (text, rule) in texts {
        let (_, problems) = read::<T>(text);
        assert_eq!(problems, [*rule], "{text}");
    }
}

#[test]
fn names() {
    let long = "a".repeat(253);
    let too_long = "a".repeat(254);
    good::<ObjectName>(&["a", "Any thing/at all", &long, &"ä".repeat(253)]);
    bad::<ObjectName>(&[("", "too-short"), (&too_long, "too-long"), (&"ä".repeat(254), "too-long")]);
    good::<Namespace>(&["a", "0", "a-b", &"a".repeat(63)]);
    bad::<Namespace>(&[
        ("", "too-short"),
        ("a.b", "form"),
        ("-a", "form"),
        ("A", "form"),
        (&"a".repeat(64), "too-long"),
    ]);
    good::<SectionName>(&["a", "a.b-c", &long]);
    bad::<SectionName>(&[("", "too-short"), ("A", "form"), ("a..b", "form"), (&too_long, "too-long")]);
    good::<Group>(&["", "gateway.networking.k8s.io"]);
    bad::<Group>(&[("a/v1", "form"), (".", "form"), (&too_long, "too-long")]);
    good::<Kind>(&["Service", "a", "a-1"]);
    bad::<Kind>(&[
        ("", "too-short"),
        ("1a", "form"),
        ("a-", "form"),
        ("a.b", "form"),
        (&"a".repeat(64), "too-long"),
    ]);
    good::<ControllerName>(&["example.net/a", "a/b/c"]);
    bad::<ControllerName>(&[
        ("", "too-short"),
        ("a", "form"),
        ("a/", "form"),
        ("A/b", "form"),
        ("a/b c", "form"),
    ]);
}

#[test]
fn words_of_listeners_and_policies() {
    good::<Protocol>(&["HTTP", "h-2", "example.com/foo", &"a".repeat(255)]);
    bad::<Protocol>(&[("", "too-short"), ("-a", "form"), ("a/b-c", "form"), ("a b", "form")]);
    good::<AddressType>(&["IPAddress", "Hostname", "NamedAddress", "example.com/a"]);
    bad::<AddressType>(&[("", "too-short"), ("Ip", "form"), ("a", "form")]);
    good::<HeaderName>(&["x-a", "!#$%&'*+-.^_`|~"]);
    bad::<HeaderName>(&[
        ("", "too-short"),
        ("a b", "form"),
        ("a:", "form"),
        ("ä", "form"),
        (&"a".repeat(257), "too-long"),
    ]);
    good::<CookieName>(&["a"]);
    bad::<CookieName>(&[("", "too-short"), ("a;", "form"), (&"a".repeat(257), "too-long")]);
    good::<AbsoluteUri>(&["spiffe://a/b", "x://"]);
    bad::<AbsoluteUri>(&[("", "too-short"), ("/a", "form"), ("a:b", "form"), ("?://a", "form")]);
    good::<CorsOrigin>(&["*", "http://a", "https://*.a.b:8080", "https://*"]);
    bad::<CorsOrigin>(&[
        ("", "too-short"),
        ("a", "form"),
        ("http://a/", "form"),
        ("ftp://a", "form"),
        ("http://a:x", "form"),
    ]);
    good::<AnnotationValue>(&["", "anything\n"]);
    bad::<AnnotationValue>(&[(&"a".repeat(4097), "too-long")]);
    good::<LabelValue>(&["", "a", "A_b.c-d"]);
    bad::<LabelValue>(&[("-a", "form"), ("a b", "form"), (&"a".repeat(64), "too-long")]);
    good::<WellKnownCas>(&["System", "example.com/a"]);
    bad::<WellKnownCas>(&[("", "too-short"), ("system", "form"), ("a/b/c", "form")]);
}

#[test]
fn durations() {
    for (text, milliseconds) in [
        ("0s", 0),
        ("500ms", 500),
        ("1h30m", 5_400_000),
        ("1s1s", 2_000),
        ("1h1m1s1ms", 3_661_001),
        ("99999h", 99_999 * 3_600_000),
    ] {
        assert_eq!(
            Duration::parse(text).map(|duration| duration.0.as_millis()),
            Some(milliseconds),
            "{text}"
        );
    }
    for text in ["", "1", "s", "1d", "1.5s", "-1s", "100000s", "1s 1s", "1h1h1h1h1h", "1µs", "1S"] {
        assert_eq!(Duration::parse(text), None, "{text}");
    }
    bad::<Duration>(&[("", "form"), ("1 s", "form")]);
}

#[test]
fn hostnames() {
    good::<Hostname>(&["a", "www.example.com", "*.example.com", "xn--bcher-kva.example"]);
    bad::<Hostname>(&[
        ("", "too-short"),
        ("WWW.example.com", "form"),
        ("example.com.", "form"),
        ("*", "form"),
        ("*.*.com", "form"),
        ("192.0.2.1", "form"),
        ("::1", "form"),
        ("a_b", "form"),
        ("bücher.example", "form"),
    ]);
    bad::<PreciseHostname>(&[("*.example.com", "form"), ("", "too-short")]);
    assert!(read::<PreciseHostname>("a.b").0.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn durations_are_those_of_the_crds(text in r"([0-9]{0,6}(h|m|s|ms|x)?){0,5}") {
        let pattern = Regex::new(r"^([0-9]{1,5}(h|m|s|ms)){1,4}$").unwrap();
        prop_assert_eq!(Duration::parse(&text).is_some(), pattern.is_match(&text));
    }

    /// What the CRDs' pattern takes beyond ours are labels that DNS has no room for, and IP addresses.
    #[test]
    fn hostnames_are_those_of_the_crds(text in r"(\*\.?)?([a-c0-9A]|[-.*_]|[a-b]{60}){0,12}") {
        let pattern = Regex::new(r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").unwrap();
        let crd = pattern.is_match(&text) && (1..=253).contains(&text.len());
        let dns = text.split('.').all(|label| label.len() <= 63);
        let numeric = text.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x"));
        let ours = read::<Hostname>(&text).1.is_empty();
        prop_assert!(!ours || crd, "only ours");
        prop_assert!(ours || !(crd && dns && !numeric), "only theirs");
    }
}
