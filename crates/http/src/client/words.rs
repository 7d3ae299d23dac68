//! What the parser of HTTP/1.1 answers by itself, in the words of all other answers: it has a status and nothing else.

use bytes::Bytes;
use http::StatusCode;
use tidegate_proxy::Ending;

use crate::answer::{Cause, answer};
use crate::limits::TooLarge;
use crate::request::BadRequest;

/// The answer with its text, given the parser's; `None` for a status that it is not known to give.
pub(super) fn in_words(refusal: &[u8], reasons: bool) -> Option<(StatusCode, Bytes)> {
    let head = std::str::from_utf8(refusal).ok()?;
    let status = StatusCode::from_bytes(head.as_bytes().get(STATUS)?).ok()?;
    let (cause, ending): (Cause, _) = match status {
        StatusCode::BAD_REQUEST => (BadRequest::Head.into(), Ending::RequestInvalid),
        StatusCode::URI_TOO_LONG => (TooLarge::Target.into(), Ending::RequestTooLarge),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (TooLarge::Headers.into(), Ending::RequestTooLarge),
        _ => return None,
    };
    let answer = answer(cause, false, reasons.then_some(ending.as_str()));
    let lines = head.trim_end().split("\r\n");
    let mut bytes = Vec::with_capacity(512);
    for line in lines.filter(|line| !line.starts_with("content-length:")) {
        bytes.extend_from_slice(line.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    write_lines(&mut bytes, answer.headers());
    bytes.extend_from_slice(answer.body());
    Some((status, bytes.into()))
}

/// Where the status stands in a head.
const STATUS: std::ops::Range<usize> = 9..12;

/// An answer that comes before the answer, as HTTP/1.1 has it.
pub(super) fn early(status: StatusCode, headers: &http::HeaderMap) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or("Early");
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    write_lines(&mut bytes, headers);
    bytes
}

/// Headers, and the line that ends a head.
fn write_lines(bytes: &mut Vec<u8>, headers: &http::HeaderMap) {
    for (name, value) in headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::headers;

    #[test]
    fn refusals_get_their_words() {
        let bare =
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: today\r\n\r\n";
        let (status, bytes) = in_words(bare.as_bytes(), true).unwrap();
        assert_eq!(status, 400);
        let expected = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ndate: today\r\n\
            content-type: text/plain; charset=utf-8\r\ncontent-length: 44\r\nx-content-type-options: nosniff\r\n\
            x-tidegate-reason: request_invalid\r\n\r\n400: the head of the request cannot be read\n";
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), expected);
    }

    #[test]
    fn the_reason_is_named_only_where_it_is_asked_for() {
        for (status, text) in [("414", "URI Too Long"), ("431", "Request Header Fields Too Large")] {
            let bare = format!("HTTP/1.1 {status} {text}\r\ncontent-length: 0\r\n\r\n");
            let words = |reasons| in_words(bare.as_bytes(), reasons).map(|(_, bytes)| bytes).unwrap();
            let (named, silent) = (words(true), words(false));
            let named = std::str::from_utf8(&named).unwrap();
            assert!(named.contains("x-tidegate-reason: request_too_large\r\n"), "{named}");
            let silent = std::str::from_utf8(&silent).unwrap();
            assert!(!silent.contains("reason"), "{silent}");
            assert!(silent.ends_with(&format!("\r\n\r\n{status} {text}\n")), "{silent}");
        }
    }

    #[test]
    fn what_is_no_refusal_stays_as_it_is() {
        for text in ["", "HTTP/1.1", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 \u{e4}00 X\r\n\r\n"] {
            assert_eq!(in_words(text.as_bytes(), true), None, "{text:?}");
        }
    }

    #[test]
    fn an_early_answer_is_a_head() {
        let headers = headers(&[("link", "</a.css>; rel=preload"), ("link", "</b.js>; rel=preload")]);
        let expected = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\
            link: </b.js>; rel=preload\r\n\r\n";
        assert_eq!(early(StatusCode::EARLY_HINTS, &headers), expected.as_bytes());
    }
}
