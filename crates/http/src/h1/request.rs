//! The head of a request.

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Uri, Version};

use super::head::{Encoding, HeadError, Length, Message, read_headers};

/// Reads a head that [`Scan`](super::Scan) found to be whole and to have so many lines. At most `most` of them may be
/// headers.
pub fn read_request(head: &Bytes, lines: usize, most: usize) -> Result<Message<Parts>, HeadError> {
    let (line, headers, told) = read_headers(head, lines, most)?;
    let (method, target, version) = read_line(line)?;
    // RFC 9110 8.6 lets lines that agree be one, or be refused. No client has a use for them, and who stands before or
    // behind us may go by another of them.
    if told.is_repeated {
        return Err(HeadError::SeveralLengths);
    }
    let length = match (told.length, told.encoding) {
        (Some(_), Some(_)) => return Err(HeadError::TwoLengths),
        // What is encoded in another way as well would reach the backend without a word of it.
        (None, Some(Encoding::Chunked)) if version == Version::HTTP_11 => Length::Chunked,
        (None, Some(_)) => return Err(HeadError::TransferEncoding),
        (length, None) => Length::Exact(length.unwrap_or(0)),
    };
    let target = Uri::from_maybe_shared(head.slice_ref(target)).map_err(|_| HeadError::Malformed)?;
    let mut parts = http::Request::new(()).into_parts().0;
    parts.method = method;
    parts.uri = target;
    parts.version = version;
    parts.headers = headers;
    let is_new = version == Version::HTTP_11;
    Ok(Message {
        parts,
        length,
        persists: !told.close && (is_new || told.keep_alive),
        expects: told.expects && is_new && length != Length::Exact(0),
        trailers: told.trailers && is_new,
    })
}

/// `GET /path HTTP/1.1`, with one space between them.
fn read_line(line: &[u8]) -> Result<(Method, &[u8], Version), HeadError> {
    let space = memchr::memchr(b' ', line).ok_or(HeadError::Malformed)?;
    let (method, rest) = (&line[..space], &line[space + 1..]);
    let (target, version) = rest
        .len()
        .checked_sub(VERSION)
        .and_then(|end| rest.split_at_checked(end))
        .ok_or(HeadError::Malformed)?;
    let version = match version {
        b" HTTP/1.1" => Version::HTTP_11,
        b" HTTP/1.0" => Version::HTTP_10,
        _ => return Err(HeadError::Malformed),
    };
    // A URI does not look at its fragment.
    if !target.iter().all(|byte| *byte > b' ' && *byte != 0x7f) || str::from_utf8(target).is_err() {
        return Err(HeadError::Malformed);
    }
    Ok((Method::from_bytes(method).map_err(|_| HeadError::Malformed)?, target, version))
}

