//! The head of an answer.

use bytes::Bytes;
use http::header;
use http::response::Parts;
use http::{Method, StatusCode, Version};

use super::head::{Encoding, HeadError, Length, Message, read_headers};
use crate::hop;

/// Reads a head that [`Scan`](super::Scan) found to be whole and to have so many lines, as the answer to a request with
/// this method. At most `most` of its lines may be headers.
pub fn read_response(
    head: &Bytes,
    lines: usize,
    most: usize,
    asked: &Method,
) -> Result<Message<Parts>, HeadError> {
    let (line, mut headers, told) = read_headers(head, lines, most)?;
    let (version, status) = read_line(line)?;
    let is_new = version == Version::HTTP_11;
    let length = if *asked == Method::HEAD || is_bare(status) {
        Length::Exact(0)
    } else {
        match (told.encoding, told.length) {
            // With a length beside it the encoding has the last word (RFC 9112 6.3).
            (Some(Encoding::Chunked), _) if is_new => Length::Chunked,
            (Some(_), _) => return Err(HeadError::TransferEncoding),
            (None, Some(length)) => Length::Exact(length),
            (None, None) => Length::ToTheEnd,
        }
    };
    if told.encoding.is_some() && told.length.is_some() {
        // A length that does not count must not be passed on either.
        headers.remove(header::CONTENT_LENGTH);
    } else if told.is_repeated {
        hop::settle_length(&mut headers);
    }
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = status;
    parts.version = version;
    parts.headers = headers;
    let persists = length != Length::ToTheEnd && !told.close && (is_new || told.keep_alive);
    Ok(Message { parts, length, persists, expects: false, trailers: true })
}

/// Whether answers with this status have no body.
pub(super) fn is_bare(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// `HTTP/1.1 200 OK`, where the words may be missing.
fn read_line(line: &[u8]) -> Result<(Version, StatusCode), HeadError> {
    let (version, rest) = line.split_at_checked(VERSION).ok_or(HeadError::Malformed)?;
    let version = match version {
        b"HTTP/1.1 " => Version::HTTP_11,
        b"HTTP/1.0 " => Version::HTTP_10,
        _ => return Err(HeadError::Malformed),
    };
    let (status, words) = rest.split_at_checked(3).ok_or(HeadError::Malformed)?;
    let is_text = words.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..));
    if !matches!(words.first(), None | Some(b' ')) || !is_text {
        return Err(HeadError::Malformed);
    }
    Ok((version, StatusCode::from_bytes(status).map_err(|_| HeadError::Malformed)?))
}

/// Bytes of a version with the space behind it.
const VERSION: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::{LineEnds, Scan};

    fn read(text: &str, method: &Method) -> Result<Message<Parts>, HeadError> {
        let head = Bytes::copy_from_slice(text.as_bytes());
        let mut scan = Scan::new(LineEnds::Lenient);
        assert_eq!(scan.end(&head)?, Some(head.len()), "{text:?}");
        read_response(&head, scan.lines, 100, method)
    }

    #[test]
    fn first_lines() {
        for (line, expected) in [
            ("HTTP/1.1 200 OK", Ok(200)),
            ("HTTP/1.1 404", Ok(404)),
            ("HTTP/1.0 299 ", Ok(299)),
            ("HTTP/1.1 999 any \u{e4} words", Ok(999)),
            ("HTTP/1.1  200 OK", Err(HeadError::Malformed)),
            ("HTTP/1.1 20 OK", Err(HeadError::Malformed)),
            ("HTTP/1.1 2000", Err(HeadError::Malformed)),
            ("HTTP/1.1 200 \0", Err(HeadError::Malformed)),
            ("HTTP/2 200 OK", Err(HeadError::Malformed)),
            ("200 OK", Err(HeadError::Malformed)),
            ("SSH-2.0-x", Err(HeadError::Malformed)),
        ] {
            for end in ["\r\n", "\n"] {
                let read = read(&format!("{line}{end}{end}"), &Method::GET);
                assert_eq!(read.map(|message| message.parts.status.as_u16()), expected, "{line:?}");
            }
        }
    }

    #[test]
    fn lengths() {
        let get = Method::GET;
        for (head, method, length, persists) in [
            ("1.1 200\r\nContent-Length: 5", &get, Ok(Length::Exact(5)), true),
            ("1.1 200\r\nContent-Length: 5", &Method::HEAD, Ok(Length::Exact(0)), true),
            ("1.1 204\r\nContent-Length: 5", &get, Ok(Length::Exact(0)), true),
            ("1.1 304\r\nContent-Length: 5", &get, Ok(Length::Exact(0)), true),
            ("1.1 103", &get, Ok(Length::Exact(0)), true),
            ("1.1 200", &get, Ok(Length::ToTheEnd), false),
            ("1.0 200\r\nConnection: keep-alive", &get, Ok(Length::ToTheEnd), false),
            ("1.0 200\r\nContent-Length: 5", &get, Ok(Length::Exact(5)), false),
            ("1.0 200\r\nContent-Length: 5\r\nConnection: keep-alive", &get, Ok(Length::Exact(5)), true),
            ("1.1 200\r\nContent-Length: 5\r\nConnection: close", &get, Ok(Length::Exact(5)), false),
            ("1.1 200\r\nTransfer-Encoding: chunked", &get, Ok(Length::Chunked), true),
            ("1.1 200\r\nTransfer-Encoding: chunked\r\nContent-Length: 5", &get, Ok(Length::Chunked), true),
            ("1.1 200\r\nTransfer-Encoding: gzip, chunked", &get, Err(HeadError::TransferEncoding), false),
            ("1.0 200\r\nTransfer-Encoding: chunked", &get, Err(HeadError::TransferEncoding), false),
            ("1.1 200\r\nContent-Length: 5\r\nContent-Length: 5", &get, Ok(Length::Exact(5)), true),
            ("1.1 200\r\nContent-Length: 5\r\nContent-Length: 6", &get, Err(HeadError::Length), false),
        ] {
            let read = read(&format!("HTTP/{head}\r\n\r\n"), method);
            assert_eq!(read.as_ref().map(|message| message.length).map_err(|error| *error), length, "{head}");
            assert_eq!(read.is_ok_and(|message| message.persists), persists, "{head}");
        }
    }

    /// A length is passed on once, and only where it is the length.
    #[test]
    fn lengths_that_are_passed_on() {
        for (lines, left) in [
            ("Content-Length: 5", 1),
            ("Content-Length: 5\r\nX: y\r\nContent-Length: 5", 1),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", 0),
            ("Content-Length: 5\r\nTransfer-Encoding: chunked", 0),
        ] {
            let message = read(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n"), &Method::GET).unwrap();
            let lengths = message.parts.headers.get_all("content-length").iter().count();
            assert_eq!(lengths, left, "{lines}");
        }
    }
}
