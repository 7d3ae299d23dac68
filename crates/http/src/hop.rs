//! Headers that are for the next machine and not for the one at the end: they are taken off before a message is
//! passed on, in either direction.

use bytes::BytesMut;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// Takes off what is meant for this connection alone, and gives back what the client would like to upgrade to: whoever
/// passes that on does it on purpose, with [`ask_upgrade`].
///
/// `TE` keeps `trailers`, without which gRPC servers refuse; `Trailer` goes on, because trailers do.
pub fn strip_request(headers: &mut HeaderMap) -> Option<HeaderValue> {
    if !headers.keys().any(|name| is_of_connection(name) || is_of_proxy(name)) {
        return None;
    }
    let trailers = headers.get_all(header::TE).iter().any(|te| has_token(te, "trailers"));
    let upgrade = strip(headers);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    // The client is told to go on by us, when the backend wants its body.
    headers.remove(header::EXPECT);
    headers.remove(header::PROXY_AUTHORIZATION);
    headers.remove(HeaderName::from_static("http2-settings"));
    upgrade
}

/// The same for a response; what it says it was upgraded to is given back.
pub fn strip_response(headers: &mut HeaderMap) -> Option<HeaderValue> {
    if !headers.keys().any(|name| is_of_connection(name) || is_of_proxy(name)) {
        return None;
    }
    let upgrade = strip(headers);
    headers.remove(header::PROXY_AUTHENTICATE);
    upgrade
}

/// Says over HTTP/1.1 that this connection is, or shall be, upgraded.
pub fn ask_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// Gives the values memory of their own. As they come they are parts of what was read, all of which stays for as long as
/// one of them does; and HTTP/2 remembers those it has sent, for as long as its connection lives.
pub fn detach(headers: &mut HeaderMap) {
    let mut all = BytesMut::with_capacity(headers.values().map(HeaderValue::len).sum());
    headers.values().for_each(|value| all.extend_from_slice(value.as_bytes()));
    let mut all = all.freeze();
    for value in headers.values_mut() {
        // It is a value, and therefore is one again.
        if let Ok(mut own) = HeaderValue::from_maybe_shared(all.split_to(value.len())) {
            own.set_sensitive(value.is_sensitive());
            *value = own;
        }
    }
}

/// Leaves one of several lines that tell the same length (RFC 9110 8.6): who reads them next may take no more than one.
pub(crate) fn settle_length(headers: &mut HeaderMap) {
    if let Some(first) = headers.get(header::CONTENT_LENGTH).cloned() {
        headers.insert(header::CONTENT_LENGTH, first);
    }
}

