//! How far a process that serves is, for whoever asks whether it is ready.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Starting,
    Ready,
    Draining,
}

#[derive(Debug)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    pub(crate) const fn new() -> Self {
        Self(AtomicU8::new(Phase::Starting as u8))
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.0.load(Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    /// Ready, unless it is ending already. Says whether it became so now.
    pub(crate) fn ready(&self) -> bool {
        let (from, to) = (Phase::Starting as u8, Phase::Ready as u8);
        self.0.compare_exchange(from, to, Relaxed, Relaxed).is_ok()
    }

    pub(crate) fn drain(&self) {
        self.0.store(Phase::Draining as u8, Relaxed);
    }
}
