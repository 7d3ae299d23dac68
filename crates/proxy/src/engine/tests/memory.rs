//! Streams in memory. They behave as sockets under an edge-triggered poller do: bytes and room are told of once, when
//! they come, so that a session that forgets what it was told stands still.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use crate::engine::{Network, Pipes, Stream};

/// Bytes on their way in one direction.
#[derive(Default)]
pub(super) struct Way {
    pub(super) bytes: VecDeque<u8>,
    pub(super) ended: bool,
    /// Whoever it goes to takes no more.
    pub(super) refused: bool,
    /// Somebody came for room in vain.
    pub(super) wanted: bool,
}

/// Both directions between a session and one of its peers.
#[derive(Default)]
pub(super) struct Wire {
    pub(super) to_session: Way,
    pub(super) to_peer: Way,
    pub(super) reset_by_peer: bool,
    pub(super) reset_by_session: bool,
    /// For a connection that was asked for.
    pub(super) pending: bool,
}

pub(super) const ROOM: usize = 97;

/// The session's end.
pub(super) struct Memory(pub(super) Rc<RefCell<Wire>>);

impl Stream for Memory {
    type Pipe = ();

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let wire = &mut *self.0.borrow_mut();
        if wire.reset_by_peer {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if wire.to_session.bytes.is_empty() && !wire.to_session.ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = buffer.len().min(wire.to_session.bytes.len());
        for (slot, byte) in buffer.iter_mut().zip(wire.to_session.bytes.drain(..count)) {
            *slot = byte;
        }
        Ok(count)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let wire = &mut *self.0.borrow_mut();
        if wire.reset_by_peer {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        assert!(!wire.to_peer.ended, "sent after the end");
        if wire.to_peer.refused {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = if wire.pending { 0 } else { ROOM - wire.to_peer.bytes.len() };
        let count = bytes.len().min(room);
        if count == 0 {
            wire.to_peer.wanted = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        wire.to_peer.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn end(&self) -> io::Result<()> {
        self.0.borrow_mut().to_peer.ended = true;
        Ok(())
    }

    fn connected(&self) -> io::Result<()> {
        let wire = self.0.borrow();
        match (wire.reset_by_peer, wire.pending) {
            (true, _) => Err(io::ErrorKind::ConnectionRefused.into()),
            (false, true) => Err(io::ErrorKind::WouldBlock.into()),
            (false, false) => Ok(()),
        }
    }

    fn reset(&self) {
        self.0.borrow_mut().reset_by_session = true;
    }

    fn fill(&self, (): &()) -> io::Result<usize> {
        unreachable!("memory has no pipes")
    }

    fn drain(&self, (): &(), _: usize) -> io::Result<usize> {
        unreachable!("memory has no pipes")
    }
}

pub(super) struct NoPipes;

impl Pipes<()> for NoPipes {
    fn take(&mut self) -> Option<()> {
        None
    }

    fn put(&mut self, (): ()) {}
}

/// Endpoints by the last byte of their address: 1 is there at once where it is sent something, 2, 4 and 5 are not,
/// 3 refuses at once.
#[derive(Default)]
pub(super) struct Cloud {
    pub(super) dialed: Vec<(u8, bool)>,
    pub(super) wire: Option<Rc<RefCell<Wire>>>,
}

impl Network for Cloud {
    type Stream = Memory;

    fn connect(&mut self, to: SocketAddr, bytes_in_hand: bool) -> io::Result<Memory> {
        let IpAddr::V4(address) = to.ip() else { unreachable!("all endpoints here are IPv4") };
        let last = address.octets()[3];
        self.dialed.push((last, bytes_in_hand));
        if last == 3 {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let wire = Wire { pending: last != 1, ..Wire::default() };
        let wire = Rc::new(RefCell::new(wire));
        self.wire = Some(Rc::clone(&wire));
        Ok(Memory(wire))
    }
}
