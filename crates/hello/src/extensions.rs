//! The extensions of a ClientHello: all of them are walked, each may be there once, and the few that a proxy
//! needs are read. GREASE (RFC 8701) needs no rule here, since what is unknown is skipped.

use crate::cursor::Cursor;
use crate::error::{HelloError, Part};
use crate::lists::{Alpn, VersionList};
use crate::name::SniName;

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

const HOST_NAME: u8 = 0;

#[derive(Default)]
pub(crate) struct Extensions<'a> {
    pub(crate) server_name: Option<SniName>,
    pub(crate) alpn: Alpn<'a>,
    pub(crate) supported_versions: Option<VersionList<'a>>,
    pub(crate) ech: bool,
    pub(crate) early_data: bool,
}

impl<'a> Extensions<'a> {
    pub(crate) fn read(list: &'a [u8]) -> Result<Self, HelloError> {
        let mut found = Self::default();
        let mut types = TypesSeen::default();
        let mut list = Cursor::new(list);
        while !list.is_empty() {
            let extension_type = list.u16().ok_or(HelloError::BadLength(Part::Extensions))?;
            let data = list.long().ok_or(HelloError::BadLength(Part::Extensions))?;
            if !types.is_new(extension_type) {
                return Err(HelloError::DuplicateExtension { extension_type });
            }
            // RFC 8446 4.2.11: its binders cover all that stands before it.
            if extension_type == PRE_SHARED_KEY && !list.is_empty() {
                return Err(HelloError::PreSharedKeyNotLast);
            }
            found.take_up(extension_type, data)?;
        }
        Ok(found)
    }

    fn take_up(&mut self, extension_type: u16, data: &'a [u8]) -> Result<(), HelloError> {
        match extension_type {
            SERVER_NAME => self.server_name = Some(server_name(data)?),
            ALPN => self.alpn = Alpn::read(data)?,
            SUPPORTED_VERSIONS => self.supported_versions = Some(VersionList::read(data)?),
            ENCRYPTED_CLIENT_HELLO => self.ech = true,
            EARLY_DATA => {
                if !data.is_empty() {
                    return Err(HelloError::BadLength(Part::EarlyData));
                }
                self.early_data = true;
            }
            _ => {}
        }
        Ok(())
    }
}

/// RFC 6066 3 allows one name of each type and has defined one type. Servers differ in what they make of a
/// second entry, so there must be none.
fn server_name(data: &[u8]) -> Result<SniName, HelloError> {
    let mut data = Cursor::new(data);
    let list = data.long().ok_or(HelloError::BadLength(Part::ServerName))?;
    if !data.is_empty() {
        return Err(HelloError::BadLength(Part::ServerName));
    }
    let mut list = Cursor::new(list);
    let Some(name_type) = list.u8() else { return Err(HelloError::ServerNameEmpty) };
    if name_type != HOST_NAME {
        return Err(HelloError::ServerNameType { name_type });
    }
    let name = list.long().ok_or(HelloError::BadLength(Part::ServerName))?;
    if !list.is_empty() {
        return Err(HelloError::SeveralServerNames);
    }
    SniName::read(name)
}

/// One bit per extension type: a hello can hold 16,000 extensions, too many to compare each with each.
struct TypesSeen([u64; 1024]);

impl Default for TypesSeen {
    fn default() -> Self {
        Self([0; 1024])
    }
}

impl TypesSeen {
    fn is_new(&mut self, extension_type: u16) -> bool {
        let word = &mut self.0[usize::from(extension_type / 64)];
        let bit = 1 << (extension_type % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}
