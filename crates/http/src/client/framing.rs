//! HTTP/1.1 to the letter where the parser is lenient: each line ends with CR LF, and a head says in one way how long
//! its body is. It goes along with the bytes as they come, knows where requests begin and end, and spoils what it does
//! not like with a byte that no parser takes, so that there is one place that answers and ends the connection.

/// Where in a client's requests the bytes are.
#[derive(Debug)]
pub(super) struct Framing {
    state: State,
    /// The beginning of the line that is being read.
    line: [u8; KEPT],
    /// How long that line is so far.
    length: usize,
    /// The byte before the one that is read next.
    last: u8,
    head: Head,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// Bytes of a body of known length that are still to come.
    Body(u64),
    ChunkSize,
    /// The same for a chunk.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// What follows may be another protocol.
    Unknown,
    /// The parser refuses it here, or has done so.
    Refused,
}

/// What the lines of a head have said so far.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    has_begun: bool,
    length: Option<u64>,
    is_chunked: bool,
    wants_upgrade: bool,
}

/// Longer than any line whose content matters here.
const KEPT: usize = 64;
/// No part of a head or of a trailer.
const SPOILT: u8 = 0;

/// A line that is not to be passed on.
struct Bad;

impl Default for Framing {
    fn default() -> Self {
        Self { state: State::Head, line: [0; KEPT], length: 0, last: 0, head: Head::default() }
    }
}

impl Framing {
    /// Goes over the bytes that came next.
    pub(super) fn read(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Unknown | State::Refused => return,
                State::Body(left) | State::Chunk(left) => {
                    let taken = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                    self.take(left - taken as u64);
                    at += taken;
                }
                State::Head | State::ChunkSize | State::ChunkEnd | State::Trailers => {
                    let Some(end) = memchr::memchr(b'\n', rest) else {
                        self.keep(rest);
                        return;
                    };
                    let was = self.state;
                    if self.end_line(&rest[..end]).is_err() {
                        self.state = State::Refused;
                        // Of chunks the parser refuses what we do, and takes anything else in an extension.
                        if matches!(was, State::Head | State::Trailers) {
                            bytes[at + end] = SPOILT;
                        }
                    }
                    at += end + 1;
                }
            }
        }
    }

    /// The request that asked for another protocol was answered without one: what comes now is the next.
    pub(super) fn go_on(&mut self) {
        if self.state == State::Unknown {
            *self = Self::default();
        }
    }

    fn take(&mut self, left: u64) {
        self.state = match self.state {
            State::Chunk(_) if left == 0 => State::ChunkEnd,
            State::Chunk(_) => State::Chunk(left),
            _ if left == 0 => State::Head,
            _ => State::Body(left),
        };
    }

    fn keep(&mut self, part: &[u8]) {
        let room = &mut self.line[self.length.min(KEPT)..];
        let kept = room.len().min(part.len());
        room[..kept].copy_from_slice(&part[..kept]);
        self.length += part.len();
        self.last = part.last().copied().unwrap_or(self.last);
    }

    /// `part` is the last of a line, or all of it, as it mostly is.
    fn end_line(&mut self, part: &[u8]) -> Result<(), Bad> {
        if self.length == 0 {
            return self.whole_line(part, part.len(), part.last().copied().unwrap_or(0));
        }
        self.keep(part);
        let (kept, length, last) =
            (self.line, std::mem::take(&mut self.length), std::mem::take(&mut self.last));
        self.whole_line(&kept[..length.min(KEPT)], length, last)
    }

    /// `line` may be no more than the beginning of one that is so long.
    fn whole_line(&mut self, line: &[u8], length: usize, last: u8) -> Result<(), Bad> {
        // Without the CR, which must be there.
        let length = length.checked_sub(1).filter(|_| last == b'\r').ok_or(Bad)?;
        let line = &line[..length.min(KEPT)];
        self.state = match self.state {
            State::Head if line.is_empty() && !self.head.has_begun => State::Head,
            State::Head if line.is_empty() => std::mem::take(&mut self.head).end()?,
            State::Head => {
                self.head.line(line, length)?;
                State::Head
            }
            State::ChunkSize => match chunk_size(line)? {
                0 => State::Trailers,
                size => State::Chunk(size),
            },
            State::ChunkEnd if line.is_empty() => State::ChunkSize,
            State::ChunkEnd => return Err(Bad),
            State::Trailers if line.is_empty() => State::Head,
            other => other,
        };
        Ok(())
    }
}

