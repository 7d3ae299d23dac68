//! The two lists of a hello that a proxy looks into, application protocols and TLS versions. Their form is
//! checked once when they are read; walking them later cannot fail and leaves GREASE (RFC 8701) out.

use std::fmt;

use crate::cursor::Cursor;
use crate::error::{HelloError, Part};

/// The application protocols a client offers, best first.
#[derive(Clone, Copy, Default)]
pub struct Alpn<'a> {
    /// One or more non-empty names, each after its length; empty if the extension is not there.
    list: &'a [u8],
}

impl<'a> Alpn<'a> {
    pub(crate) fn read(data: &'a [u8]) -> Result<Self, HelloError> {
        let error = HelloError::BadLength(Part::Alpn);
        let mut data = Cursor::new(data);
        let list = data.long().ok_or(error)?;
        if list.is_empty() || !data.is_empty() {
            return Err(error);
        }
        let mut names = Cursor::new(list);
        while !names.is_empty() {
            if names.short().ok_or(error)?.is_empty() {
                return Err(HelloError::EmptyAlpnName);
            }
        }
        Ok(Self { list })
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut names = Cursor::new(self.list);
        std::iter::from_fn(move || names.short()).filter(|name| !is_grease(name))
    }

    pub fn contains(&self, protocol: &[u8]) -> bool {
        self.iter().any(|name| name == protocol)
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl fmt::Debug for Alpn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(<[u8]>::escape_ascii).map(|name| name.to_string())).finish()
    }
}

/// The TLS versions a client offers.
#[derive(Clone, Copy)]
pub struct Versions<'a> {
    legacy: Version,
    list: Option<VersionList<'a>>,
}

impl<'a> Versions<'a> {
    pub(crate) fn new(legacy: Version, list: Option<VersionList<'a>>) -> Self {
        // RFC 8446 4.2.1: without the extension nothing above TLS 1.2 can be meant, whatever the field says.
        Self { legacy: legacy.min(Version::TLS_1_2), list }
    }

    /// The versions of the supported_versions extension in the client's order; without that extension, the
    /// highest one the client knows.
    pub fn iter(&self) -> impl Iterator<Item = Version> + use<'a> {
        let listed = self.list.map_or(&[][..], |list| list.0);
        let legacy = self.list.is_none().then_some(self.legacy);
        legacy.into_iter().chain(listed.iter().filter(|bytes| !is_grease(*bytes)).copied().map(Version::from))
    }

    pub fn contains(&self, version: Version) -> bool {
        self.iter().any(|offered| offered == version)
    }
}

impl fmt::Debug for Versions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The supported_versions extension, of any number of versions above none.
#[derive(Clone, Copy)]
pub(crate) struct VersionList<'a>(&'a [[u8; 2]]);

impl<'a> VersionList<'a> {
    pub(crate) fn read(data: &'a [u8]) -> Result<Self, HelloError> {
        let mut data = Cursor::new(data);
        match data.short().map(<[u8]>::as_chunks) {
            Some((versions, [])) if !versions.is_empty() && data.is_empty() => Ok(Self(versions)),
            _ => Err(HelloError::BadLength(Part::SupportedVersions)),
        }
    }
}

/// A protocol version as TLS writes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u16);

impl Version {
    pub const TLS_1_0: Self = Self(0x0301);
    pub const TLS_1_1: Self = Self(0x0302);
    pub const TLS_1_2: Self = Self(0x0303);
    pub const TLS_1_3: Self = Self(0x0304);
}

impl From<[u8; 2]> for Version {
    fn from(bytes: [u8; 2]) -> Self {
        Self(u16::from_be_bytes(bytes))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0x0300 => f.write_str("SSL 3.0"),
            minor @ 0x0301..=0x0304 => write!(f, "TLS 1.{}", minor - 0x0301),
            other => write!(f, "{other:#06x}"),
        }
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// RFC 8701 2 reserves the same sixteen values in two bytes for ALPN names and for versions.
fn is_grease(bytes: &[u8]) -> bool {
    matches!(bytes, [high, low] if high == low && high & 0x0f == 0x0a)
}