/// Whether a header of that name is for a connection of HTTP/1.1 alone, and has no place in HTTP/2.
pub(crate) fn is_of_connection(name: &HeaderName) -> bool {
    matches!(*name, header::CONNECTION | header::TE | header::TRANSFER_ENCODING | header::UPGRADE)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Whether it is for the next proxy alone.
fn is_of_proxy(name: &HeaderName) -> bool {
    matches!(*name, header::EXPECT | header::PROXY_AUTHORIZATION | header::PROXY_AUTHENTICATE)
        || *name == "http2-settings"
}

fn strip(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let mut upgraded = false;
    if let header::Entry::Occupied(lines) = headers.entry(header::CONNECTION) {
        let (_, lines) = lines.remove_entry_mult();
        // Copies, since what they name is removed from the same map; mostly they name nothing.
        let lines: Vec<HeaderValue> = lines.filter(|line| !is_usual(line)).collect();
        for token in lines.iter().flat_map(tokens) {
            upgraded |= token.eq_ignore_ascii_case(b"upgrade");
            if let Ok(name) = HeaderName::from_bytes(token)
                && !is_needed(&name)
            {
                headers.remove(name);
            }
        }
    }
    let upgrade = headers.remove(header::UPGRADE).filter(|_| upgraded);
    headers.remove(HeaderName::from_static("keep-alive"));
    headers.remove(HeaderName::from_static("proxy-connection"));
    headers.remove(header::TE);
    headers.remove(header::TRANSFER_ENCODING);
    upgrade
}

/// What is said of the connection itself, and of no header that is not taken off anyway.
fn is_usual(line: &HeaderValue) -> bool {
    let line = line.as_bytes();
    line.eq_ignore_ascii_case(b"keep-alive") || line.eq_ignore_ascii_case(b"close")
}

/// What a client may not take off by calling it a matter of the connection: without the first two the request would be
/// another one, and the others are our word about the client, whether it is given before or after this. `Upgrade` is
/// taken off by itself.
fn is_needed(name: &HeaderName) -> bool {
    *name == header::HOST
        || *name == header::CONTENT_LENGTH
        || *name == header::UPGRADE
        || *name == header::FORWARDED
        || name.as_str().starts_with("x-forwarded-")
}

pub(crate) fn has_token(value: &HeaderValue, expected: &str) -> bool {
    tokens(value).any(|token| token.eq_ignore_ascii_case(expected.as_bytes()))
}

fn tokens(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{headers, lines};

    #[test]
    fn what_is_for_this_connection_stays_here() {
        for (given, kept) in [
            (&[("x-a", "1"), ("accept", "*/*")][..], &[("accept", "*/*"), ("x-a", "1")][..]),
            (&[("connection", "close"), ("keep-alive", "timeout=5"), ("x-a", "1")], &[("x-a", "1")]),
            (&[("connection", "X-A , ,close"), ("connection", "x-b"), ("x-a", "1"), ("x-b", "2")], &[]),
            (&[("connection", "host, content-length"), ("host", "a.test")], &[("host", "a.test")]),
            (&[("connection", "x-forwarded-for"), ("x-forwarded-for", "::1")], &[("x-forwarded-for", "::1")]),
            (&[("te", "trailers, deflate;q=0.5"), ("x-a", "1")], &[("te", "trailers"), ("x-a", "1")]),
            (&[("te", "deflate"), ("connection", "te")], &[]),
            (&[("proxy-authorization", "Basic x"), ("proxy-connection", "close")], &[]),
            (&[("transfer-encoding", "chunked"), ("trailer", "x-a")], &[("trailer", "x-a")]),
            (&[("http2-settings", "AAMAAABk"), ("connection", "upgrade, http2-settings")], &[]),
            (&[("connection", "no token, (x)"), ("x-a", "1")], &[("x-a", "1")]),
        ] {
            let mut headers = headers(given);
            assert_eq!(strip_request(&mut headers), None, "{given:?}");
            assert_eq!(lines(&headers), kept, "{given:?}");
        }
    }

    #[test]
    fn an_upgrade_is_given_back() {
        let mut asked = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        let protocol = strip_request(&mut asked).unwrap();
        assert!(asked.is_empty());
        ask_upgrade(&mut asked, protocol);
        assert_eq!(lines(&asked), [("connection", "upgrade"), ("upgrade", "websocket")]);

        let mut unasked = headers(&[("upgrade", "h2c")]);
        assert_eq!(strip_request(&mut unasked), None);
        assert!(unasked.is_empty());
    }

    #[test]
    fn responses() {
        let mut given =
            headers(&[("connection", "x-a"), ("x-a", "1"), ("proxy-authenticate", "Basic"), ("x-b", "2")]);
        assert_eq!(strip_response(&mut given), None);
        assert_eq!(lines(&given), [("x-b", "2")]);
    }

    #[test]
    fn detached_values_are_the_same_elsewhere() {
        let read = bytes::Bytes::from_static(b"one, two, \xfcber alles");
        let mut headers = HeaderMap::new();
        for (name, range) in [("a", 0..3), ("b", 5..8), ("a", 10..20), ("empty", 3..3)] {
            let value = HeaderValue::from_maybe_shared(read.slice(range)).unwrap();
            headers.append(name, value);
        }
        headers.get_mut("b").unwrap().set_sensitive(true);
        let before = headers.clone();
        detach(&mut headers);
        assert_eq!(headers, before);
        for (name, value) in &headers {
            let is_inside = read.as_ptr_range().contains(&value.as_bytes().as_ptr());
            assert!(value.is_empty() || !is_inside, "{name}");
            assert_eq!(value.is_sensitive(), name == "b");
        }
    }
}
