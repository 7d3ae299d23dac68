//! HTTP/1.1 as far as the clients of this tool speak it: heads with a length at most, one request after the other.

use crate::connection::BODY;

/// Bytes of the answer to whoever asks for much.
pub(super) const LARGE: usize = 1 << 20;
/// Whoever asks for a path that ends so gets much.
const ASKS_FOR_MUCH: &[u8] = b"/large HTTP/1.1\r\n";

pub(super) fn response(body: usize) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {body}\r\n\r\n");
    head.into_bytes().into_iter().chain(std::iter::repeat_n(BODY, body)).collect()
}

/// The requests of one connection, in whichever pieces they come.
#[derive(Debug, Default)]
pub(super) struct Requests {
    head: Vec<u8>,
    /// Bytes of a body that are still to come.
    left: usize,
    wants_much: bool,
}

impl Requests {
    /// One for each request that ends in these bytes: whether it asks for much.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Vec<bool> {
        let mut ended = Vec::new();
        loop {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                self.left -= taken;
                bytes = &bytes[taken..];
                if self.left > 0 {
                    return ended;
                }
                ended.push(self.wants_much);
            }
            if bytes.is_empty() {
                return ended;
            }
            let before = self.head.len();
            self.head.extend_from_slice(bytes);
            let from = before.saturating_sub(3);
            let Some(end) = self.head[from..].windows(4).position(|four| four == b"\r\n\r\n") else {
                return ended;
            };
            let end = from + end + 4;
            self.left = length(&self.head[..end]);
            let line = self.head.iter().position(|&byte| byte == b'\n').map_or(end, |at| at + 1);
            self.wants_much = self.head[..line].ends_with(ASKS_FOR_MUCH);
            bytes = &bytes[end - before..];
            self.head.clear();
            if self.left == 0 {
                ended.push(self.wants_much);
            }
        }
    }
}

fn length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    let line = head.split(|&byte| byte == b'\n').find_map(|line| {
        let (name, value) = line.split_at_checked(NAME.len())?;
        name.eq_ignore_ascii_case(NAME).then_some(value)
    });
    line.and_then(|value| std::str::from_utf8(value).ok()?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_across_reads() {
        let mut requests = Requests::default();
        assert!(requests.take(b"GET / HTTP/1.1\r\nHost: a\r\n\r").is_empty());
        assert_eq!(requests.take(b"\nGET /large HTTP/1.1\r\n\r\nGET"), [false, true]);
        assert_eq!(requests.take(b" / HTTP/1.1\r\n\r\n"), [false]);
    }

    #[test]
    fn a_body_is_no_request() {
        let mut requests = Requests::default();
        assert!(requests.take(b"POST / HTTP/1.1\r\nCONTENT-LENGTH: 8\r\n\r\n\r\n\r\n").is_empty());
        assert_eq!(requests.take(b"\r\n\r\nGET / HTTP/1.1\r\n\r\n"), [false, false]);
    }
}
