//! What all workers have in common.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arc_swap::ArcSwap;

use crate::http::HttpEngine;
use crate::observe::{Counters, Journal};
use crate::snapshot::Snapshot;
use crate::sources::Sources;
use crate::tls::Challenges;
use crate::{Bounds, Ending, Settings};

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    /// One for each worker.
    pub(crate) counters: Vec<Arc<Counters>>,
    pub(crate) journal: Journal,
    pub(crate) http: Box<dyn HttpEngine>,
    /// Names that are being proved to a CA.
    pub(crate) challenges: Challenges,
    /// Connections at this moment.
    active: AtomicUsize,
    pub(crate) sources: Sources,
    /// Which worker has which datagram flow.
    pub(crate) flows: Arc<crate::udp::Shared>,
}

impl Shared {
    pub(crate) fn new(settings: Settings, http: Box<dyn HttpEngine>) -> Self {
        Self {
            counters: (0..settings.workers).map(|_| Arc::default()).collect(),
            journal: Journal::default(),
            snapshot: Arc::new(ArcSwap::from_pointee(Snapshot {
                bounds: Arc::new(settings.bounds.clone()),
                ..Snapshot::default()
            })),
            http,
            challenges: Challenges::default(),
            active: AtomicUsize::new(0),
            sources: Sources::default(),
            flows: Arc::new(crate::udp::Shared::new(settings.workers, settings.bounds.udp_flows)),
            settings,
        }
    }

    /// Takes a place for a connection, or says why there is none.
    pub(crate) fn enter(&self, source: IpAddr, bounds: &Bounds) -> Result<(), Ending> {
        if self.active.fetch_add(1, Relaxed) >= bounds.connections {
            self.active.fetch_sub(1, Relaxed);
            return Err(Ending::TooManyConnections);
        }
        if !self.sources.enter(source, bounds.connections_per_source) {
            self.active.fetch_sub(1, Relaxed);
            return Err(Ending::TooManyForSource);
        }
        Ok(())
    }

    pub(crate) fn leave(&self, source: IpAddr) {
        self.active.fetch_sub(1, Relaxed);
        self.sources.leave(source);
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Relaxed)
    }
}
