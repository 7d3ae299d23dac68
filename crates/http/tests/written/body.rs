//! What must hold for any message that we write over HTTP/1.1, whatever HTTP/2 or HTTP/1.1 brought us: it is read back as
//! that one message, with its body and trailers, and nothing is left over. The fuzz target `written` runs this, too.
//!
//! A line with method, target and version or with a status, lines of headers, an empty line, the body with `|` between
//! its frames, an empty line, lines of trailers. What HTTP's own types refuse is no message, and trailers beyond what is
//! ever read are none to be read back.

use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode, Version, request};
use http_body::Frame;
use tidegate_http::h1::{
    Asked, Decoder, Encoder, Length, LineEnds, Outbox, Piece, Scan, TRAILER_BYTES, TRAILER_LINES,
    read_request, read_response, write_request, write_response,
};
use tidegate_http::hop;
use tidegate_http::request::settle;

/// More headers than any message here has.
const MOST: usize = 1000;

pub(crate) fn check(bytes: &[u8]) {
    let Some((first, message)) = parsed(bytes) else { return };
    match StatusCode::from_bytes(first) {
        // What comes before an answer, and upgrades, have no body and are written elsewhere.
        Ok(status) if !status.is_informational() => answered(status, message),
        _ => asked(first, message),
    }
}

struct Message {
    headers: HeaderMap,
    frames: Vec<Bytes>,
    trailers: HeaderMap,
}

fn parsed(bytes: &[u8]) -> Option<(&[u8], Message)> {
    let (head, rest) = cut(bytes);
    let (body, trailers) = cut(rest);
    let (first, lines) = head.split_at(head.iter().position(|byte| *byte == b'\n').unwrap_or(head.len()));
    let frames = body.split(|byte| *byte == b'|').map(Bytes::copy_from_slice).collect();
    let (headers, trailers) = (fields(lines.get(1..).unwrap_or_default())?, fields(trailers)?);
    // With the empty line behind them.
    let bytes: usize = trailers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let can_be_read = trailers.len() <= TRAILER_LINES && bytes + 2 <= TRAILER_BYTES;
    can_be_read.then_some((first, Message { headers, frames, trailers }))
}

/// At the first empty line.
fn cut(bytes: &[u8]) -> (&[u8], &[u8]) {
    let at = bytes.windows(2).position(|two| two == b"\n\n");
    at.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 2..]))
}

fn fields(lines: &[u8]) -> Option<HeaderMap> {
    let mut map = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        map.append(name, HeaderValue::from_bytes(&line[colon + 1..]).ok()?);
    }
    Some(map)
}

/// A request on its way to a backend over HTTP/1.1.
fn asked(first: &[u8], message: Message) {
    let mut words = first.splitn(3, |byte| *byte == b' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return;
    };
    let version = match version {
        b"1.0" => Version::HTTP_10,
        b"2" => Version::HTTP_2,
        _ => Version::HTTP_11,
    };
    let Ok(request) = Request::builder().method(method).uri(target).version(version).body(()) else { return };
    let mut parts = request.into_parts().0;
    parts.headers = message.headers;
    if settle(&mut parts).is_err() {
        return;
    }
    hop::strip_request(&mut parts.headers);
    let total = message.frames.iter().map(Bytes::len).sum::<usize>() as u64;
    for exact in [Some(total), None] {
        let mut out = Outbox::default();
        let encoder = write_request(out.small(), (&parts).into(), || "192.0.2.1:80".to_owned(), exact);
        let text = written(out, encoder, &message.frames, &message.trailers);
        let (head, lines, rest) = head(&text);
        let read = read_request(&head, lines, MOST).expect("what is written is a request");
        same_request(&read.parts, &parts);
        assert_eq!(read.length, exact.map_or(Length::Chunked, Length::Exact));
        let trailers = exact.is_none().then_some(&message.trailers);
        same_body(read.length, rest, &message.frames, trailers);
    }
}

fn same_request(read: &request::Parts, parts: &request::Parts) {
    assert_eq!((&read.method, read.uri.path_and_query()), (&parts.method, parts.uri.path_and_query()));
    let mut expected = parts.headers.clone();
    expected.entry(header::HOST).or_insert(HeaderValue::from_static("192.0.2.1:80"));
    let is_ours = |name: &HeaderName| is_length(name);
    assert_eq!(lines_of(&read.headers, is_ours), lines_of(&expected, is_ours));
    assert_eq!(read.headers.get_all(header::HOST).iter().count(), 1);
}

