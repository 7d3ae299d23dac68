//! Bodies as they come: a number of bytes, chunks, or all until the end.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;

use super::head::{Length, read_trailers};
use super::lines::{LineEnds, Scan};

/// Where in a body the next byte is.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    ends: LineEnds,
}

#[derive(Debug)]
enum State {
    /// Bytes that are still to come.
    Exact(u64),
    ToTheEnd,
    Size(Size),
    /// The same of one chunk.
    Chunk(u64),
    /// What follows the bytes of a chunk.
    ChunkEnd,
    Trailers(Box<Trailers>),
    Done,
    Bad,
}

/// The line before a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    number: Option<u64>,
    at: InSize,
    length: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InSize {
    #[default]
    Number,
    /// Behind the number.
    Space,
    Extension,
    /// The CR was there.
    End,
}

#[derive(Debug)]
struct Trailers {
    scan: Scan,
    bytes: BytesMut,
}

/// What came of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    /// It goes on with what comes next.
    More,
}

/// What came is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not what its head says")]
pub struct BadBody;

/// More than anybody puts before a chunk.
const SIZE_LINE: u16 = 4096;
/// Of all trailers.
pub const TRAILER_BYTES: usize = 16 * 1024;
pub const TRAILER_LINES: usize = 100;

impl Decoder {
    #[must_use]
    pub fn new(length: Length, ends: LineEnds) -> Self {
        let state = match length {
            Length::Exact(0) => State::Done,
            Length::Exact(length) => State::Exact(length),
            Length::Chunked => State::Size(Size::default()),
            Length::ToTheEnd => State::ToTheEnd,
        };
        Self { state, ends }
    }

    pub(crate) const fn done() -> Self {
        Self { state: State::Done, ends: LineEnds::Strict }
    }

    pub(crate) const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// How many bytes are to come, where that is known.
    pub(crate) const fn left(&self) -> Option<u64> {
        match self.state {
            State::Done => Some(0),
            State::Exact(left) => Some(left),
            _ => None,
        }
    }

    /// How many bytes are to come as they are, as far as anybody knows. 0 where there is something between them.
    pub(crate) const fn plain(&self) -> u64 {
        match self.state {
            State::Exact(left) => left,
            State::ToTheEnd => u64::MAX,
            _ => 0,
        }
    }

    /// So many of [those](Self::plain) went another way.
    pub(crate) fn took(&mut self, count: usize) {
        if let State::Exact(left) = &mut self.state {
            *left = left.saturating_sub(count as u64);
            if *left == 0 {
                self.state = State::Done;
            }
        }
    }

    /// Nothing more comes. Whether that was all of it.
    pub(crate) fn ends(&mut self) -> bool {
        if matches!(self.state, State::ToTheEnd) {
            self.state = State::Done;
        }
        self.is_done()
    }

    /// The next piece of what came. What is no body once stays so.
    pub fn take(&mut self, from: &mut BytesMut) -> Result<Piece, BadBody> {
        self.read(from).inspect_err(|_| self.state = State::Bad)
    }

    fn read(&mut self, from: &mut BytesMut) -> Result<Piece, BadBody> {
        loop {
            if self.is_done() {
                return Ok(Piece::End);
            }
            if from.is_empty() {
                return Ok(Piece::More);
            }
            match &mut self.state {
                State::Exact(left) | State::Chunk(left) => {
                    let count = usize::try_from(*left).map_or(from.len(), |left| left.min(from.len()));
                    *left -= count as u64;
                    if *left == 0 {
                        let is_all = matches!(self.state, State::Exact(_));
                        self.state = if is_all { State::Done } else { State::ChunkEnd };
                    }
                    return Ok(Piece::Data(take_front(from, count)));
                }
                State::ToTheEnd => return Ok(Piece::Data(take_front(from, from.len()))),
                State::Size(size) => {
                    if let Some(number) = size.read(from, self.ends)? {
                        self.state = match number {
                            0 => State::Trailers(Box::new(Trailers::new(self.ends))),
                            number => State::Chunk(number),
                        };
                    }
                }
                State::ChunkEnd => match from[..] {
                    [b'\r', b'\n', ..] => {
                        from.advance(2);
                        self.state = State::Size(Size::default());
                    }
                    [b'\n', ..] if self.ends == LineEnds::Lenient => {
                        from.advance(1);
                        self.state = State::Size(Size::default());
                    }
                    [b'\r'] => return Ok(Piece::More),
                    _ => return Err(BadBody),
                },
                State::Trailers(trailers) => {
                    let Some(trailers) = trailers.read(from)? else { continue };
                    self.state = State::Done;
                    if !trailers.is_empty() {
                        return Ok(Piece::Trailers(trailers));
                    }
                }
                State::Done => {}
                State::Bad => return Err(BadBody),
            }
        }
    }
}