/// Bytes of a version with the space before it.
const VERSION: usize = 9;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::h1::{LineEnds, Scan};
    use crate::testing::lines;

    fn read(text: &str) -> Result<Message<Parts>, HeadError> {
        let head = Bytes::copy_from_slice(text.as_bytes());
        let mut scan = Scan::new(LineEnds::Strict);
        assert_eq!(scan.end(&head)?, Some(head.len()), "{text:?}");
        read_request(&head, scan.lines, 100)
    }

    fn of(lines: &str) -> Result<Message<Parts>, HeadError> {
        read(&format!("POST /a?b HTTP/1.1\r\n{lines}\r\n"))
    }

    #[test]
    fn a_request_is_read() {
        let read =
            read("GET /a?b=%20 HTTP/1.1\r\nHost: a.test\r\nX-A:\t1 2 \t\r\nx-a:\r\nCookie: \u{e4}\r\n\r\n");
        let Message { parts, length, persists, expects, trailers } = read.unwrap();
        assert_eq!((parts.method.as_str(), parts.uri.to_string().as_str()), ("GET", "/a?b=%20"));
        assert_eq!(parts.version, Version::HTTP_11);
        let values: Vec<&[u8]> = parts.headers.get_all("x-a").iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(values, [&b"1 2"[..], b""]);
        assert_eq!(parts.headers["cookie"].as_bytes(), "\u{e4}".as_bytes());
        assert_eq!((length, persists, expects, trailers), (Length::Exact(0), true, false, false));
    }

    #[test]
    fn what_is_no_first_line_is_refused() {
        for line in [
            "GET /",
            "GET  / HTTP/1.1",
            "GET / HTTP/1.1 ",
            "GET /\tHTTP/1.1",
            " GET / HTTP/1.1",
            "GET / HTTP/1.2",
            "GET / HTTP/2.0",
            "GET / http/1.1",
            "GET /a b HTTP/1.1",
            "GET /a#b c HTTP/1.1",
            "GET HTTP/1.1",
            "G\u{e4}T / HTTP/1.1",
            "GET /\u{7f} HTTP/1.1",
            "/ HTTP/1.1",
        ] {
            assert_eq!(read(&format!("{line}\r\n\r\n")).err(), Some(HeadError::Malformed), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        for line in
            ["a", ": b", " a: b", "a : b", "a\t: b", "a: \0", "a: \u{7f}", "a: b\rc", "\u{e4}: b", "a b: c"]
        {
            assert_eq!(of(&format!("{line}\r\n")).err(), Some(HeadError::Malformed), "{line:?}");
        }
    }

    #[test]
    fn there_is_one_way_to_tell_a_length() {
        for (lines, expected) in [
            ("", Ok(Length::Exact(0))),
            ("Content-Length: 5\r\n", Ok(Length::Exact(5))),
            ("Content-Length: 05\r\n", Ok(Length::Exact(5))),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", Err(HeadError::SeveralLengths)),
            ("Content-Length: 5\r\nContent-Length: 05\r\n", Err(HeadError::SeveralLengths)),
            ("Content-Length: 18446744073709551615\r\n", Ok(Length::Exact(u64::MAX))),
            ("Content-Length: 18446744073709551616\r\n", Err(HeadError::Length)),
            ("Content-Length: 5\r\nContent-Length: 6\r\n", Err(HeadError::Length)),
            ("Content-Length: +5\r\n", Err(HeadError::Length)),
            ("Content-Length:\r\n", Err(HeadError::Length)),
            ("Content-Length: 5, 5\r\n", Err(HeadError::Length)),
            ("Transfer-Encoding: Chunked\r\n", Ok(Length::Chunked)),
            ("Transfer-Encoding: gzip, chunked\r\n", Err(HeadError::TransferEncoding)),
            ("Transfer-Encoding: ,chunked\r\n", Err(HeadError::TransferEncoding)),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                Err(HeadError::TransferEncoding),
            ),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", Err(HeadError::TransferEncoding)),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Err(HeadError::TwoLengths)),
            ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", Err(HeadError::TwoLengths)),
        ] {
            assert_eq!(of(lines).map(|message| message.length), expected, "{lines:?}");
        }
        let old = read("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(old.err(), Some(HeadError::TransferEncoding));
    }

    #[test]
    fn who_stays() {
        for (version, connection, expected) in [
            ("1.1", "x", true),
            ("1.1", "keep-alive, Close", false),
            ("1.0", "x", false),
            ("1.0", "Keep-Alive", true),
            ("1.0", "keep-alive, close", false),
        ] {
            let text = format!("GET / HTTP/{version}\r\nConnection: {connection}\r\n\r\n");
            assert_eq!(read(&text).unwrap().persists, expected, "{text:?}");
        }
    }

    #[test]
    fn who_waits_and_who_takes_trailers() {
        let asked = of("Content-Length: 1\r\nExpect: 100-Continue\r\nTE: gzip, Trailers\r\n").unwrap();
        assert!(asked.expects && asked.trailers);
        assert!(!of("Expect: 100-continue\r\n").unwrap().expects, "there is nothing to wait with");
    }

    #[test]
    fn headers_are_counted() {
        let head = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        assert_eq!(lines(&read(&head(100)).unwrap().parts.headers).len(), 100);
        assert_eq!(read(&head(101)).err(), Some(HeadError::TooMany));
    }
}