impl Head {
    fn line(&mut self, line: &[u8], length: usize) -> Result<(), Bad> {
        // The first line is the request's.
        if !std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        // Most begin with another letter than those that matter.
        if !matches!(line.first().map(u8::to_ascii_lowercase), Some(b'c' | b't' | b'u')) {
            return Ok(());
        }
        let value = |name: &[u8]| {
            let (begin, rest) = line.split_at_checked(name.len())?;
            begin.eq_ignore_ascii_case(name).then_some(rest)
        };
        if let Some(value) = value(b"content-length:") {
            if length > KEPT {
                return Err(Bad);
            }
            let digits = std::str::from_utf8(value.trim_ascii()).map_err(|_| Bad)?;
            self.length = Some(digits.parse().map_err(|_| Bad)?);
        }
        self.is_chunked |= value(b"transfer-encoding:").is_some();
        self.wants_upgrade |= value(b"upgrade:").is_some();
        Ok(())
    }

    /// What follows the head.
    fn end(self) -> Result<State, Bad> {
        match self {
            Self { length: Some(_), is_chunked: true, .. } => Err(Bad),
            Self { length: Some(length @ 1..), .. } => Ok(State::Body(length)),
            Self { is_chunked: true, .. } => Ok(State::ChunkSize),
            Self { wants_upgrade: true, .. } => Ok(State::Unknown),
            _ => Ok(State::Head),
        }
    }
}

/// What comes after it on the line is an extension, or space.
fn chunk_size(line: &[u8]) -> Result<u64, Bad> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let text = std::str::from_utf8(&line[..digits]).map_err(|_| Bad)?;
    u64::from_str_radix(text, 16).map_err(|_| Bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where it was spoilt, in pieces of any size.
    fn spoilt(text: &str) -> Option<usize> {
        let read = |size: usize| {
            let mut framing = Framing::default();
            let mut bytes = text.as_bytes().to_vec();
            bytes.chunks_mut(size).for_each(|piece| framing.read(piece));
            let mut differ =
                bytes.iter().zip(text.as_bytes()).enumerate().filter(|(_, (now, then))| now != then);
            let first = differ.next().map(|(at, _)| at);
            assert!(differ.next().is_none(), "{text:?} is spoilt twice");
            first
        };
        let whole = read(text.len());
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(read(size), whole, "{text:?} in pieces of {size}");
        }
        whole
    }

    #[test]
    fn good_requests_are_left_alone() {
        for one in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\na\nb\n\n",
            "POST / HTTP/1.1\r\nCONTENT-LENGTH:\t5 \r\n\r\n\n\n\n\n\n",
            "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\na\nb\r\n2;x=y\r\n\n\n\r\n0\r\nx: y\r\n\r\n",
        ] {
            assert_eq!(spoilt(&one.repeat(3)), None, "{one:?}");
        }
    }

    #[test]
    fn what_it_does_not_like_is_spoilt_at_its_end() {
        for (good, bad) in [
            ("GET / HTTP/1.1", "\nHost: a\r\n\r\n"),
            ("GET / HTTP/1.1\r\nHost: a", "\n\r\n"),
            ("GET / HTTP/1.1\r\nHost: a\r\n", "\n"),
            ("", "\nGET / HTTP/1.1\r\n\r\n"),
            ("POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r", "\nhello"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: x\r\nContent-Length: 5\r\n\r", "\nhello"),
            ("POST / HTTP/1.1\r\nContent-Length: five\r", "\n\r\nhello"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "\nGET /"),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: y", "\n\r\n"),
        ] {
            let before = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n\n\n";
            for before in ["", before] {
                let text = format!("{before}{good}{bad}");
                assert_eq!(spoilt(&text), Some(before.len() + good.len()), "{text:?}");
            }
        }
    }

    #[test]
    fn chunks_are_left_to_the_parser() {
        for chunks in ["5\nhello\r\n", "x\r\nhello\r\n", "5;a\nb\r\nhello\r\n", "1\r\naa\r\n0\r\n\r\n"] {
            let text = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
            assert_eq!(spoilt(&text), None, "{text:?}");
            let mut framing = Framing::default();
            framing.read(&mut text.into_bytes());
            assert_eq!(framing.state, State::Refused, "{chunks:?}");
        }
    }

    #[test]
    fn what_may_be_another_protocol_is_left_alone() {
        let upgrade = "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        assert_eq!(spoilt(&format!("{upgrade}\n\n")), None);
        let mut framing = Framing::default();
        let mut bytes = upgrade.as_bytes().to_vec();
        framing.read(&mut bytes);
        framing.go_on();
        let mut next = b"GET / HTTP/1.1\n".to_vec();
        framing.read(&mut next);
        assert_eq!(next.last(), Some(&SPOILT));
    }
}
