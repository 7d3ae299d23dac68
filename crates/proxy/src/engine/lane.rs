//! One direction of a connection: bytes from one end to the other, copied where they are few and moved by the kernel
//! where they are many. At most one read's worth is ever held for a peer that does not take it.

use std::io;

use crate::engine::end::{Broken, End, Read};
use crate::engine::scratch::{READ, Scratch, TLS_READ};
use crate::engine::stream::{Pipes, Stream};

/// So many full reads in a row are bulk.
const BULK_AFTER: u8 = 4;
/// What is found to be bulk stays it for a while: so many small moves in a row end it.
const BULK: u8 = BULK_AFTER + 8;
const SMALL: usize = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Lane<P> {
    /// Without the bytes of TLS.
    pub(crate) bytes: u64,
    /// A pipe with so many bytes in it that the receiving end has yet to take.
    pipe: Option<(P, usize)>,
    /// How many reads in a row were full; from [`BULK_AFTER`] on the kernel moves the bytes.
    full_reads: u8,
}

/// Which end it was.
#[derive(Debug)]
pub(crate) enum Fault {
    From(Broken),
    To(Broken),
}

impl<P> Default for Lane<P> {
    fn default() -> Self {
        Self { bytes: 0, pipe: None, full_reads: 0 }
    }
}

impl<P> Lane<P> {
    /// Carries until nothing more can be done or `budget` bytes are used up, then passes on an end.
    /// `true` when all is done that this direction will ever do.
    pub(crate) fn carry<S: Stream<Pipe = P>>(
        &mut self,
        from: &mut End<S>,
        to: &mut End<S>,
        scratch: &mut Scratch,
        pipes: &mut impl Pipes<P>,
        budget: &mut usize,
    ) -> Result<bool, Fault> {
        while self.give(to, pipes).map_err(Fault::To)? && from.may_be_read() && *budget > 0 {
            let carried = if self.is_bulk() && from.tls.is_none() && to.tls.is_none() {
                self.take_bulk(from, pipes).map_err(Fault::From)?
            } else {
                None
            };
            let carried = match carried {
                Some(carried) => carried,
                None => self.copy(from, to, scratch)?,
            };
            *budget = budget.saturating_sub(carried.max(1));
        }
        // What the codec of the reading end has to say to its own peer: tickets, new keys.
        from.flush().map_err(Fault::From)?;
        if !from.ended || self.pipe.is_some() || !to.out.is_empty() {
            return Ok(false);
        }
        to.say_farewell(to.ended).map_err(Fault::To)
    }

    fn is_bulk(&self) -> bool {
        self.full_reads >= BULK_AFTER
    }

    /// Gives the receiving end what waits for it; `true` when nothing does any more.
    fn give<S: Stream<Pipe = P>>(
        &mut self,
        to: &mut End<S>,
        pipes: &mut impl Pipes<P>,
    ) -> Result<bool, Broken> {
        if !to.flush()? {
            return Ok(false);
        }
        while let Some((pipe, length)) = &mut self.pipe {
            if !to.writable {
                return Ok(false);
            }
            match to.stream.drain(pipe, *length) {
                Ok(moved) => *length -= moved,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    to.writable = false;
                    return Ok(false);
                }
                Err(error) => return Err(Broken::Socket(error)),
            }
            if *length == 0
                && let Some((pipe, _)) = self.pipe.take()
            {
                pipes.put(pipe);
            }
        }
        Ok(true)
    }

    /// Lets the kernel take what the sending end has. `None`: it cannot, and the bytes must be copied.
    fn take_bulk<S: Stream<Pipe = P>>(
        &mut self,
        from: &mut End<S>,
        pipes: &mut impl Pipes<P>,
    ) -> Result<Option<usize>, Broken> {
        let Some(pipe) = pipes.take() else { return Ok(None) };
        match from.stream.fill(&pipe) {
            Ok(0) => {
                pipes.put(pipe);
                from.ended = true;
                Ok(Some(0))
            }
            Ok(count) => {
                self.bytes += count as u64;
                self.full_reads = if count >= SMALL { BULK } else { self.full_reads - 1 };
                self.pipe = Some((pipe, count));
                Ok(Some(count))
            }
            Err(error) => {
                pipes.put(pipe);
                if error.kind() != io::ErrorKind::WouldBlock {
                    return Err(Broken::Socket(error));
                }
                from.readable = false;
                Ok(Some(0))
            }
        }
    }

    fn copy<S: Stream<Pipe = P>>(
        &mut self,
        from: &mut End<S>,
        to: &mut End<S>,
        scratch: &mut Scratch,
    ) -> Result<usize, Fault> {
        let most = if from.tls.is_some() || to.tls.is_some() { TLS_READ } else { READ };
        let read = from.read_most(most, scratch).map_err(Fault::From)?;
        let Scratch { read: buffer, plain, wire } = scratch;
        let bytes = match read {
            Read::Nothing | Read::Ended => return Ok(0),
            Read::Bytes(count) => &buffer[..count],
            Read::Plain => plain.as_slice(),
        };
        self.full_reads = if bytes.len() == READ { (self.full_reads + 1).min(BULK) } else { 0 };
        self.bytes += bytes.len() as u64;
        if !bytes.is_empty() {
            to.write(bytes, wire).map_err(Fault::To)?;
        }
        Ok(bytes.len())
    }
}
