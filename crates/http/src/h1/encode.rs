//! Heads and bodies as they are written. Whatever headers say of a body, how it is told from what comes after it is
//! decided here and nowhere else.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Version};
use http_body::Frame;
use tidegate_proxy::Piped;

use super::Outbox;
use super::head::{decimal, is_of_framing};
use super::response::is_bare;
use crate::request::Outgoing;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// There is none, or nothing is left of it.
    Done,
    /// Bytes that are still to be written.
    Exact(u64),
    /// With trailers, if the other side takes them.
    Chunked { trailers: bool },
    /// Until the connection ends.
    ToTheEnd,
}

/// More, or less, came than was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongLength;

const LINE: &[u8] = b"\r\n";

/// The request of a client's, as a backend gets it. `exact`: how long its body is, where that is known.
pub fn write_request(
    out: &mut Vec<u8>,
    Outgoing { head: Parts { method, uri, headers, .. }, announced }: Outgoing<'_>,
    host: impl FnOnce() -> String,
    exact: Option<u64>,
) -> Encoder {
    let beside = announced.map_or(0, |announced| announced.text().len());
    out.reserve(headers.len() * USUAL_LINE + USUAL_LINE + beside);
    out.extend_from_slice(method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(uri.path_and_query().map_or("/", PathAndQuery::as_str).as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    write_lines(out, headers, |name| !is_length(name));
    announced.inspect(|announced| out.extend_from_slice(announced.text()));
    if !headers.contains_key(header::HOST) {
        write_line(out, &header::HOST, host().as_bytes());
    }
    let encoder = match exact {
        None => Encoder::Chunked { trailers: true },
        Some(0) => Encoder::Done,
        Some(exact) => Encoder::Exact(exact),
    };
    // Some servers want a length where there could have been a body.
    if exact.is_some_and(|exact| {
        exact > 0 || expects_body(method) || headers.contains_key(header::CONTENT_LENGTH)
    }) {
        write_length(out, exact.unwrap_or(0));
    }
    if exact.is_none() {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    out.extend_from_slice(LINE);
    encoder
}

/// Room that a line takes, as a guess.
const USUAL_LINE: usize = 64;

const fn expects_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// What is to be known of the request and its connection for the answer to be written.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub is_head: bool,
    pub version: Version,
    pub trailers: bool,
    /// No other request follows.
    pub is_last: bool,
}

/// An answer to a client. `exact`: how long its body is, where that is known.
pub fn write_response(
    out: &mut Vec<u8>,
    status: StatusCode,
    headers: &HeaderMap,
    exact: Option<u64>,
    date: &[u8],
    asked: &mut Asked,
) -> Encoder {
    out.reserve(headers.len() * USUAL_LINE + 2 * USUAL_LINE);
    write_status(out, status);
    let is_old = asked.version < Version::HTTP_11;
    let encoder = if asked.is_head || is_bare(status) {
        Encoder::Done
    } else {
        match exact {
            Some(0) => Encoder::Done,
            Some(exact) => Encoder::Exact(exact),
            None if is_old => Encoder::ToTheEnd,
            None => Encoder::Chunked { trailers: asked.trailers },
        }
    };
    asked.is_last |=
        encoder == Encoder::ToTheEnd || headers.get(header::CONNECTION).is_some_and(|said| said == "close");
    // What there would have been is told by the backend alone.
    let keeps_length = asked.is_head || status == StatusCode::NOT_MODIFIED;
    let switches = status == StatusCode::SWITCHING_PROTOCOLS;
    write_lines(out, headers, |name| match *name {
        header::CONTENT_LENGTH => keeps_length && tells_length(headers),
        header::CONNECTION => switches,
        header::TRANSFER_ENCODING => false,
        _ => true,
    });
    match (encoder, exact) {
        (Encoder::Chunked { .. }, _) => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        (_, Some(exact)) if !keeps_length && !is_bare(status) => write_length(out, exact),
        _ => {}
    }
    if !headers.contains_key(header::DATE) {
        write_line(out, &header::DATE, date);
    }
    match (asked.is_last, is_old) {
        _ if switches => {}
        // Also to who expects nothing else: what we say is HTTP/1.1, where it goes on unless that is said.
        (true, _) => out.extend_from_slice(b"connection: close\r\n"),
        (false, true) => out.extend_from_slice(b"connection: keep-alive\r\n"),
        _ => {}
    }
    out.extend_from_slice(LINE);
    encoder
}

/// Whether there is one length, and it is one: HTTP/2 does not look at it where there is no body.
fn tells_length(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::CONTENT_LENGTH).iter();
    let first = lines.next().and_then(|length| decimal(length.as_bytes()));
    first.is_some() && lines.next().is_none()
}

/// An answer that comes before the answer.
pub(crate) fn write_early(out: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap) {
    write_status(out, status);
    write_lines(out, headers, |name| !is_length(name));
    out.extend_from_slice(LINE);
}

fn write_status(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("Unknown").as_bytes());
    out.extend_from_slice(LINE);
}

