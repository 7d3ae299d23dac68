//! The framing: finds where the ClientHello starts and ends in what a connection has sent so far, however TCP
//! and TLS cut it, and remembers where it stopped so that a client that drips bytes costs no more than one that
//! does not. What the hello says is for `hello` to read, once, when all of it is there.

use std::ops::Range;

use crate::error::HelloError;
use crate::hello::Hello;
use crate::record::{self, Record};

const CLIENT_HELLO: u8 = 1;
const HANDSHAKE_HEADER: usize = 4;

/// Reads the ClientHello of one connection.
#[derive(Debug)]
pub struct Reader {
    limits: Limits,
    state: State,
    /// Handshake bytes of earlier records. Stays unallocated while the hello fits into one record, as nearly
    /// all do; it grows with what came, not with what the client says will come.
    joined: Vec<u8>,
}

/// How much a client may send before its hello is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the ClientHello message, its four header bytes included and record headers not.
    pub max_hello: usize,
    /// TLS records that the ClientHello may be spread over.
    pub max_records: usize,
}

/// What the bytes so far amount to.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be the only allocation of the common case")]
pub enum Progress<'a> {
    /// Everything so far could be the beginning of a ClientHello.
    NeedMore,
    /// The ClientHello is complete and valid.
    Hello(Hello<'a>),
}

impl Reader {
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: State::Reading { record_start: 0, records: 0 }, joined: Vec::new() }
    }

    /// Goes on where the last call stopped. `seen` is everything the client has sent, from its first byte: the
    /// same bytes as in the last call, and any number more behind them. Bytes behind the ClientHello are not
    /// looked at.
    ///
    /// A hello and an error are final: further calls give the same again.
    pub fn advance<'a>(&'a mut self, seen: &'a [u8]) -> Result<Progress<'a>, HelloError> {
        if let Err(error) = self.find_end(seen) {
            self.state = State::Refused(error);
        }
        let message = match &self.state {
            State::Reading { .. } => return Ok(Progress::NeedMore),
            State::Refused(error) => return Err(*error),
            State::InPlace(message) => seen.get(message.clone()),
            State::Joined => Some(self.joined.as_slice()),
        };
        let Some(body) = message.and_then(|message| message.get(HANDSHAKE_HEADER..)) else {
            return Ok(Progress::NeedMore);
        };
        match Hello::read(body) {
            Ok(hello) => Ok(Progress::Hello(hello)),
            Err(error) => {
                self.state = State::Refused(error);
                Err(error)
            }
        }
    }

    /// Takes up record after record until the message is complete or the bytes run out.
    fn find_end(&mut self, seen: &[u8]) -> Result<(), HelloError> {
        while let State::Reading { record_start, records } = self.state {
            let unread = seen.get(record_start..).unwrap_or_default();
            let Some(record) = record::read(unread, records == 0)? else { return Ok(()) };
            let announced = self.message_len(record.payload)?;
            let have = self.joined.len() + record.len;
            if announced.is_some_and(|announced| have > announced) {
                return Err(HelloError::BytesAfterHello);
            }
            if !record.is_complete() {
                return Ok(());
            }
            self.state = if announced == Some(have) {
                self.finish(&record, record_start)
            } else if records + 1 >= self.limits.max_records {
                return Err(HelloError::TooManyRecords { max: self.limits.max_records });
            } else {
                self.joined.extend_from_slice(record.payload);
                State::Reading { record_start: record_start + record.wire_len(), records: records + 1 }
            };
        }
        Ok(())
    }

    fn finish(&mut self, record: &Record<'_>, record_start: usize) -> State {
        if self.joined.is_empty() {
            let end = record_start + record.wire_len();
            return State::InPlace(end - record.len..end);
        }
        self.joined.extend_from_slice(record.payload);
        State::Joined
    }

    /// The length of the whole message, as soon as its header is there. Missing length bytes count as zero, so
    /// that a length which is too large already by its first byte is refused by that byte.
    fn message_len(&self, payload: &[u8]) -> Result<Option<usize>, HelloError> {
        let mut header = [0; HANDSHAKE_HEADER];
        let mut known = 0;
        for (slot, byte) in header.iter_mut().zip(self.joined.iter().chain(payload)) {
            *slot = *byte;
            known += 1;
        }
        let [kind, high, middle, low] = header;
        if known > 0 && kind != CLIENT_HELLO {
            return Err(HelloError::NotClientHello { handshake_type: kind });
        }
        let at_least =
            HANDSHAKE_HEADER + (usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low));
        if at_least > self.limits.max_hello {
            return Err(HelloError::HelloTooLong { max: self.limits.max_hello });
        }
        Ok((known == HANDSHAKE_HEADER).then_some(at_least))
    }
}

impl Limits {
    /// An upper bound for the caller's buffer: at this many bytes the answer is never [`Progress::NeedMore`].
    pub fn max_wire(&self) -> usize {
        self.max_hello.max(HANDSHAKE_HEADER) + record::HEADER * self.max_records.max(1)
    }
}

impl Default for Limits {
    /// Four times what fits into one record, since post-quantum key shares and ECH grow; and as many records
    /// as a client needs that was told to send small ones.
    fn default() -> Self {
        Self { max_hello: 64 * 1024, max_records: 64 }
    }
}

#[derive(Debug)]
enum State {
    Reading {
        /// Where in the caller's buffer the record begins that is not taken up yet.
        record_start: usize,
        records: usize,
    },
    /// The whole message is one range of the caller's buffer.
    InPlace(Range<usize>),
    Joined,
    Refused(HelloError),
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: [u8; 41] = {
        let mut body = [0; 41];
        body[0] = 3;
        body[1] = 3;
        body[36] = 2;
        body[39] = 1;
        body
    };

    fn wire(record_sizes: &[usize]) -> Vec<u8> {
        let message = [&[CLIENT_HELLO, 0, 0, 41], BODY.as_slice()].concat();
        let mut rest = message.as_slice();
        let mut wire = Vec::new();
        for &size in record_sizes {
            let (payload, later) = rest.split_at(size);
            wire.extend_from_slice(&[22, 3, 1, 0, u8::try_from(size).unwrap()]);
            wire.extend_from_slice(payload);
            rest = later;
        }
        wire
    }

    #[test]
    fn one_record_allocates_nothing_even_when_dripped() {
        let wire = wire(&[45]);
        let mut reader = Reader::new(Limits::default());
        for end in 0..wire.len() {
            assert!(matches!(reader.advance(&wire[..end]), Ok(Progress::NeedMore)));
        }
        assert!(matches!(reader.advance(&wire), Ok(Progress::Hello(_))));
        assert_eq!(reader.joined.capacity(), 0);
    }

    #[test]
    fn the_joined_buffer_grows_with_what_came_not_with_what_was_announced() {
        let mut reader = Reader::new(Limits::default());
        let seen = [22, 3, 1, 0, 4, CLIENT_HELLO, 0, 0xff, 0];
        assert!(matches!(reader.advance(&seen), Ok(Progress::NeedMore)));
        assert!(reader.joined.capacity() < 64, "{}", reader.joined.capacity());
    }

    #[test]
    fn a_complete_record_is_not_scanned_again() {
        let wire = wire(&[20, 25]);
        let mut reader = Reader::new(Limits::default());
        assert!(matches!(reader.advance(&wire[..30]), Ok(Progress::NeedMore)));
        let mut overwritten = wire.clone();
        overwritten[..25].fill(0);
        assert!(matches!(reader.advance(&overwritten), Ok(Progress::Hello(_))));
    }
}
