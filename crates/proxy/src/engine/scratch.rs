//! Buffers that one worker lends to whichever connection it is busy with, so that none needs its own.

use crate::tls::Codec;

/// A read takes up to this much. Larger ones cost more cache than they save calls.
pub(crate) const READ: usize = 64 * 1024;

/// The same where one of the ends has TLS: there is no other way to carry much at a time, and each write wakes the
/// receiver.
pub(super) const TLS_READ: usize = 2 * READ;

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
            read: vec![0; TLS_READ + CARRIED].into_boxed_slice(),
            plain: Vec::with_capacity(TLS_READ + CARRIED),
            wire: Vec::with_capacity(TLS_READ + CARRIED),
        }
    }
}