fn write_lines(out: &mut Vec<u8>, headers: &HeaderMap, is_wanted: impl Fn(&HeaderName) -> bool) {
    for (name, value) in headers {
        if is_wanted(name) {
            write_line(out, name, value.as_bytes());
        }
    }
}

fn write_line(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(LINE);
}

fn write_length(out: &mut Vec<u8>, length: u64) {
    write_line(out, &header::CONTENT_LENGTH, HeaderValue::from(length).as_bytes());
}

fn is_length(name: &HeaderName) -> bool {
    matches!(*name, header::CONTENT_LENGTH | header::TRANSFER_ENCODING)
}

impl Encoder {
    #[must_use]
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Done)
    }

    /// Writes a part of the body, and its end if nothing follows.
    pub fn write(&mut self, frame: Frame<Bytes>, is_last: bool, out: &mut Outbox) -> Result<(), WrongLength> {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                if let (Self::Chunked { trailers: true }, Ok(trailers)) = (*self, frame.into_trailers()) {
                    out.small().extend_from_slice(b"0\r\n");
                    write_lines(out.small(), &trailers, |name| !is_of_framing(name));
                    out.small().extend_from_slice(LINE);
                    *self = Self::Done;
                }
                return if is_last { self.end(out) } else { Ok(()) };
            }
        };
        match self {
            _ if data.is_empty() => {}
            Self::Done => return Err(WrongLength),
            Self::Exact(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(WrongLength)?;
                let is_all = *left == 0;
                out.push(data, b"");
                if is_all {
                    *self = Self::Done;
                }
            }
            Self::Chunked { .. } => {
                write_size(out.small(), data.len());
                if is_last {
                    *self = Self::Done;
                    out.push(data, b"\r\n0\r\n\r\n");
                } else {
                    out.push(data, LINE);
                }
            }
            Self::ToTheEnd => out.push(data, b""),
        }
        if is_last && *self != Self::Done { self.end(out) } else { Ok(()) }
    }

    /// Whether bytes are written as they are.
    pub(crate) const fn is_plain(self) -> bool {
        matches!(self, Self::Exact(_) | Self::ToTheEnd)
    }

    /// Writes a part of the body that is in a pipe. Only for one that [is plain](Self::is_plain).
    pub(crate) fn write_piped(
        &mut self,
        piped: Piped,
        is_last: bool,
        out: &mut Outbox,
    ) -> Result<(), WrongLength> {
        if let Self::Exact(left) = self {
            *left = left.checked_sub(piped.len() as u64).ok_or(WrongLength)?;
            if *left == 0 {
                *self = Self::Done;
            }
        }
        out.push_piped(piped);
        if is_last { self.end(out) } else { Ok(()) }
    }

    /// The body is over.
    pub fn end(&mut self, out: &mut Outbox) -> Result<(), WrongLength> {
        match std::mem::replace(self, Self::Done) {
            Self::Done | Self::ToTheEnd => Ok(()),
            Self::Exact(_) => Err(WrongLength),
            Self::Chunked { .. } => {
                out.small().extend_from_slice(b"0\r\n\r\n");
                Ok(())
            }
        }
    }
}

