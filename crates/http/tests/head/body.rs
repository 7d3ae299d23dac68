//! What must hold for any bytes of HTTP/1.1: no panic, the same however they are cut into pieces, and nothing taken that
//! httparse would not take, or take for something else. The fuzz target `head` runs this, too.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap};
use tidegate_http::h1::{Decoder, Length, LineEnds, Piece, Scan, read_request, read_response};

/// Headers that are looked at; more are refused by both.
const MOST: usize = 64;

pub(crate) fn check(bytes: &[u8]) {
    for ends in [LineEnds::Strict, LineEnds::Lenient] {
        let Some((head, lines)) = head(bytes, ends) else { continue };
        match ends {
            LineEnds::Strict => request(&head, lines),
            LineEnds::Lenient => response(&head, lines),
        }
    }
    for ends in [LineEnds::Strict, LineEnds::Lenient] {
        let whole = body(bytes, ends, bytes.len().max(1));
        for size in [1, 2, 7] {
            assert_eq!(body(bytes, ends, size), whole, "in pieces of {size}");
        }
    }
}

/// The head at the beginning, and how many lines it has.
fn head(bytes: &[u8], ends: LineEnds) -> Option<(Bytes, usize)> {
    let mut scan = Scan::new(ends);
    let whole = scan.end(bytes);
    let mut slow = Scan::new(ends);
    let first = (0..=bytes.len()).map(|end| slow.end(&bytes[..end])).find(|found| *found != Ok(None));
    assert_eq!(first.unwrap_or(Ok(None)), whole);
    let end = whole.ok()??;
    let head = &bytes[..end];
    if ends == LineEnds::Strict {
        let bare =
            head.iter().enumerate().find(|(at, byte)| **byte == b'\n' && (*at == 0 || head[at - 1] != b'\r'));
        assert_eq!(bare, None);
    }
    (scan.lines > 0).then(|| (Bytes::copy_from_slice(head), scan.lines))
}

fn request(head: &Bytes, lines: usize) {
    let Ok(message) = read_request(head, lines, MOST) else { return };
    let mut headers = [httparse::EMPTY_HEADER; MOST];
    let mut oracle = httparse::Request::new(&mut headers);
    let read = oracle.parse(head).expect("what we take is a request");
    assert_eq!(read, httparse::Status::Complete(head.len()));
    assert_eq!(Some(message.parts.method.as_str()), oracle.method);
    assert_eq!(message.parts.uri, oracle.path.unwrap_or_default().parse::<http::Uri>().expect("a target"));
    same(&message.parts.headers, oracle.headers);
}

fn response(head: &Bytes, lines: usize) {
    let Ok(mut message) = read_response(head, lines, MOST, &http::Method::GET) else { return };
    let mut headers = [httparse::EMPTY_HEADER; MOST];
    let mut oracle = httparse::Response::new(&mut headers);
    let read = oracle.parse(head).expect("what we take is an answer");
    assert_eq!(read, httparse::Status::Complete(head.len()));
    assert_eq!(Some(message.parts.status.as_u16()), oracle.code);
    // Of its lengths one is left at most, and none beside another framing (RFC 9112 6.3).
    assert!(message.parts.headers.get_all(CONTENT_LENGTH).iter().count() <= 1);
    message.parts.headers.remove(CONTENT_LENGTH);
    let is_length =
        |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case(CONTENT_LENGTH.as_str());
    let others: Vec<_> = oracle.headers.iter().filter(|header| !is_length(header)).copied().collect();
    same(&message.parts.headers, &others);
}

fn same(headers: &HeaderMap, oracle: &[httparse::Header<'_>]) {
    assert_eq!(headers.len(), oracle.len());
    for header in oracle {
        let mut values = headers.get_all(header.name).iter();
        assert!(values.any(|value| value.as_bytes() == header.value), "{}", header.name);
    }
}

/// What chunks in pieces of this size come to, and how many bytes are left; `None` for what is no body.
fn body(bytes: &[u8], ends: LineEnds, size: usize) -> Option<(Vec<u8>, HeaderMap, Option<usize>)> {
    let mut decoder = Decoder::new(Length::Chunked, ends);
    let (mut rest, mut data, mut trailers) = (BytesMut::new(), Vec::new(), HeaderMap::new());
    let mut left = bytes.len();
    for piece in bytes.chunks(size) {
        rest.extend_from_slice(piece);
        left -= piece.len();
        loop {
            match decoder.take(&mut rest).ok()? {
                Piece::Data(piece) => data.extend_from_slice(&piece),
                Piece::Trailers(all) => trailers = all,
                Piece::End => return Some((data, trailers, Some(left + rest.len()))),
                Piece::More => break,
            }
        }
    }
    Some((data, trailers, None))
}