/// Takes the first bytes, and leaves nothing behind that would hold memory when these are all.
pub(crate) fn take_front(from: &mut BytesMut, count: usize) -> Bytes {
    if count == from.len() { std::mem::take(from).freeze() } else { from.split_to(count).freeze() }
}

impl Size {
    /// Reads on; the number when the line is over.
    fn read(&mut self, from: &mut BytesMut, ends: LineEnds) -> Result<Option<u64>, BadBody> {
        for (count, byte) in from.iter().copied().enumerate() {
            self.length += 1;
            if byte == b'\n' && (self.at == InSize::End || ends == LineEnds::Lenient) {
                from.advance(count + 1);
                return self.number.map(Some).ok_or(BadBody);
            }
            self.step(byte)?;
        }
        from.clear();
        Ok(None)
    }

    fn step(&mut self, byte: u8) -> Result<(), BadBody> {
        self.at = match (self.at, byte) {
            _ if self.length > SIZE_LINE || self.at == InSize::End => return Err(BadBody),
            (InSize::Number, byte) if byte.is_ascii_hexdigit() => return self.digit(byte),
            (_, b'\r') => InSize::End,
            _ if self.number.is_none() => return Err(BadBody),
            (InSize::Number | InSize::Space, b' ' | b'\t') => InSize::Space,
            (InSize::Number | InSize::Space, b';') | (InSize::Extension, b'\t' | b' '..=b'~' | 0x80..) => {
                InSize::Extension
            }
            _ => return Err(BadBody),
        };
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<(), BadBody> {
        let digit = char::from(byte).to_digit(16).ok_or(BadBody)?;
        let number = self.number.unwrap_or(0);
        self.number = Some(number.checked_mul(16).ok_or(BadBody)? | u64::from(digit));
        Ok(())
    }
}

impl Trailers {
    fn new(ends: LineEnds) -> Self {
        Self { scan: Scan::new(ends), bytes: BytesMut::new() }
    }

