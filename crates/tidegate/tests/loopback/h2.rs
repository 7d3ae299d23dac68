//! HTTP/2 as raw frames: it sends whatever a test says, also what no library would, and tells what came back.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self { kind, flags, stream, payload: payload.into() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], self.kind, self.flags];
        bytes.extend_from_slice(&self.stream.to_be_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// The error code of RST_STREAM and GOAWAY.
    pub(crate) fn code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        Some(u32::from_be_bytes(self.payload.get(at..at + 4)?.try_into().ok()?))
    }
}

/// A block of headers, each written out in full and none remembered.
pub(crate) fn block<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name.as_ref(), value.as_ref()] {
            number(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

/// With a prefix of seven bits (RFC 7541 5.1).
fn number(block: &mut Vec<u8>, mut number: usize) {
    if number < 127 {
        return block.push(number as u8);
    }
    block.push(127);
    number -= 127;
    while number >= 128 {
        block.push(number as u8 | 128);
        number >>= 7;
    }
    block.push(number as u8);
}

/// The four that each request begins with.
pub(crate) fn request<'a>(method: &'a str, path: &'a str, authority: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![(":method", method), (":scheme", "http"), (":path", path), (":authority", authority)]
}

pub(crate) struct Client<S = TcpStream> {
    stream: S,
    read: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    /// With these settings, as identifiers and values.
    pub(crate) fn start(mut stream: S, settings: &[(u16, u32)]) -> Self {
        stream.write_all(PREFACE).unwrap();
        let mut client = Self { stream, read: Vec::new() };
        let pairs = settings.iter().flat_map(|(id, value)| {
            id.to_be_bytes().into_iter().chain(value.to_be_bytes()).collect::<Vec<_>>()
        });
        client.send(&Frame::new(SETTINGS, 0, 0, pairs.collect::<Vec<u8>>())).unwrap();
        client
    }

    pub(crate) fn send(&mut self, frame: &Frame) -> io::Result<()> {
        self.stream.write_all(&frame.bytes())
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// A request with all of its headers in one frame.
    pub(crate) fn ask<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        stream: u32,
        fields: &[(N, V)],
        flags: u8,
    ) -> io::Result<()> {
        self.send(&Frame::new(HEADERS, END_HEADERS | flags, stream, block(fields)))
    }

    pub(crate) fn socket(&self) -> &S {
        &self.stream
    }

    /// The next frame; `None` at the end, however it came.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.parse() {
                return Ok(Some(frame));
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(None),
                Ok(count) => self.read.extend_from_slice(&buffer[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// How a stream was answered, with settings and pings acknowledged on the way.
    pub(crate) fn answer(&mut self, stream: u32) -> io::Result<Answer> {
        let mut status = None;
        while let Some(frame) = self.next()? {
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => {
                    let _ = self.send(&Frame::new(SETTINGS, ACK, 0, []));
                }
                PING if frame.flags & ACK == 0 => {
                    let _ = self.send(&Frame::new(PING, ACK, 0, frame.payload));
                }
                GOAWAY if frame.code() != Some(0) => return Ok(Answer::Gone(frame.code())),
                RST_STREAM if frame.stream == stream && status.is_none() => {
                    return Ok(Answer::Reset(frame.code()));
                }
                HEADERS if frame.stream == stream => {
                    status = status.or(read_status(&frame.payload));
                    if frame.flags & END_STREAM != 0 {
                        return Ok(Answer::Status(status.unwrap_or(0)));
                    }
                }
                DATA if frame.stream == stream && frame.flags & END_STREAM != 0 => {
                    return Ok(Answer::Status(status.unwrap_or(0)));
                }
                _ => {}
            }
        }
        Ok(status.map_or(Answer::Gone(None), Answer::Status))
    }

    fn parse(&mut self) -> Option<Frame> {
        let length = usize::from(*self.read.first()?) << 16
            | usize::from(*self.read.get(1)?) << 8
            | usize::from(*self.read.get(2)?);
        if self.read.len() < 9 + length {
            return None;
        }
        let rest = self.read.split_off(9 + length);
        let whole = std::mem::replace(&mut self.read, rest);
        let stream = u32::from_be_bytes(whole[5..9].try_into().unwrap()) & !(1 << 31);
        Some(Frame { kind: whole[3], flags: whole[4], stream, payload: whole[9..].to_vec() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(u16),
    /// The stream was reset, with this code.
    Reset(Option<u32>),
    /// The connection was ended, with this code if one was told.
    Gone(Option<u32>),
}

/// The status at the beginning of a block (RFC 7541 Appendix A, and B for the digits).
fn read_status(block: &[u8]) -> Option<u16> {
    let mut block = block;
    // The size of the table may be told first.
    while block.first()? & 0xe0 == 0x20 {
        block = &block[1..];
    }
    match block[0] {
        byte @ 0x88..=0x8e => Some([200, 204, 206, 304, 400, 404, 500][usize::from(byte - 0x88)]),
        0x08 | 0x18 | 0x48 => {
            let length = usize::from(block.get(1)? & 0x7f);
            let text = block.get(2..2 + length)?;
            if block[1] & 0x80 == 0 { std::str::from_utf8(text).ok()?.parse().ok() } else { digits(text) }
        }
        _ => None,
    }
}

fn digits(coded: &[u8]) -> Option<u16> {
    let bits: Vec<u8> = coded.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let take = |from: usize, count: usize| {
        bits.get(from..from + count)
            .map(|bits| bits.iter().fold(0_u16, |number, bit| number << 1 | u16::from(*bit)))
    };
    let (mut at, mut status) = (0, 0);
    for _ in 0..3 {
        let (digit, length) = match take(at, 5)? {
            short @ 0..=2 => (short, 5),
            _ => (take(at, 6)?.checked_sub(0b01_1001)? + 3, 6),
        };
        status = status * 10 + digit;
        at += length;
    }
    Some(status)
}

#[test]
fn statuses_are_read() {
    assert_eq!(read_status(&[0x8c]), Some(400));
    assert_eq!(read_status(&[0x20, 0x88]), Some(200));
    assert_eq!(read_status(b"\x08\x03405"), Some(405));
    // 302, as in RFC 7541 C.6.1.
    assert_eq!(read_status(&[0x48, 0x82, 0x64, 0x02]), Some(302));
}
