//! Fields of a line as text or as JSON, written into a buffer that is there already. Whatever a peer had a hand in is
//! escaped, so that it can neither end a line nor pretend to be a field of one.
//!
//! A line is a good part of what a request costs outside the kernel: names are constants with all that stands around
//! them, and nothing goes through the core library's formatting that is in every line.

use std::fmt::{self, Display, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use tidegate_plan::{BackendId, ListenerId, ObjectName, RouteId};

use super::time::rfc3339;

pub(super) struct Fields<'o, const JSON: bool>(pub(super) &'o mut Vec<u8>);

/// Begins a field; its value follows.
macro_rules! field {
    ($fields:ident, $name:literal) => {
        $fields.name(concat!(" ", $name, "=").as_bytes(), concat!(",\"", $name, "\":").as_bytes())
    };
}
pub(super) use field;

/// Of one value no more than this is written.
const LONGEST: usize = 512;

/// What most lines have room in.
const USUAL: usize = 512;

impl<const JSON: bool> Fields<'_, JSON> {
    pub(super) fn begin(&mut self, start: SystemTime) {
        self.0.reserve(USUAL);
        if JSON {
            self.0.extend_from_slice(b"{\"start\":\"");
        }
        self.0.extend_from_slice(&rfc3339(start));
        if JSON {
            self.0.push(b'"');
        }
    }

    pub(super) fn end(&mut self) {
        self.0.extend_from_slice(if JSON { b"}\n" } else { b"\n" });
    }

    /// Inlined, so that what is copied has a length that the compiler knows.
    #[inline(always)]
    pub(super) fn name(&mut self, text: &'static [u8], json: &'static [u8]) -> &mut Self {
        if JSON {
            self.0.extend_from_slice(json);
        } else {
            self.0.extend_from_slice(text);
        }
        self
    }

    pub(super) fn text(&mut self, value: &[u8]) {
        self.0.push(b'"');
        escape::<JSON>(&value[..value.len().min(LONGEST)], self.0);
        self.0.push(b'"');
    }

    pub(super) fn shown(&mut self, value: &dyn Display) {
        self.0.push(b'"');
        let mut escaping = Escaping::<JSON> { out: self.0, left: LONGEST };
        // It fails only to stop a value that is too long.
        let _ = write!(escaping, "{value}");
        self.0.push(b'"');
    }

    /// These three as they show themselves, in parts: that takes a third of the time.
    pub(super) fn listener(&mut self, id: &ListenerId) {
        if id.listener_set.is_some() {
            return self.shown(id);
        }
        self.0.push(b'"');
        self.object(&id.gateway);
        self.0.push(b'/');
        escape::<JSON>(id.name.as_bytes(), self.0);
        self.0.push(b'"');
    }

    pub(super) fn route(&mut self, id: &RouteId) {
        self.kind(id.kind.as_str());
        self.object(&id.object);
        self.0.push(b'"');
    }

    pub(super) fn backend(&mut self, id: &BackendId) {
        if !id.transport.is_tcp() {
            return self.shown(id);
        }
        self.kind(id.kind.as_str());
        self.object(&id.object);
        self.0.push(b':');
        decimal(id.port.into(), self.0);
        self.0.push(b'"');
    }

    fn kind(&mut self, kind: &str) {
        self.0.push(b'"');
        self.0.extend_from_slice(kind.as_bytes());
        self.0.push(b' ');
    }

    fn object(&mut self, id: &ObjectName) {
        escape::<JSON>(id.namespace.as_bytes(), self.0);
        self.0.push(b'/');
        escape::<JSON>(id.name.as_bytes(), self.0);
    }

    pub(super) fn number(&mut self, value: u64) {
        decimal(value, self.0);
    }

    pub(super) fn seconds(&mut self, value: Duration) {
        decimal(value.as_secs(), self.0);
        let mut digits = *b".000000";
        let mut left = value.subsec_micros();
        for digit in digits[1..].iter_mut().rev() {
            *digit += (left % 10) as u8;
            left /= 10;
        }
        self.0.extend_from_slice(&digits);
    }

    pub(super) fn address(&mut self, value: SocketAddr) {
        if JSON {
            self.0.push(b'"');
        }
        match value.ip().to_canonical() {
            IpAddr::V4(v4) => {
                let (mut text, mut length) = ([0; LONGEST_V4], 0);
                for byte in v4.octets() {
                    length = octet(byte, &mut text, length);
                }
                // Without the last dot.
                self.0.extend_from_slice(&text[..length - 1]);
            }
            IpAddr::V6(v6) => {
                // A vector takes all that it is given.
                let _ = std::io::Write::write_fmt(self.0, format_args!("[{v6}]"));
            }
        }
        self.0.push(b':');
        decimal(value.port().into(), self.0);
        if JSON {
            self.0.push(b'"');
        }
    }
}

/// An address of version 4 with a dot behind each number.
const LONGEST_V4: usize = 4 * 4;

/// Writes a number and a dot, and says where they end.
fn octet(byte: u8, text: &mut [u8; LONGEST_V4], mut at: usize) -> usize {
    if byte >= 100 {
        text[at] = b'0' + byte / 100;
        at += 1;
    }
    if byte >= 10 {
        text[at] = b'0' + byte / 10 % 10;
        at += 1;
    }
    text[at] = b'0' + byte % 10;
    text[at + 1] = b'.';
    at + 2
}

pub(super) fn decimal(number: u64, out: &mut Vec<u8>) {
    if let Ok(byte @ 0..10) = u8::try_from(number) {
        out.push(b'0' + byte);
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}

/// Printable ASCII stays as it is. Any other byte is written as its number: in JSON as the character of that number,
/// which keeps lines valid whatever the bytes are.
fn escape<const JSON: bool>(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    if bytes.iter().all(|byte| PLAIN[usize::from(*byte)]) {
        out.extend_from_slice(bytes);
        return;
    }
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => {
                out.extend_from_slice(if JSON { b"\\u00" } else { b"\\x" });
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
}

/// Bytes that are written as they are.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = !matches!(byte, b'"' | b'\\');
        byte += 1;
    }
    plain
};

/// Escapes what is displayed, up to a length.
struct Escaping<'o, const JSON: bool> {
    out: &'o mut Vec<u8>,
    left: usize,
}

impl<const JSON: bool> Write for Escaping<'_, JSON> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let bytes = &text.as_bytes()[..text.len().min(self.left)];
        self.left -= bytes.len();
        escape::<JSON>(bytes, self.out);
        if bytes.len() < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