    fn read(&mut self, from: &mut BytesMut) -> Result<Option<HeaderMap>, BadBody> {
        let had = self.bytes.len();
        self.bytes.extend_from_slice(from);
        let end = self.scan.end(&self.bytes).map_err(|_| BadBody)?;
        if end.unwrap_or(self.bytes.len()) > TRAILER_BYTES {
            return Err(BadBody);
        }
        let Some(end) = end else {
            from.clear();
            return Ok(None);
        };
        from.advance(end - had);
        let section = self.bytes.split_to(end).freeze();
        read_trailers(&section, TRAILER_LINES).map(Some).map_err(|_| BadBody)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lines;

    /// All that comes out of bytes that come in pieces of this size, and how many are left.
    fn read(
        length: Length,
        ends: LineEnds,
        text: &str,
        size: usize,
    ) -> Result<(String, HeaderMap, usize), BadBody> {
        let mut decoder = Decoder::new(length, ends);
        let (mut rest, mut data, mut trailers) = (BytesMut::new(), Vec::new(), HeaderMap::new());
        let mut pieces = text.as_bytes().chunks(size);
        let mut left = text.len();
        loop {
            match decoder.take(&mut rest)? {
                Piece::Data(piece) => data.extend_from_slice(&piece),
                Piece::Trailers(all) => trailers = all,
                Piece::End => return Ok((String::from_utf8(data).unwrap(), trailers, left + rest.len())),
                Piece::More => match pieces.next() {
                    Some(piece) => {
                        left -= piece.len();
                        rest.extend_from_slice(piece);
                    }
                    None if decoder.ends() => {}
                    None => panic!("{text:?} is not whole"),
                },
            }
        }
    }

    fn everywhere(length: Length, ends: LineEnds, text: &str) -> Result<(String, HeaderMap, usize), BadBody> {
        let whole = read(length, ends, text, text.len().max(1));
        for size in [1, 2, 3, 5, 8] {
            assert_eq!(read(length, ends, text, size), whole, "{text:?} in pieces of {size}");
        }
        whole
    }

    #[test]
    fn bodies() {
        let strict = LineEnds::Strict;
        for (length, text, expected, left) in [
            (Length::Exact(0), "next", "", 4),
            (Length::Exact(5), "hellonext", "hello", 4),
            (Length::ToTheEnd, "all of it", "all of it", 0),
            (Length::Chunked, "5\r\nhello\r\n0\r\n\r\nnext", "hello", 4),
            (
                Length::Chunked,
                "5 ; a=\"b\"\r\nhello\r\n00A\t\r\n0123456789\r\n0;x\r\n\r\n",
                "hello0123456789",
                0,
            ),
        ] {
            let (data, trailers, rest) = everywhere(length, strict, text).unwrap();
            assert_eq!((data.as_str(), rest), (expected, left), "{text:?}");
            assert!(trailers.is_empty());
        }
    }

    #[test]
    fn trailers() {
        let text = "1\r\na\r\n0\r\nX-Sum: 1\r\nContent-Length: 5\r\nx-sum:2\r\n\r\nnext";
        let (data, trailers, left) = everywhere(Length::Chunked, LineEnds::Strict, text).unwrap();
        assert_eq!((data.as_str(), left), ("a", 4));
        assert_eq!(lines(&trailers), [("x-sum", "1"), ("x-sum", "2")]);
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for chunks in [
            "x\r\n",
            "\r\n",
            "-5\r\n",
            " 5\r\n",
            "5x\r\n",
            "0 5\r\n",
            "5;\u{7f}\r\n",
            "5\r\r\n",
            "10000000000000000\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello!\r\n",
            "0\r\nbad name: x\r\n\r\n",
            "0\r\n x: y\r\n\r\n",
        ] {
            for ends in [LineEnds::Strict, LineEnds::Lenient] {
                assert_eq!(everywhere(Length::Chunked, ends, chunks), Err(BadBody), "{chunks:?}");
            }
        }
        let bare = "5\nhello\n0\nx: y\n\n";
        assert_eq!(everywhere(Length::Chunked, LineEnds::Strict, bare), Err(BadBody));
        assert_eq!(everywhere(Length::Chunked, LineEnds::Lenient, bare).unwrap().0, "hello");
    }

    #[test]
    fn what_was_no_body_never_is() {
        let mut decoder = Decoder::new(Length::Chunked, LineEnds::Strict);
        assert_eq!(decoder.take(&mut BytesMut::from("x")), Err(BadBody));
        assert_eq!(decoder.take(&mut BytesMut::from("0\r\n\r\n")), Err(BadBody));
        assert!(!decoder.is_done());
    }

    #[test]
    fn lines_and_trailers_have_bounds() {
        let long = format!("5;{}\r\n", "a".repeat(10_000));
        assert_eq!(everywhere(Length::Chunked, LineEnds::Strict, &long), Err(BadBody));
        let long = format!("0\r\nx: {}\r\n\r\n", "a".repeat(20_000));
        assert_eq!(everywhere(Length::Chunked, LineEnds::Strict, &long), Err(BadBody));
        let many = format!("0\r\n{}\r\n", "x: a\r\n".repeat(101));
        assert_eq!(everywhere(Length::Chunked, LineEnds::Strict, &many), Err(BadBody));
    }
}
