//! What the engine asks of a network. Sockets answer it in the data plane, memory does in tests.

use std::io;
use std::net::SocketAddr;

/// One end of a byte stream that never waits: what would wait is [`io::ErrorKind::WouldBlock`].
pub(crate) trait Stream {
    /// What bulk data goes through without being looked at.
    type Pipe;

    /// Nothing more will come after 0.
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;

    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Tells the peer that nothing more will come, while it may still send.
    fn end(&self) -> io::Result<()>;

    /// What became of the attempt to connect: `Ok` once it succeeded, `WouldBlock` until it is known.
    fn connected(&self) -> io::Result<()>;

    /// Makes the coming close a reset, so that the peer does not take what it got for the whole.
    fn reset(&self);

    /// Moves bytes into an empty pipe; 0 as for [`recv`](Self::recv).
    fn fill(&self, pipe: &Self::Pipe) -> io::Result<usize>;

    /// Moves up to `length` bytes that are in a pipe.
    fn drain(&self, pipe: &Self::Pipe, length: usize) -> io::Result<usize>;
}

/// Where streams to backends come from.
pub(crate) trait Network {
    type Stream: Stream;

    /// Begins to connect and does not wait. With bytes in hand that are about to be sent, the acknowledgement of the
    /// handshake may ride on them; without, a backend that speaks first must not be kept waiting for it.
    fn connect(&mut self, to: SocketAddr, bytes_in_hand: bool) -> io::Result<Self::Stream>;
}

/// Pipes that are not in use. A connection has one only while bytes are on their way.
pub(crate) trait Pipes<P> {
    /// `None`: there is none to be had, and the bytes are copied instead.
    fn take(&mut self) -> Option<P>;

    /// Takes back an empty pipe.
    fn put(&mut self, pipe: P);
}
