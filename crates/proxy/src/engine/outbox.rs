//! Bytes that wait for their peer to take them. Holds no memory while nothing waits.

use std::io;

use crate::engine::stream::Stream;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// How many of them are gone.
    sent: usize,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// For whoever writes into a vector itself, and only appends.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Sends what it can; `true` when nothing waits any more.
    pub(crate) fn flush(&mut self, stream: &impl Stream) -> io::Result<bool> {
        while self.sent < self.bytes.len() {
            match stream.send(&self.bytes[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        *self = Self::default();
        Ok(true)
    }
}
