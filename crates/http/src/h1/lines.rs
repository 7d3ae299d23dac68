//! The lines of a head: where it ends, and where each of them does.

use std::ops::Range;

use super::HeadError;

/// How lines may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnds {
    /// With CR LF.
    Strict,
    /// With LF, and whatever stands before it.
    Lenient,
}

/// Looks for the end of a head in bytes that come bit by bit, each of them once.
#[derive(Debug)]
pub struct Scan {
    ends: LineEnds,
    /// Bytes that were looked at.
    seen: usize,
    /// Where the line begins that is being read.
    line: usize,
    /// Lines with something in them.
    pub lines: usize,
}

impl Scan {
    #[must_use]
    pub const fn new(ends: LineEnds) -> Self {
        Self { ends, seen: 0, line: 0, lines: 0 }
    }

    /// How long the head is with the empty line at its end, given all that came so far; `None` as long as that has not
    /// come.
    pub fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        while let Some(found) = memchr::memchr(b'\n', &bytes[self.seen..]) {
            let at = self.seen + found;
            let has_return = at > self.line && bytes[at - 1] == b'\r';
            if !has_return && self.ends == LineEnds::Strict {
                return Err(HeadError::Malformed);
            }
            let is_empty = at == self.line + usize::from(has_return);
            self.seen = at + 1;
            self.line = at + 1;
            if is_empty {
                return Ok(Some(at + 1));
            }
            self.lines += 1;
        }
        self.seen = bytes.len();
        Ok(None)
    }
}

/// The lines of a head that was found to be whole, without what they end with and without the empty one at its end.
pub(super) fn lines(head: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut begin = 0;
    memchr::memchr_iter(b'\n', head).map_while(move |at| {
        let end = if at > begin && head[at - 1] == b'\r' { at - 1 } else { at };
        let line = begin..end;
        begin = at + 1;
        (!line.is_empty()).then_some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str, ends: LineEnds) -> Result<Option<usize>, HeadError> {
        let whole = Scan::new(ends).end(text.as_bytes());
        let mut scan = Scan::new(ends);
        let bit_by_bit = (0..=text.len()).map(|end| scan.end(&text.as_bytes()[..end]));
        let bit_by_bit = bit_by_bit.into_iter().find(|found| *found != Ok(None)).unwrap_or(Ok(None));
        assert_eq!(bit_by_bit, whole, "{text:?}");
        whole
    }

    #[test]
    fn heads_end_with_an_empty_line() {
        for (text, expected) in [
            ("", None),
            ("a\r\nb\r\n\r", None),
            ("a\r\nb\r\n\r\n", Some(8)),
            ("a\r\nb\r\n\r\nc\r\n\r\n", Some(8)),
            ("\r\n", Some(2)),
            ("a\r\r\n\r\n", Some(6)),
        ] {
            assert_eq!(end(text, LineEnds::Strict), Ok(expected), "{text:?}");
            assert_eq!(end(text, LineEnds::Lenient), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn a_bare_line_feed_ends_lines_of_backends_alone() {
        for (text, expected) in [("a\nb\n\n", 5), ("a\r\nb\n\r\n", 7), ("\n", 1), ("a\n\r\n", 4)] {
            assert_eq!(end(text, LineEnds::Strict), Err(HeadError::Malformed), "{text:?}");
            assert_eq!(end(text, LineEnds::Lenient), Ok(Some(expected)), "{text:?}");
        }
    }

    #[test]
    fn lines_are_what_stands_between_the_ends() {
        let head = b"GET / HTTP/1.1\r\na: b\r\nc:\n\r\n";
        let all: Vec<&[u8]> = lines(head).map(|line| &head[line]).collect();
        assert_eq!(all, [&b"GET / HTTP/1.1"[..], b"a: b", b"c:"]);
    }
}
