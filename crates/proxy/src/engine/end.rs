//! One side of a connection: its stream, the TLS on it if there is any, and what waits to be sent to it.

use std::io;

use crate::engine::outbox::Outbox;
use crate::engine::scratch::{READ, Scratch};
use crate::engine::stream::Stream;
use crate::tls::{Codec, TlsError};

pub(crate) struct End<S> {
    pub(crate) stream: S,
    pub(crate) tls: Option<Box<Codec>>,
    pub(super) out: Outbox,
    /// Set by the poller, cleared by a read or write that found nothing to do.
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The poller has said that the end is near: a short read is then not the last.
    hanging_up: bool,
    /// The poller has said that the stream is broken: whatever it still has to give, it takes nothing more.
    pub(super) broken: bool,
    /// The peer will send nothing more.
    pub(super) ended: bool,
    farewell: Farewell,
    /// What a poller watches it for.
    pub(crate) watched: Watched,
}

/// In the order in which a stream comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watched {
    No,
    /// Bytes and the end.
    ForInput,
    /// Room for more bytes as well.
    ForRoom,
}

/// More than one read from the other side, as it goes out, and what a codec ever has to say by itself.
const MOST_WAITING: usize = 256 * 1024;

/// How far the peer was told that nothing more will come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    None,
    /// The end of TLS is in the outbox; the stream's own end follows when that is empty.
    Waiting,
    Said,
}

/// Why one side cannot go on.
#[derive(Debug)]
pub(crate) enum Broken {
    Socket(io::Error),
    Tls(TlsError),
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Nothing to read yet.
    Nothing,
    /// So many bytes at the beginning of [`Scratch::read`].
    Bytes(usize),
    /// Whatever is in [`Scratch::plain`], which may be nothing.
    Plain,
    Ended,
}

impl<S: Stream> End<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            tls: None,
            out: Outbox::default(),
            readable: true,
            writable: true,
            hanging_up: false,
            broken: false,
            ended: false,
            farewell: Farewell::None,
            watched: Watched::No,
        }
    }

    /// What a poller has seen.
    pub(crate) fn notice(&mut self, readable: bool, writable: bool, hanging_up: bool, broken: bool) {
        self.readable |= readable || hanging_up || broken;
        self.writable |= writable;
        self.hanging_up |= hanging_up || broken;
        self.broken |= broken;
    }

    /// What a poller must watch it for at the least. Most streams always take what they are given, and to be told of
    /// room that was there all the time would be an event for nothing.
    pub(crate) fn to_watch(&self) -> Watched {
        if self.writable { Watched::ForInput } else { Watched::ForRoom }
    }

    /// A peer that asks for answers of the codec and does not take them is not listened to.
    pub(super) fn may_be_read(&self) -> bool {
        self.readable && !self.ended && self.out.len() < MOST_WAITING
    }

    /// Reads once and takes the encryption off.
    pub(super) fn read(&mut self, scratch: &mut Scratch) -> Result<Read, Broken> {
        self.read_most(READ, scratch)
    }

    /// The same with so many bytes at most.
    pub(super) fn read_most(&mut self, most: usize, scratch: &mut Scratch) -> Result<Read, Broken> {
        let carried = self.tls.as_ref().map_or(0, |tls| tls.carried(&mut scratch.read));
        let room = &mut scratch.read[carried..carried + most];
        let count = match self.stream.recv(room) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return Ok(Read::Nothing);
            }
            Err(error) => return Err(Broken::Socket(error)),
        };
        if count == 0 {
            self.ended = true;
            return Ok(Read::Ended);
        }
        // Less than there was room for is all there was; the poller tells of more, but not again of an end that it
        // has told of already.
        self.readable = count == most || self.hanging_up;
        if self.tls.is_none() {
            return Ok(Read::Bytes(count));
        }
        self.decrypt(carried + count, scratch)?;
        Ok(Read::Plain)
    }

    fn decrypt(&mut self, length: usize, scratch: &mut Scratch) -> Result<(), Broken> {
        self.take_in(&mut scratch.read[..length], &mut scratch.plain)
    }

    /// Takes the encryption off bytes that were read from this end.
    pub(super) fn take_in(&mut self, bytes: &mut [u8], plain: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        plain.clear();
        let result = tls.receive(bytes, plain, self.out.buffer());
        self.ended |= tls.peer_has_closed();
        result.map_err(Broken::Tls)
    }

    /// Sends as much as the peer takes and keeps the rest. Nothing may be waiting, or the order would be lost.
    pub(super) fn write(&mut self, bytes: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        let bytes = match &mut self.tls {
            None => bytes,
            Some(tls) => {
                let length = tls.send(bytes, wire).map_err(Broken::Tls)?;
                &wire[..length]
            }
        };
        if !self.out.is_empty() {
            self.out.push(bytes);
            return Ok(());
        }
        let mut rest = bytes;
        while !rest.is_empty() && self.writable {
            match self.stream.send(rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) => return Err(Broken::Socket(error)),
            }
        }
        if !rest.is_empty() {
            self.out.push(rest);
        }
        Ok(())
    }

    /// `true` when nothing waits.
    pub(super) fn flush(&mut self) -> Result<bool, Broken> {
        if self.out.is_empty() {
            return Ok(true);
        }
        if !self.writable {
            return Ok(false);
        }
        let empty = self.out.flush(&self.stream).map_err(Broken::Socket)?;
        self.writable = empty;
        Ok(empty)
    }

    /// Tells the peer that nothing more will come, behind what still waits. `closing`: the socket is about to be
    /// closed, which tells it too. `true` when there is nothing left to tell.
    pub(super) fn say_farewell(&mut self, closing: bool) -> Result<bool, Broken> {
        if self.farewell == Farewell::None {
            self.farewell = Farewell::Waiting;
            if let Some(tls) = &mut self.tls {
                tls.close(self.out.buffer());
            }
        }
        if self.farewell == Farewell::Waiting && self.flush()? {
            self.farewell = Farewell::Said;
            if !closing {
                self.stream.end().map_err(Broken::Socket)?;
            }
        }
        Ok(self.farewell == Farewell::Said)
    }
}
