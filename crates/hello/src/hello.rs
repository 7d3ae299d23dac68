//! The body of a complete ClientHello. Only what a proxy decides by is kept; everything else is checked as far
//! as it takes to be sure where the next field begins, because a server that finds another boundary finds
//! another name.

use crate::cursor::Cursor;
use crate::error::{HelloError, Part};
use crate::extensions::Extensions;
use crate::lists::{Alpn, Version, Versions};
use crate::name::SniName;

const RANDOM: usize = 32;
const MAX_SESSION_ID: usize = 32;
const NULL_COMPRESSION: u8 = 0;

/// What a client asks for. Borrows from the caller's buffer, or from the reader where the hello was spread over
/// several records.
#[derive(Debug, Clone)]
pub struct Hello<'a> {
    /// The name the client wants to reach, if it gave one. With [`ech`](Self::ech) this is the outer name.
    pub server_name: Option<SniName>,
    /// The application protocols on offer, best first; empty if the client did not say.
    pub alpn: Alpn<'a>,
    /// The protocol versions on offer.
    pub versions: Versions<'a>,
    /// An Encrypted ClientHello is there: real, or made up to look like one (RFC 9849), which only the holder
    /// of its key can tell.
    pub ech: bool,
    /// The client sends 0-RTT data behind the hello without waiting.
    pub early_data: bool,
}

impl<'a> Hello<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, HelloError> {
        let mut body = Cursor::new(body);
        let legacy_version = legacy_version(&mut body)?;
        body.take(RANDOM).ok_or(HelloError::BadLength(Part::Random))?;
        session_id(&mut body)?;
        cipher_suites(&mut body)?;
        compression_methods(&mut body)?;
        let extensions = extensions(&mut body)?;
        Ok(Self {
            server_name: extensions.server_name,
            alpn: extensions.alpn,
            versions: Versions::new(legacy_version, extensions.supported_versions),
            ech: extensions.ech,
            early_data: extensions.early_data,
        })
    }
}

fn legacy_version(body: &mut Cursor<'_>) -> Result<Version, HelloError> {
    let version = body.u16().ok_or(HelloError::BadLength(Part::Version))?;
    match version >> 8 {
        3 => Ok(Version(version)),
        _ => Err(HelloError::HelloVersion { version }),
    }
}

fn session_id(body: &mut Cursor<'_>) -> Result<(), HelloError> {
    match body.short() {
        Some(id) if id.len() <= MAX_SESSION_ID => Ok(()),
        _ => Err(HelloError::BadLength(Part::SessionId)),
    }
}

fn cipher_suites(body: &mut Cursor<'_>) -> Result<(), HelloError> {
    match body.long() {
        Some(suites) if !suites.is_empty() && suites.len().is_multiple_of(2) => Ok(()),
        _ => Err(HelloError::BadLength(Part::CipherSuites)),
    }
}

fn compression_methods(body: &mut Cursor<'_>) -> Result<(), HelloError> {
    match body.short() {
        None | Some([]) => Err(HelloError::BadLength(Part::CompressionMethods)),
        Some(methods) if methods.contains(&NULL_COMPRESSION) => Ok(()),
        Some(_) => Err(HelloError::NoNullCompression),
    }
}

/// Before TLS 1.3 a hello could end without extensions, their length included.
fn extensions<'a>(body: &mut Cursor<'a>) -> Result<Extensions<'a>, HelloError> {
    if body.is_empty() {
        return Ok(Extensions::default());
    }
    let list = body.long().ok_or(HelloError::BadLength(Part::Extensions))?;
    if !body.is_empty() {
        return Err(HelloError::TrailingBytes);
    }
    Extensions::read(list)
}
