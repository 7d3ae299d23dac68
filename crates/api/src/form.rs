//! The forms that names and other words of the API have, each as the pattern of the CRDs or of Kubernetes has it.
//!
//! They are written out instead of as regular expressions because every object passes through dozens of them.

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
pub(crate) fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

pub(crate) fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

pub(crate) fn is_kind(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.ends_with('-')
}

/// `example.com/some/path`
pub(crate) fn is_domain_prefixed_path(text: &str) -> bool {
    text.split_once('/').is_some_and(|(domain, path)| is_subdomain(domain) && is_path(path))
}

fn is_path(path: &str) -> bool {
    !path.is_empty()
        && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte))
}

/// A word, or `domain/word`. The CRDs' pattern for the latter has no beginning, so that anything may stand
/// before the domain; what an API server lets in is let in here too.
pub(crate) fn is_protocol(text: &str) -> bool {
    match text.rsplit_once('/') {
        None => {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !text.starts_with('-')
                && !text.ends_with('-')
        }
        Some((domain, name)) => {
            ends_like_domain(domain)
                && !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }
    }
}

/// The CRDs' pattern binds its ends to the first and last alternative only, so that `Hostname...` and
/// `...IPAddress...` pass; what an API server lets in is let in here too, as a type that is not supported.
pub(crate) fn is_address_type(text: &str) -> bool {
    text.starts_with("Hostname")
        || text.contains("IPAddress")
        || text.contains("NamedAddress")
        || text.match_indices('/').any(|(at, _)| ends_like_domain(&text[..at]) && is_path(&text[at + 1..]))
}

fn ends_like_domain(text: &str) -> bool {
    text.ends_with(|last: char| last.is_ascii_lowercase() || last.is_ascii_digit())
}

/// A token of HTTP: `[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+`
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// A scheme, `://`, and anything.
pub(crate) fn is_absolute_uri(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(scheme, _)| !scheme.is_empty() && !scheme.contains([':', '/', '?', '#']))
}

/// `*`, or scheme and host with an optional port, where the host or its first label may be `*`.
pub(crate) fn is_cors_origin(text: &str) -> bool {
    if text == "*" {
        return true;
    }
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        return false;
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    };
    let port_ok = port
        .is_none_or(|port| (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = host.strip_prefix("*.").unwrap_or(host);
    let label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    port_ok && (host == "*" || name.split('.').all(label))
}

/// The name part of label keys: `([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]`
fn is_key_name(text: &str) -> bool {
    !text.is_empty() && is_label_value(text)
}

pub(crate) fn is_label_value(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && edge(text.bytes().next())
        && edge(text.bytes().last())
}

/// A key of labels and annotations: a name, or `domain/name`.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_key_name(text),
        Some((domain, name)) => domain.len() <= 253 && is_subdomain(domain) && is_key_name(name),
    }
}

pub(crate) fn is_well_known_cas(text: &str) -> bool {
    text == "System" || (text.contains('/') && is_qualified_name(text))
}

/// An amount as Kubernetes writes it: a decimal number with a suffix or an exponent.
pub(crate) fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let is_number = number.bytes().any(|byte| byte.is_ascii_digit()) && number.matches('.').count() <= 1;
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let known = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    is_number && (known.contains(&suffix) || suffix.strip_prefix(['e', 'E']).is_some_and(is_exponent))
}

/// A key of the data of a Secret or ConfigMap.
pub(crate) fn is_data_key(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && text != "."
        && !text.starts_with("..")
}

