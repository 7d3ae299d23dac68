//! The small values of the API. Once read, a value of these types is right.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use tidegate_plan::{Hostname, HostnameError};

use crate::form::{
    is_absolute_uri, is_address_type, is_cors_origin, is_domain_prefixed_path, is_kind, is_label,
    is_label_value, is_protocol, is_subdomain, is_token, is_well_known_cas,
};
use crate::read::{At, Read, Whole, text};
use crate::tree::{Node, Value};

/// Declares a string with a bound and a form.
macro_rules! texts {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident: $min:literal to $max:literal, $valid:expr, $what:literal, $hint:literal;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// `None` where the text breaks the form.
            #[must_use]
            pub fn new(text: &str) -> Option<Self> {
                let valid: fn(&str) -> bool = $valid;
                (length_fits(text, $min, $max).is_eq() && valid(text)).then(|| Self(text.into()))
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
                let valid: fn(&str) -> bool = $valid;
                let text = text(node, at)?;
                match length_fits(text, $min, $max) {
                    Ordering::Less => at.wrong("too-short", node, concat!($what, " cannot be empty"), $hint),
                    Ordering::Greater => too_long(node, at, text, $what, $max, $hint),
                    Ordering::Equal if valid(text) => return Some(Self(text.into())),
                    Ordering::Equal => {
                        at.wrong("form", node, format!("{} is not {}", quote(text), $what), $hint);
                    }
                }
                at.stand_in(Self(text.into()))
            }

            fn placeholder() -> Self {
                Self("".into())
            }
        }
    )*};
}

texts! {
    /// The name of an object. The CRDs bound only its length: a name that no object can have finds none.
    pub struct ObjectName: 1 to 253, |_| true, "the name of an object", "write its metadata.name";
    pub struct Namespace: 1 to 63, is_label, "a namespace", "use lower-case letters, digits and `-`, beginning and ending with a letter or digit";
    /// A listener, a rule or a Service port by name.
    pub struct SectionName: 1 to 253, is_subdomain, "a name", "use lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit";
    /// Empty is the core group.
    pub struct Group: 0 to 253, |text| text.is_empty() || is_subdomain(text), "an API group", "write one such as gateway.networking.k8s.io without a version, or \"\" for the core group";
    pub struct Kind: 1 to 63, is_kind, "a kind", "write one such as Service: letters, digits and `-`";
    pub struct ControllerName: 1 to 253, is_domain_prefixed_path, "a controller name", "write a domain and a path, such as example.net/gateway-controller";
    pub struct Protocol: 1 to 255, is_protocol, "a protocol", "write HTTP, HTTPS, TLS, TCP, UDP, or a domain-prefixed one such as example.com/foo";
    pub struct AddressType: 1 to 253, is_address_type, "an address type", "write IPAddress, Hostname, NamedAddress, or a domain-prefixed one such as example.com/foo";
    pub struct HeaderName: 1 to 256, is_token, "a name", "use letters, digits and !#$%&'*+-.^_`|~";
    pub struct AbsoluteUri: 1 to 253, is_absolute_uri, "an absolute URI", "write one such as spiffe://example.com/service";
    pub struct CorsOrigin: 1 to 253, is_cors_origin, "an origin", "write `*`, or http:// or https:// with a host and an optional port, without a path";
    pub struct CookieName: 1 to 256, is_token, "a cookie name", "use letters, digits and !#$%&'*+-.^_`|~";
    pub struct AccountName: 1 to 63, is_label, "the name of an ACME account", "use lower-case letters, digits and `-`, beginning and ending with a letter or digit";
    pub struct AnnotationValue: 0 to 4096, |_| true, "a value here", "make it shorter, or put it into a ConfigMap";
    pub struct LabelValue: 0 to 63, is_label_value, "a label value", "use letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit";
    pub struct WellKnownCas: 1 to 253, is_well_known_cas, "a well-known set of CA certificates", "write `System`, or a domain-prefixed name such as example.com/roots";
}

/// Less, equal or greater as `text` is too short, right or too long, counted in characters as API servers do.
fn length_fits(text: &str, min: usize, max: usize) -> Ordering {
    let length = if text.len() <= max { text.len() } else { text.chars().count() };
    if length > max {
        Ordering::Greater
    } else if length < min {
        Ordering::Less
    } else {
        Ordering::Equal
    }
}

fn too_long(node: &Node, at: &mut At, text: &str, what: &str, max: usize, hint: &str) {
    let length = text.chars().count();
    at.wrong("too-long", node, format!("{what} has at most {max} characters, and this has {length}"), hint);
}

/// 1 to 65535.
pub type Port = Whole<1, 65535>;

/// The port as the network has it. Only in an object that is refused can it be another.
#[must_use]
pub fn port_number(port: Port) -> u16 {
    u16::try_from(port.get()).unwrap_or_default()
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
        if let Value::Number(number) | Value::BareNumber(number, _) = &node.value {
            let seconds = if number.is_u64() { format!("{number}s") } else { "500ms".to_owned() };
            let help = format!("write whole numbers with units, such as \"{seconds}\"");
            at.wrong("type", node, format!("expected a duration, found the number {number}"), help);
            return None;
        }
        let text = text(node, at)?;
        let duration = Self::parse(text);
        if duration.is_none() {
            at.wrong(
                "form",
                node,
                format!("{} is not a duration", quote(text)),
                "write whole numbers with units, such as 10s, 500ms or 1h30m",
            );
        }
        duration
    }

    fn placeholder() -> Self {
        Self(std::time::Duration::ZERO)
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
                    format!("{} is not written as a hostname", quote(text)),
                    format!("write {hostname}: lower case, no dot at the end"),
                );
                at.stand_in(hostname)
            }
            Err(HostnameError::Empty) => {
                at.wrong(
                    "too-short",
                    node,
                    "a hostname cannot be empty",
                    "leave it out, or write a name such as www.example.com",
                );
                None
            }
            Err(error) => {
                at.wrong(
                    "form",
                    node,
                    format!("{} cannot be a hostname: {error}", quote(text)),
                    "write a name such as www.example.com or *.example.com",
                );
                None
            }
        }
    }

    fn placeholder() -> Self {
        Self::parse("placeholder").expect("it is a name")
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

    fn placeholder() -> Self {
        Self(Hostname::placeholder())
    }
}

/// What was written, in a message.
pub(crate) fn quote(text: &str) -> String {
    if text.is_empty() { "an empty string".to_owned() } else { format!("`{}`", shorten(text)) }
}

/// Messages repeat what was written, but not without end.
pub(crate) fn shorten(text: &str) -> String {
    if text.chars().count() <= 80 {
        text.to_owned()
    } else {
        text.chars().take(77).chain("...".chars()).collect()
    }
}

#[cfg(test)]
mod tests;
