//! A listener at run time: what it needs beyond its plan, and how much of it is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::observe::ListenerStats;

pub(crate) struct Serving {
    pub(crate) stats: Arc<ListenerStats>,
    /// Connections at this moment. Kept when the listener changes, as they are.
    active: Arc<AtomicUsize>,
    /// For listeners that terminate TLS.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
}

impl Serving {
    pub(crate) fn new(
        stats: Arc<ListenerStats>,
        tls: Option<Arc<rustls::ServerConfig>>,
        before: Option<&Self>,
    ) -> Self {
        Self { stats, active: before.map_or_else(Arc::default, |before| Arc::clone(&before.active)), tls }
    }

    /// Takes a place among the connections of the listener, unless all are taken.
    pub(crate) fn enter(&self, limit: usize) -> bool {
        let taken = self.active.fetch_add(1, Relaxed) < limit;
        if !taken {
            self.leave();
        }
        taken
    }

    pub(crate) fn leave(&self) {
        self.active.fetch_sub(1, Relaxed);
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Relaxed)
    }
}
