//! Hostnames as listeners and routes write them, and the algebra on which every decision about names rests.

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A DNS name, or a wildcard for all names below one: lower case, ASCII, no trailing dot, no IP address.
///
/// `*.example.com` stands for names with one or more labels before `example.com`, never for `example.com`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hostname {
    /// With the `*.` where there is one.
    text: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostnameError {
    #[error("a hostname cannot be empty")]
    Empty,
    #[error("a hostname has at most 253 characters")]
    TooLong,
    #[error("a label of a hostname has 1 to 63 characters")]
    LabelLength,
    #[error("a hostname has only letters, digits, `-` and `.`, and no label begins or ends with `-`")]
    Character,
    #[error("names outside ASCII are written as A-labels (`xn--...`)")]
    NotAscii,
    #[error("a wildcard is `*` as the whole first label, followed by a name")]
    Wildcard,
    #[error("an IP address is not a hostname")]
    IpAddress,
}

impl Hostname {
    /// Reads a name in any case, with or without a trailing dot.
    pub fn parse(text: &str) -> Result<Self, HostnameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(HostnameError::Empty);
        }
        if !text.is_ascii() {
            return Err(HostnameError::NotAscii);
        }
        if text.len() > 253 {
            return Err(HostnameError::TooLong);
        }
        let name = text.strip_prefix("*.").unwrap_or(text);
        if name.contains('*') {
            return Err(HostnameError::Wildcard);
        }
        if is_ip_address(name) {
            return Err(HostnameError::IpAddress);
        }
        name.split('.').try_for_each(check_label)?;
        Ok(Self { text: text.to_ascii_lowercase().into() })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.text.starts_with("*.")
    }

    /// The name itself, or what follows the `*.`.
    #[must_use]
    pub fn base(&self) -> &str {
        self.text.strip_prefix("*.").unwrap_or(&self.text)
    }

    /// Whether this name, or this wildcard, stands for `name`, which is in lower case and has no trailing dot.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        if self.is_wildcard() { is_below(name, self.base()) } else { name == &*self.text }
    }

    /// Whether every name that `other` stands for is one of ours.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        self.is_wildcard() && is_below(other.base(), self.base())
    }

    /// The names that both stand for: always one of the two, or nothing.
    #[must_use]
    pub fn intersection<'a>(&'a self, other: &'a Self) -> Option<&'a Self> {
        if self.covers(other) {
            Some(other)
        } else if other.covers(self) {
            Some(self)
        } else {
            None
        }
    }

    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.intersection(other).is_some()
    }

    /// Number of labels, the `*` not counted.
    #[must_use]
    pub fn labels(&self) -> usize {
        self.base().split('.').count()
    }

    /// More specific first: exact names before wildcards, wildcards with more labels before those with fewer,
    /// equals by their text.
    #[must_use]
    pub fn by_specificity(&self, other: &Self) -> Ordering {
        let rank = |host: &Self| {
            if host.is_wildcard() { (1, usize::MAX - host.labels()) } else { (0, 0) }
        };
        rank(self).cmp(&rank(other)).then_with(|| self.text.cmp(&other.text))
    }
}

/// Ordered by specificity, the most specific first.
impl Ord for Hostname {
    fn cmp(&self, other: &Self) -> Ordering {
        self.by_specificity(other)
    }
}

impl PartialOrd for Hostname {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn is_below(name: &str, base: &str) -> bool {
    name.len() > base.len() + 1
        && name.ends_with(base)
        && name.as_bytes()[name.len() - base.len() - 1] == b'.'
}

/// Also in brackets, and in the short and numeric forms that resolvers take for IPv4 (`127.1`, `0x7f000001`).
fn is_ip_address(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok() || name.split('.').all(is_number)
}

fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x").or_else(|| label.strip_prefix("0X")) {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

fn check_label(label: &str) -> Result<(), HostnameError> {
    if label.is_empty() || label.len() > 63 {
        return Err(HostnameError::LabelLength);
    }
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !label.bytes().all(inner) || label.starts_with('-') || label.ends_with('-') {
        return Err(HostnameError::Character);
    }
    Ok(())
}

impl FromStr for Hostname {
    type Err = HostnameError;

    fn from_str(text: &str) -> Result<Self, HostnameError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Hostname {
    type Error = HostnameError;

    fn try_from(text: String) -> Result<Self, HostnameError> {
        Self::parse(&text)
    }
}

impl From<Hostname> for String {
    fn from(hostname: Hostname) -> Self {
        hostname.text.as_ref().to_owned()
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hostname({})", self.text)
    }
}

#[cfg(test)]
#[path = "hostname_tests.rs"]
mod tests;
