//! The name in the server_name extension, in the one spelling that routing compares: lower case, no dot at the
//! end. A name that does not fit a DNS host name is refused rather than cleaned up, since nobody can tell what
//! the server would make of it, and because it goes into logs.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::error::HelloError;

const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A valid DNS host name, lower-cased and without a trailing dot. Kept in place, so that a connection can hold
/// it without an allocation.
#[derive(Clone)]
pub struct SniName {
    len: u8,
    /// ASCII up to `len`.
    bytes: [u8; MAX_NAME],
}

impl SniName {
    pub(crate) fn read(sent: &[u8]) -> Result<Self, HelloError> {
        let name = sent.strip_suffix(b".").unwrap_or(sent);
        if name.is_empty() {
            return Err(HelloError::ServerNameEmpty);
        }
        if is_ip_address(name) {
            return Err(HelloError::ServerNameIsIpAddress);
        }
        let (Ok(len), true) = (u8::try_from(name.len()), is_host_name(name)) else {
            return Err(HelloError::ServerNameInvalid);
        };
        let mut bytes = [0; MAX_NAME];
        let kept = bytes.get_mut(..name.len()).ok_or(HelloError::ServerNameInvalid)?;
        kept.copy_from_slice(name);
        kept.make_ascii_lowercase();
        Ok(Self { len, bytes })
    }

    pub fn as_str(&self) -> &str {
        // `read` let nothing but ASCII in, so the default is never taken.
        str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

fn is_host_name(name: &[u8]) -> bool {
    name.len() <= MAX_NAME
        && name.split(|byte| *byte == b'.').all(is_label)
        // What ends in a number is meant as an address somewhere: `127.1` is loopback to many resolvers.
        && name.rsplit(|byte| *byte == b'.').next().is_some_and(|last| !last.iter().all(u8::is_ascii_digit))
}

/// Letters, digits, hyphens inside; and underscores, which no host name has but many names in use do.
fn is_label(label: &[u8]) -> bool {
    (1..=MAX_LABEL).contains(&label.len())
        && label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        && !label.starts_with(b"-")
        && !label.ends_with(b"-")
}

fn is_ip_address(name: &[u8]) -> bool {
    let Ok(name) = str::from_utf8(name) else { return false };
    let unbracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let without_zone = unbracketed.split_once('%').map_or(unbracketed, |(address, _)| address);
    name.parse::<Ipv4Addr>().is_ok() || without_zone.parse::<Ipv6Addr>().is_ok()
}

impl AsRef<str> for SniName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for SniName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for SniName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for SniName {}

/// As `str` hashes, which `Borrow` promises.
impl Hash for SniName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for SniName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for SniName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
