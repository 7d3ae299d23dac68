//! What the heads of requests and answers have in common: lines of headers, and what they say of the message itself.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::lines::lines;

/// Why a head is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("a line is not what a head has")]
    Malformed,
    #[error("the length of the body cannot be told")]
    Length,
    #[error("more than one Content-Length is there")]
    SeveralLengths,
    #[error("both Content-Length and Transfer-Encoding are there")]
    TwoLengths,
    #[error("the Transfer-Encoding is not chunked and nothing else")]
    TransferEncoding,
    #[error("there are too many headers")]
    TooMany,
}

/// A message's head, and how its body is told from what comes after.
#[derive(Debug)]
pub struct Message<P> {
    pub parts: P,
    pub length: Length,
    /// Another message may follow on the connection.
    pub persists: bool,
    /// The client waits to be told to go on, and takes trailers.
    pub expects: bool,
    pub trailers: bool,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Exact(u64),
    Chunked,
    /// As long as the connection lasts.
    ToTheEnd,
}

/// What lines of headers say of the message.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) length: Option<u64>,
    /// More than one line tells it.
    pub(super) is_repeated: bool,
    pub(super) encoding: Option<Encoding>,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) expects: bool,
    pub(super) trailers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Chunked and nothing else.
    Chunked,
    /// Chunked at last.
    AlsoChunked,
    Other,
}

/// The first line of a head, and the headers after it. `count`: lines that there are.
pub(super) fn read_headers(
    head: &Bytes,
    count: usize,
    most: usize,
) -> Result<(&[u8], HeaderMap, Told), HeadError> {
    if count > most + 1 {
        return Err(HeadError::TooMany);
    }
    let mut lines = lines(head);
    let first = lines.next().ok_or(HeadError::Malformed)?;
    // With room for one more: an answer over HTTP/2 gets a date, and a map that grows is made anew.
    let mut headers = HeaderMap::with_capacity(count);
    let mut told = Told::default();
    for line in lines {
        let (name, value) = read_header(head, line)?;
        told.hear(&name, &value)?;
        headers.append(name, value);
    }
    Ok((&head[first], headers, told))
}

/// A value is a part of the head, and keeps all of it.
fn read_header(head: &Bytes, line: std::ops::Range<usize>) -> Result<(HeaderName, HeaderValue), HeadError> {
    let text = &head[line.clone()];
    let colon = memchr::memchr(b':', text).ok_or(HeadError::Malformed)?;
    let name = HeaderName::from_bytes(&text[..colon]).map_err(|_| HeadError::Malformed)?;
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let rest = &text[colon + 1..];
    let before = rest.iter().take_while(|byte| is_space(byte)).count();
    let after = rest[before..].iter().rev().take_while(|byte| is_space(byte)).count();
    let value = head.slice(line.start + colon + 1 + before..line.end - after);
    let value = HeaderValue::from_maybe_shared(value).map_err(|_| HeadError::Malformed)?;
    Ok((name, value))
}

/// Trailers, which look like the headers of a head.
pub(super) fn read_trailers(section: &Bytes, most: usize) -> Result<HeaderMap, HeadError> {
    let mut trailers = HeaderMap::new();
    for (count, line) in lines(section).enumerate() {
        if count == most {
            return Err(HeadError::TooMany);
        }
        let (name, value) = read_header(section, line)?;
        if !is_of_framing(&name) {
            trailers.append(name, value);
        }
    }
    Ok(trailers)
}

/// What has no place in trailers, where it would come too late (RFC 9110 6.5.1).
pub(super) fn is_of_framing(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::CONTENT_LENGTH
            | header::TRANSFER_ENCODING
            | header::HOST
            | header::TRAILER
            | header::CONNECTION
    )
}

impl Told {
    fn hear(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), HeadError> {
        match *name {
            header::CONTENT_LENGTH => {
                let length = decimal(value.as_bytes()).ok_or(HeadError::Length)?;
                self.is_repeated = self.length.is_some();
                if self.length.is_some_and(|other| other != length) {
                    return Err(HeadError::Length);
                }
                self.length = Some(length);
            }
            header::TRANSFER_ENCODING => {
                let last = value.as_bytes().rsplit(|byte| *byte == b',').next().unwrap_or_default();
                self.encoding = Some(if !last.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    Encoding::Other
                } else if self.encoding.is_none() && last.len() == value.len() {
                    Encoding::Chunked
                } else {
                    Encoding::AlsoChunked
                });
            }
            header::CONNECTION => {
                for token in tokens(value) {
                    self.close |= token.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            header::EXPECT => self.expects |= value.as_bytes().eq_ignore_ascii_case(b"100-continue"),
            header::TE => self.trailers |= tokens(value).any(|token| token.eq_ignore_ascii_case(b"trailers")),
            _ => {}
        }
        Ok(())
    }
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Digits and nothing else.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
