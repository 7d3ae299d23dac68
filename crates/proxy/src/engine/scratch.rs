//! Buffers that one worker lends to whichever connection it is busy with, so that none needs its own.

use crate::tls::Codec;

/// A read takes up to this much. Larger ones cost more cache than they save calls.
pub(crate) const READ: usize = 64 * 1024;

/// What a TLS codec may put before a read.
const CARRIED: usize = Codec::MOST_CARRIED;

#[derive(Debug)]
pub(crate) struct Scratch {
    /// As it came from a peer.
    pub(super) read: Box<[u8]>,
    /// The same without its encryption.
    pub(super) plain: Vec<u8>,
    /// As it goes to the other peer, where that needs encryption; whoever writes it says how much it is.
    pub(super) wire: Vec<u8>,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            read: vec![0; READ + CARRIED].into_boxed_slice(),
            plain: Vec::with_capacity(READ + CARRIED),
            wire: Vec::with_capacity(READ + CARRIED),
        }
    }
}
