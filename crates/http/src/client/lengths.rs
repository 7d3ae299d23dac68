//! Whether the head of a request says in two ways how long its body is. It looks at the beginnings of lines only, as
//! they come, and no further than the end of the head.

/// As much of a head as was read.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    /// The beginning of the line that is being read.
    line: [u8; LONGEST],
    /// How long that line is so far.
    length: usize,
    content_length: bool,
    transfer_encoding: bool,
    over: bool,
}

const CONTENT_LENGTH: &[u8] = b"content-length";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding";
const LONGEST: usize = TRANSFER_ENCODING.len();

impl Lengths {
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while !self.over && !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes);
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            let room = &mut self.line[self.length.min(LONGEST)..];
            let kept = room.len().min(part.len());
            room[..kept].copy_from_slice(&part[..kept]);
            self.length += part.len();
            if end.is_some() {
                self.end_line();
            }
            bytes = rest;
        }
    }

    pub(super) fn both(&self) -> bool {
        self.content_length && self.transfer_encoding
    }

    fn end_line(&mut self) {
        let line = &self.line[..self.length.min(LONGEST)];
        let begins = |name: &[u8]| line.get(..name.len()).is_some_and(|line| line.eq_ignore_ascii_case(name));
        self.content_length |= begins(CONTENT_LENGTH);
        self.transfer_encoding |= begins(TRANSFER_ENCODING);
        self.over = matches!(line, b"\n" | b"\r\n");
        // A request without a body may be followed by the next at once.
        if self.over && !self.content_length && !self.transfer_encoding {
            self.over = false;
        }
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_seen_in_any_pieces() {
        for (head, both) in [
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", true),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nHost: a\r\nCONTENT-LENGTH: 4\r\n\r\n", true),
            ("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nTransfer-Encoding: chunked\r\n", false),
            ("POST / HTTP/1.1\r\nX: Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", false),
            (
                "GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
                true,
            ),
            ("GET /content-length HTTP/1.1\r\n\r\n", false),
        ] {
            for size in [1, 2, 7, 1000] {
                let mut lengths = Lengths::default();
                head.as_bytes().chunks(size).for_each(|piece| lengths.read(piece));
                assert_eq!(lengths.both(), both, "{head:?} in pieces of {size}");
            }
        }
    }
}
