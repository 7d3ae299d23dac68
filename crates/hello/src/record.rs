//! One TLS record header, read from however much of it is there. A byte that cannot be right is refused when it
//! comes and not when the header is complete: a client that waits for an answer to something else than TLS would
//! never send the rest.

use crate::error::HelloError;
use crate::foreign;

pub(crate) const HEADER: usize = 5;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
const HEARTBEAT: u8 = 24;

/// RFC 8446 5.1. What may be longer is ciphertext, and no ClientHello is.
const MAX_PAYLOAD: usize = 1 << 14;

pub(crate) struct Record<'a> {
    /// The payload's length by the header.
    pub(crate) len: usize,
    /// As much of the payload as is there.
    pub(crate) payload: &'a [u8],
}

impl Record<'_> {
    pub(crate) fn is_complete(&self) -> bool {
        self.payload.len() == self.len
    }

    pub(crate) fn wire_len(&self) -> usize {
        HEADER + self.len
    }
}

/// Reads the record that `bytes` begin with, or nothing while its header is not complete.
pub(crate) fn read(bytes: &[u8], is_first: bool) -> Result<Option<Record<'_>>, HelloError> {
    let (header, rest) = bytes.split_at(bytes.len().min(HEADER));
    match header.first() {
        None => return Ok(None),
        Some(&HANDSHAKE) => {}
        Some(&content_type) if !is_first => return Err(HelloError::Interleaved { content_type }),
        Some(&ALERT) => return Err(HelloError::Alert),
        Some(&content_type @ (CHANGE_CIPHER_SPEC | APPLICATION_DATA | HEARTBEAT)) => {
            return Err(HelloError::NotHandshake { content_type });
        }
        Some(_) => return Err(foreign::recognise(bytes)),
    }
    // The minor version is to be ignored (RFC 8446 5.1), and clients do send several.
    if let Some(&major) = header.get(1)
        && major != 3
    {
        return Err(HelloError::RecordVersion { major });
    }
    let high = header.get(3).copied().unwrap_or_default();
    let low = header.get(4).copied().unwrap_or_default();
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len > MAX_PAYLOAD {
        return Err(HelloError::RecordTooLong);
    }
    if header.len() < HEADER {
        return Ok(None);
    }
    if len == 0 {
        return Err(HelloError::EmptyRecord);
    }
    let payload = rest.get(..len).unwrap_or(rest);
    Ok(Some(Record { len, payload }))
}