/// The line before a chunk.
fn write_size(out: &mut Vec<u8>, size: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|digit| DIGITS[size >> (digit * 4) & 15]));
    out.extend_from_slice(LINE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::headers;

    fn request(method: &str, lines: &[(&str, &str)], exact: Option<u64>) -> (String, Encoder) {
        let mut head = http::Request::builder().method(method).uri("/a?b").body(()).unwrap().into_parts().0;
        head.headers = headers(lines);
        let mut out = Vec::new();
        let encoder = write_request(&mut out, (&head).into(), || "10.0.0.1:80".to_owned(), exact);
        (String::from_utf8(out).unwrap(), encoder)
    }

    #[test]
    fn requests() {
        let host = ("host", "a.test");
        for (method, lines, exact, expected, encoder) in [
            ("GET", &[host, ("x-a", "1")][..], Some(0), "host: a.test\r\nx-a: 1\r\n", Encoder::Done),
            ("GET", &[], Some(0), "host: 10.0.0.1:80\r\n", Encoder::Done),
            ("POST", &[host], Some(0), "host: a.test\r\ncontent-length: 0\r\n", Encoder::Done),
            (
                "DELETE",
                &[host, ("content-length", "0")],
                Some(0),
                "host: a.test\r\ncontent-length: 0\r\n",
                Encoder::Done,
            ),
            (
                "PUT",
                &[host, ("content-length", "7")],
                Some(5),
                "host: a.test\r\ncontent-length: 5\r\n",
                Encoder::Exact(5),
            ),
            (
                "GET",
                &[host, ("transfer-encoding", "x")],
                None,
                "host: a.test\r\ntransfer-encoding: chunked\r\n",
                Encoder::Chunked { trailers: true },
            ),
        ] {
            let expected = format!("{method} /a?b HTTP/1.1\r\n{expected}\r\n");
            assert_eq!(request(method, lines, exact), (expected, encoder), "{method} {lines:?}");
        }
    }

    const NEW: Asked = Asked { is_head: false, version: Version::HTTP_11, trailers: false, is_last: false };

    fn response(
        status: u16,
        lines: &[(&str, &str)],
        exact: Option<u64>,
        mut asked: Asked,
    ) -> (String, Encoder, bool) {
        let mut out = Vec::new();
        let status = StatusCode::from_u16(status).unwrap();
        let encoder = write_response(&mut out, status, &headers(lines), exact, b"now", &mut asked);
        (String::from_utf8(out).unwrap(), encoder, asked.is_last)
    }

    #[test]
    fn responses() {
        let (head, old) = (Asked { is_head: true, ..NEW }, Asked { version: Version::HTTP_10, ..NEW });
        let last = Asked { is_last: true, ..NEW };
        let length = [("content-length", "9")];
        for (status, lines, exact, asked, expected, encoder) in [
            (
                200,
                &[("x-a", "1")][..],
                Some(5),
                NEW,
                "x-a: 1\r\ncontent-length: 5\r\ndate: now\r\n",
                Encoder::Exact(5),
            ),
            (200, &length, Some(0), NEW, "content-length: 0\r\ndate: now\r\n", Encoder::Done),
            (200, &length, Some(0), head, "content-length: 9\r\ndate: now\r\n", Encoder::Done),
            (304, &length, Some(0), NEW, "content-length: 9\r\ndate: now\r\n", Encoder::Done),
            (204, &length, Some(0), NEW, "date: now\r\n", Encoder::Done),
            (
                200,
                &[("date", "then")],
                Some(0),
                last,
                "date: then\r\ncontent-length: 0\r\nconnection: close\r\n",
                Encoder::Done,
            ),
            (
                200,
                &[],
                None,
                NEW,
                "transfer-encoding: chunked\r\ndate: now\r\n",
                Encoder::Chunked { trailers: false },
            ),
            (200, &[], None, old, "date: now\r\nconnection: close\r\n", Encoder::ToTheEnd),
            (
                200,
                &[],
                Some(0),
                old,
                "content-length: 0\r\ndate: now\r\nconnection: keep-alive\r\n",
                Encoder::Done,
            ),
            (
                101,
                &[("connection", "upgrade")],
                Some(0),
                NEW,
                "connection: upgrade\r\ndate: now\r\n",
                Encoder::Done,
            ),
            (
                400,
                &[("connection", "close")],
                Some(0),
                NEW,
                "content-length: 0\r\ndate: now\r\nconnection: close\r\n",
                Encoder::Done,
            ),
        ] {
            let words = StatusCode::from_u16(status).unwrap().canonical_reason().unwrap();
            let written = response(status, lines, exact, asked);
            let is_last = encoder == Encoder::ToTheEnd || expected.contains("close");
            assert_eq!(written, (format!("HTTP/1.1 {status} {words}\r\n{expected}\r\n"), encoder, is_last));
        }
    }

    /// What comes out for frames, of which the last is known to be it or not.
    fn written(mut encoder: Encoder, frames: &[&'static str], is_known: bool) -> Result<String, WrongLength> {
        let mut out = Outbox::default();
        for (at, frame) in frames.iter().enumerate() {
            let is_last = is_known && at + 1 == frames.len();
            encoder.write(Frame::data(Bytes::from_static(frame.as_bytes())), is_last, &mut out)?;
        }
        if !is_known {
            encoder.end(&mut out)?;
        }
        assert!(encoder.is_done());
        Ok(String::from_utf8(out.small().clone()).unwrap())
    }

    #[test]
    fn bodies() {
        let chunked = Encoder::Chunked { trailers: false };
        for (encoder, frames, expected) in [
            (Encoder::Exact(5), &["hel", "", "lo"][..], Ok("hello")),
            (Encoder::Exact(5), &["hello!"], Err(WrongLength)),
            (Encoder::Exact(5), &["hell"], Err(WrongLength)),
            (Encoder::ToTheEnd, &["hel", "lo"], Ok("hello")),
            (
                chunked,
                &["hello", "", "0123456789abcdef"],
                Ok("5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"),
            ),
            (chunked, &[""], Ok("0\r\n\r\n")),
        ] {
            for is_known in [true, false] {
                let written = written(encoder, frames, is_known);
                assert_eq!(written.as_deref().map_err(|error| *error), expected, "{encoder:?} {frames:?}");
            }
        }
    }

    #[test]
    fn trailers_go_where_they_are_wanted() {
        let trailers = headers(&[("x-sum", "1"), ("content-length", "5")]);
        for (is_wanted, expected) in [(true, "0\r\nx-sum: 1\r\n\r\n"), (false, "0\r\n\r\n")] {
            let (mut encoder, mut out) = (Encoder::Chunked { trailers: is_wanted }, Outbox::default());
            encoder.write(Frame::trailers(trailers.clone()), true, &mut out).unwrap();
            assert_eq!(std::str::from_utf8(out.small()).unwrap(), expected);
            assert!(encoder.is_done());
        }
    }
}
