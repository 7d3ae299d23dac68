//! A listener at run time: what it needs beyond its plan, and how much of it is in use.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tidegate_plan::Reason;

use crate::observe::ListenerStats;

pub(crate) struct Serving {
    pub(crate) stats: Arc<ListenerStats>,
    /// Connections at this moment. Kept when the listener changes, as they are.
    active: Arc<AtomicUsize>,
    /// For listeners that terminate TLS, unless they cannot.
    pub(crate) tls: Result<Option<Arc<rustls::ServerConfig>>, Reason>,
}

impl Serving {
    pub(crate) fn new(
        stats: Arc<ListenerStats>,
        tls: Result<Option<Arc<rustls::ServerConfig>>, Reason>,
        before: Option<&Self>,
    ) -> Self {
        Self { stats, active: before.map_or_else(Arc::default, |before| Arc::clone(&before.active)), tls }
    }

    /// Takes one of so many places.
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

/// One of the connections that a listener may have, for as long as this is held.
pub(crate) struct Place(Arc<Serving>);

impl Place {
    pub(crate) fn take(serving: &Arc<Serving>, limit: usize) -> Option<Self> {
        serving.enter(limit).then(|| Self(Arc::clone(serving)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Deref for Place {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.0
    }
}
