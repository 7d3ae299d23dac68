//! The small values of the API. Once read, a value of these types is right.

use std::fmt;
use std::sync::Arc;

use tidegate_plan::Hostname;

use crate::read::{At, Read, Whole, text};
use crate::tree::Node;

/// Declares a string with a bound and a form.
macro_rules! texts {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident: $min:literal to $max:literal, $valid:expr, $expect:literal;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// `None` where the text breaks the form.
            #[must_use]
            pub fn new(text: &str) -> Option<Self> {
                let valid: fn(&str) -> bool = $valid;
                (text.len() >= $min && text.len() <= $max && valid(text)).then(|| Self(text.into()))
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The same text, shared.
            #[must_use]
            pub fn shared(&self) -> Arc<str> {
                Arc::clone(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }

        impl Read for $name {
            fn read(node: &Node, at: &mut At) -> Option<Self> {
                let text = text(node, at)?;
                if text.len() < $min {
                    at.wrong("too-short", node, format!("{} of {} characters", stringify!($name), text.len()), concat!("write ", $expect));
                } else if text.len() > $max {
                    at.wrong("too-long", node, format!("{} characters where at most {} may be", text.len(), $max), concat!("write ", $expect));
                } else if let Some(value) = Self::new(text) {
                    return Some(value);
                } else {
                    at.wrong("form", node, format!("`{}` is not {}", shorten(text), $expect), "");
                }
                None
            }
        }
    )*};
}

texts! {
    /// The name of an object.
    pub struct ObjectName: 1 to 253, |_| true, "the name of an object";
    pub struct Namespace: 1 to 63, is_label, "a namespace: lower-case letters, digits and `-`";
    /// A listener, a rule or a Service port by name.
    pub struct SectionName: 1 to 253, is_subdomain, "a name of lower-case letters, digits, `-` and `.`";
    /// Empty is the core group.
    pub struct Group: 0 to 253, |text| text.is_empty() || is_subdomain(text), "an API group such as gateway.networking.k8s.io, or \"\" for the core group";
    pub struct Kind: 1 to 63, is_kind, "a kind such as Service";
    pub struct ControllerName: 1 to 253, is_domain_prefixed_path, "a controller name such as example.net/gateway-controller";
    pub struct Protocol: 1 to 255, is_protocol, "a protocol: HTTP, HTTPS, TLS, TCP, UDP, or a domain-prefixed one such as example.com/foo";
    pub struct AddressType: 1 to 253, is_address_type, "an address type: IPAddress, Hostname, NamedAddress, or a domain-prefixed one";
    pub struct HeaderName: 1 to 256, is_token, "a header name: letters, digits and !#$%&'*+-.^_`|~";
    pub struct AbsoluteUri: 1 to 253, is_absolute_uri, "an absolute URI such as spiffe://example.com/service";
    pub struct CorsOrigin: 1 to 253, is_cors_origin, "an origin: `*`, or scheme://host[:port] with http or https";
    pub struct CookieName: 1 to 256, is_token, "a cookie name: letters, digits and !#$%&'*+-.^_`|~";
    pub struct AnnotationValue: 0 to 4096, |_| true, "at most 4096 characters";
    pub struct LabelValue: 0 to 63, is_label_value, "a label value: letters, digits, `-`, `_` and `.`";
    pub struct WellKnownCas: 1 to 253, is_well_known_cas, "`System`, or a domain-prefixed name such as example.com/bundle";
}

/// 1 to 65535.
pub type Port = Whole<1, 65535>;

/// The port as the network has it.
#[must_use]
pub fn port_number(port: Port) -> u16 {
    u16::try_from(port.get()).expect("a port is at most 65535")
}

/// A length of time such as `1h30m`, `500ms`, `0s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub std::time::Duration);

impl Duration {
    /// One to four numbers of up to five digits, each with its unit; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let mut milliseconds = 0u64;
        let mut parts = 0;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, unit) = rest.split_at_checked(digits)?;
            if number.is_empty() || number.len() > 5 {
                return None;
            }
            let (length, scale) = match unit.as_bytes() {
                [b'm', b's', ..] => (2, 1),
                [b'h', ..] => (1, 3_600_000),
                [b'm', ..] => (1, 60_000),
                [b's', ..] => (1, 1_000),
                _ => return None,
            };
            milliseconds += number.parse::<u64>().ok()? * scale;
            rest = &unit[length..];
            parts += 1;
        }
        (1..=4).contains(&parts).then_some(Self(std::time::Duration::from_millis(milliseconds)))
    }

    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl Read for Duration {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let text = text(node, at)?;
        let duration = Self::parse(text);
        if duration.is_none() {
            at.wrong(
                "form",
                node,
                format!("`{}` is not a duration", shorten(text)),
                "write whole numbers with units, such as 10s, 500ms or 1h30m",
            );
        }
        duration
    }
}

/// A hostname, wildcards allowed.
impl Read for Hostname {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let text = text(node, at)?;
        match Self::parse(text) {
            // The CRDs have no room for the forms that only the network has.
            Ok(hostname) if hostname.as_str() == text => Some(hostname),
            Ok(hostname) => {
                at.wrong(
                    "form",
                    node,
                    format!("`{}` is not written as a hostname", shorten(text)),
                    format!("write {hostname}: lower case, no dot at the end"),
                );
                None
            }
            Err(error) => {
                at.wrong(
                    "form",
                    node,
                    format!("`{}` is not a hostname: {error}", shorten(text)),
                    "write a name such as www.example.com or *.example.com",
                );
                None
            }
        }
    }
}

/// A hostname without a wildcard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreciseHostname(pub Hostname);

impl Read for PreciseHostname {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let hostname = Hostname::read(node, at)?;
        if hostname.is_wildcard() {
            at.wrong(
                "form",
                node,
                format!("`{hostname}` has a wildcard, and one name belongs here"),
                "write a name such as www.example.com",
            );
            return None;
        }
        Some(Self(hostname))
    }
}

/// Messages repeat what was written, but not without end.
pub(crate) fn shorten(text: &str) -> String {
    if text.chars().count() <= 80 {
        text.to_owned()
    } else {
        text.chars().take(77).chain("...".chars()).collect()
    }
}

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

fn is_kind(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.ends_with('-')
}

/// `example.com/some/path`
fn is_domain_prefixed_path(text: &str) -> bool {
    text.split_once('/').is_some_and(|(domain, path)| {
        is_subdomain(domain)
            && !path.is_empty()
            && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte))
    })
}

fn is_well_known_cas(text: &str) -> bool {
    let name = |name: &str| !name.is_empty() && name.len() <= 63 && is_label_value(name);
    text == "System" || text.split_once('/').is_some_and(|(domain, rest)| is_subdomain(domain) && name(rest))
}

fn is_protocol(text: &str) -> bool {
    let word = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !text.starts_with('-')
            && !text.ends_with('-')
    };
    match text.split_once('/') {
        None => word(text),
        Some((domain, name)) => {
            is_subdomain(domain) && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }
    }
}

fn is_address_type(text: &str) -> bool {
    matches!(text, "IPAddress" | "Hostname" | "NamedAddress") || is_domain_prefixed_path(text)
}

fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn is_absolute_uri(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(scheme, _)| !scheme.is_empty() && !scheme.contains([':', '/', '?', '#']))
}

fn is_cors_origin(text: &str) -> bool {
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

fn is_label_value(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && edge(text.bytes().next())
        && edge(text.bytes().last())
}
