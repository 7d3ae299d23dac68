//! Names what a client speaks that does not speak TLS, for the log alone: the connection is refused either way.
//! The guess is made from the bytes that are there when the first wrong one is noticed, often a single one.

use crate::error::HelloError;

/// The most telling guess for bytes that do not begin with a TLS record.
pub(crate) fn recognise(bytes: &[u8]) -> HelloError {
    OPENINGS
        .iter()
        .find(|opening| opening.fits(bytes))
        .map(|opening| opening.error)
        .or_else(|| is_sslv2(bytes).then_some(HelloError::LooksLikeSslv2))
        .unwrap_or(HelloError::NotTls { first: bytes.first().copied().unwrap_or_default() })
}

struct Opening {
    bytes: &'static [u8],
    /// How many bytes must agree: one where hardly anything else begins so, more where much does.
    telling: usize,
    error: HelloError,
}

impl Opening {
    fn fits(&self, seen: &[u8]) -> bool {
        let common = seen.len().min(self.bytes.len());
        common >= self.telling && seen[..common] == self.bytes[..common]
    }
}

const fn http(method: &'static str) -> Opening {
    Opening { bytes: method.as_bytes(), telling: 1, error: HelloError::LooksLikeHttp }
}

/// The first that fits wins: a lone `P` is HTTP's before it is the PROXY protocol's.
const OPENINGS: &[Opening] = &[
    http("GET "),
    http("HEAD "),
    http("POST "),
    http("PUT "),
    http("DELETE "),
    http("OPTIONS "),
    http("CONNECT "),
    http("TRACE "),
    http("PATCH "),
    http("PRI * HTTP/2.0\r\n"),
    Opening { bytes: b"SSH-", telling: 1, error: HelloError::LooksLikeSsh },
    Opening { bytes: b"PROXY ", telling: 2, error: HelloError::LooksLikeProxyProtocol },
    Opening { bytes: b"\r\n\r\n\0\r\nQUIT\n", telling: 4, error: HelloError::LooksLikeProxyProtocol },
    Opening {
        bytes: &[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f],
        telling: 8,
        error: HelloError::LooksLikePostgres,
    },
];

/// A two-byte header with its highest bit set, then CLIENT-HELLO and a version. Even clients that can do no
/// better than TLS 1.0 were seen to open so.
fn is_sslv2(bytes: &[u8]) -> bool {
    match bytes {
        [header, _, 1, version @ ..] if header & 0x80 != 0 => {
            version.is_empty()
                || version.starts_with(&[3])
                || [0, 2].starts_with(&version[..version.len().min(2)])
        }
        _ => false,
    }
}