/// The name of a container's port.
pub(crate) fn is_port_name(text: &str) -> bool {
    is_label(text)
        && text.len() <= 15
        && !text.contains("--")
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";

    type Form = fn(&str) -> bool;

    /// Each form with the pattern that it stands for, as the CRDs and Kubernetes write it.
    fn forms() -> Vec<(Form, String)> {
        vec![
            (is_label, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$".to_owned()),
            (is_subdomain, format!("^{SUBDOMAIN}$")),
            (is_kind, r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$".to_owned()),
            (is_domain_prefixed_path, format!(r"^{SUBDOMAIN}\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$")),
            (is_protocol, format!(r"^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|{SUBDOMAIN}\/[A-Za-z0-9]+$")),
            (
                is_address_type,
                format!(r"^Hostname|IPAddress|NamedAddress|{SUBDOMAIN}\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$"),
            ),
            (is_token, r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$".to_owned()),
            (is_absolute_uri, r"^(([^:/?#]+):)(//([^/?#]*))([^?#]*)(\?([^#]*))?(#(.*))?".to_owned()),
            (
                is_cors_origin,
                r"(^\*$)|(^(http(s)?):\/\/(((\*\.)?([a-zA-Z0-9\-]+\.)*[a-zA-Z0-9-]+|\*)(:([0-9]{1,5}))?)$)"
                    .to_owned(),
            ),
            (is_label_value, r"^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$".to_owned()),
            (is_qualified_name, format!(r"^({SUBDOMAIN}/)?([A-Za-z0-9][-A-Za-z0-9_.]{{0,61}})?[A-Za-z0-9]$")),
            (
                is_well_known_cas,
                format!(r"^(System|({SUBDOMAIN}/([A-Za-z0-9][-A-Za-z0-9_.]{{0,61}})?[A-Za-z0-9]))$"),
            ),
        ]
    }

    #[test]
    fn edges_agree_with_the_patterns() {
        let long = "a".repeat(63);
        let too_long = "a".repeat(64);
        let words = [
            "",
            "a",
            "-",
            "-a",
            "a-",
            "a.b",
            "a..b",
            ".a",
            "a.",
            "A",
            "a_b",
            "a/b",
            "a/",
            "/a",
            "a.b/c/d",
            "a/B-",
            "HTTP",
            "example.com/foo",
            "!!example.com/foo",
            "Foo/bar",
            "Hostname",
            "HostnameX",
            "XHostname",
            "XIPAddressX",
            "NamedAddress",
            "http://a",
            "https://*.a.b:80",
            "http://*",
            "http://a:",
            "http://a:123456",
            "*",
            "**",
            "ftp://a",
            "http://*.",
            "spiffe://a/b",
            "://a",
            "a:/b",
            "System",
            "Systems",
            "k8s.io/x y",
            "ä",
            "a b",
            "x?://a",
            &long,
            &too_long,
        ];
        for (form, pattern) in forms() {
            let regex = Regex::new(&pattern).unwrap();
            for word in words {
                assert_eq!(form(word), regex.is_match(word), "`{word}` and {pattern}");
            }
        }
    }

    #[test]
    fn names_of_ports_and_data() {
        for name in ["http", "a", "8080x", "a-b"] {
            assert!(is_port_name(name), "{name}");
        }
        for name in ["", "8080", "a--b", "-a", "HTTP", "sixteen-letters-"] {
            assert!(!is_port_name(name), "{name}");
        }
        for key in ["tls.crt", "A_b-c", ".hidden", "a..b"] {
            assert!(is_data_key(key), "{key}");
        }
        for key in ["", ".", "..", "..a", "a/b", "a b", "ä"] {
            assert!(!is_data_key(key), "{key}");
        }
    }

    #[test]
    fn amounts() {
        for text in ["1", "0.5", ".5", "1.", "500m", "64Mi", "+1k", "-1", "1e3", "2E-3", "5E", "1Ei"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "m", ".", "1.2.3", "1 Mi", "64MB", "1ki", "1e", "1e+", "0x10", "--1", "1Mi5"] {
            assert!(!is_quantity(text), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn agrees_with_the_patterns(
            word in r"((https?|spiffe)://)?(\*\.?)?([a-cA-C0-9]|[-._/:*%~! ]|Hostname|IPAddress){0,10}(:[0-9]{0,6})?"
        ) {
            for (form, pattern) in forms() {
                prop_assert_eq!(form(&word), Regex::new(&pattern).unwrap().is_match(&word), "{}", pattern);
            }
        }
    }
}