/// A backend's answer on its way to a client over HTTP/1.1.
fn answered(status: StatusCode, mut message: Message) {
    hop::strip_response(&mut message.headers);
    let total = message.frames.iter().map(Bytes::len).sum::<usize>() as u64;
    for (method, version) in
        [(Method::GET, Version::HTTP_11), (Method::HEAD, Version::HTTP_11), (Method::GET, Version::HTTP_10)]
    {
        for (exact, is_last) in [(Some(total), false), (None, false), (None, true)] {
            let is_head = method == Method::HEAD;
            let trailers = !is_last && version == Version::HTTP_11;
            let mut asked = Asked { is_head, version, trailers, is_last };
            let mut out = Outbox::default();
            let head_of = (status, &message.headers);
            let encoder = write_response(out.small(), head_of.0, head_of.1, exact, b"today", &mut asked);
            let has_body = !encoder.is_done();
            let text = written(out, encoder, &message.frames, &message.trailers);
            let (head, lines, rest) = head(&text);
            let read = read_response(&head, lines, MOST, &method).expect("what is written is an answer");
            assert_eq!(read.parts.status, status);
            let is_ours =
                |name: &HeaderName| is_length(name) || matches!(*name, header::CONNECTION | header::DATE);
            assert_eq!(lines_of(&read.parts.headers, is_ours), lines_of(&message.headers, is_ours));
            assert!(read.parts.headers.contains_key(header::DATE));
            assert_eq!(read.persists, !asked.is_last, "who stays is told so");
            if has_body {
                let trailers = trailers.then_some(&message.trailers);
                same_body(read.length, rest, &message.frames, trailers);
            } else {
                assert!(rest.is_empty());
            }
        }
    }
}

/// A whole message: its head, which is written already, and its body.
fn written(mut out: Outbox, mut encoder: Encoder, frames: &[Bytes], trailers: &HeaderMap) -> Vec<u8> {
    let mut text = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    let mut flush = |out: &mut Outbox| {
        assert!(matches!(out.poll_flush(&mut text, &mut context, || ()), Poll::Ready(Ok(()))));
    };
    flush(&mut out);
    let is_chunked = matches!(encoder, Encoder::Chunked { .. });
    for (at, frame) in frames.iter().enumerate() {
        if encoder.is_done() {
            break;
        }
        let is_last = at + 1 == frames.len() && (trailers.is_empty() || !is_chunked);
        encoder.write(Frame::data(frame.clone()), is_last, &mut out).expect("as long as it was said to be");
        flush(&mut out);
    }
    if !encoder.is_done() {
        encoder.write(Frame::trailers(trailers.clone()), true, &mut out).expect("trailers may follow");
        flush(&mut out);
    }
    assert!(encoder.is_done());
    text
}

/// The head, its lines, and what is behind it; read to the letter.
fn head(text: &[u8]) -> (Bytes, usize, BytesMut) {
    let mut scan = Scan::new(LineEnds::Strict);
    let end = scan.end(text).expect("lines end as they should").expect("the head is whole");
    (Bytes::copy_from_slice(&text[..end]), scan.lines, BytesMut::from(&text[end..]))
}

fn same_body(length: Length, mut rest: BytesMut, frames: &[Bytes], trailers: Option<&HeaderMap>) {
    let mut decoder = Decoder::new(length, LineEnds::Strict);
    let (mut data, mut read) = (Vec::new(), HeaderMap::new());
    loop {
        match decoder.take(&mut rest).expect("what is written is a body") {
            Piece::Data(piece) => data.extend_from_slice(&piece),
            Piece::Trailers(all) => read = all,
            Piece::End => break,
            Piece::More => {
                assert_eq!(length, Length::ToTheEnd, "the body is whole");
                break;
            }
        }
    }
    assert!(rest.is_empty(), "nothing is left over");
    assert_eq!(data, frames.concat());
    let none = HeaderMap::new();
    let expected = if length == Length::Chunked { trailers.unwrap_or(&none) } else { &none };
    let is_framing = |name: &HeaderName| {
        is_length(name) || matches!(*name, header::HOST | header::TRAILER | header::CONNECTION)
    };
    assert_eq!(lines_of(&read, |_| false), lines_of(expected, is_framing));
}

fn is_length(name: &HeaderName) -> bool {
    matches!(*name, header::CONTENT_LENGTH | header::TRANSFER_ENCODING)
}

/// Names and values, apart from some; white space around a value is no part of it.
fn lines_of(headers: &HeaderMap, is_apart: impl Fn(&HeaderName) -> bool) -> Vec<(&str, &[u8])> {
    let mut lines: Vec<_> = headers
        .iter()
        .filter(|(name, _)| !is_apart(name))
        .map(|(name, value)| (name.as_str(), trimmed(value.as_bytes())))
        .collect();
    lines.sort_by_key(|(name, _)| *name);
    lines
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
