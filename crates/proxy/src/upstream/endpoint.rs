//! One address of a backend, with what was seen of it by all workers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use serde::Serialize;

use super::health::{Health, Verdict};
use super::random::mixed;

#[derive(Debug)]
pub struct Endpoint {
    pub address: SocketAddr,
    active: AtomicU32,
    health: Health,
    /// From when the times of `health` count.
    born: Instant,
    /// Of the address, the same in every process: clients with affinity find their endpoint by it.
    hash: u64,
}

/// An endpoint as metrics and status show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointSeen {
    pub address: SocketAddr,
    /// Connections and flows at this moment.
    pub active: u32,
    /// Set aside because connections to it failed.
    pub ejected: bool,
}

impl Endpoint {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            active: AtomicU32::new(0),
            health: Health::default(),
            born: Instant::now(),
            hash: super::affinity::hash(&address),
        }
    }

    /// A connection or flow is about to use it; [`closed`](Self::closed) must follow once.
    pub(crate) fn opened(&self) {
        self.active.fetch_add(1, Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.active.fetch_sub(1, Relaxed);
    }

    /// It accepted a connection: whatever was held against it is forgotten.
    pub(crate) fn connected(&self) {
        self.health.connected();
    }

    /// It did not accept a connection.
    pub(crate) fn failed(&self, now: Instant) {
        self.health.failed(self.age(now));
    }

    pub(crate) fn active(&self) -> u32 {
        self.active.load(Relaxed)
    }

    pub(crate) fn seen(&self, now: Instant) -> EndpointSeen {
        let ejected = self.health.verdict(self.age(now)) != Verdict::Good;
        EndpointSeen { address: self.address, active: self.active(), ejected }
    }

    /// Whether it may be chosen; it must be [taken](Self::take) if it is.
    #[inline]
    pub(super) fn is_fit(&self, now: Instant) -> bool {
        self.health.is_flawless() || self.health.verdict(self.age(now)) != Verdict::Ejected
    }

    /// `false`: it may be tried by one connection only, and another was quicker.
    #[inline]
    pub(super) fn take(&self, now: Instant) -> bool {
        if self.health.is_flawless() {
            return true;
        }
        let age = self.age(now);
        self.health.verdict(age) == Verdict::Good || self.health.claim(age)
    }

    /// How much this endpoint is a client's own. The highest of a set wins, so that a client moves only when its
    /// endpoint goes or a higher one comes.
    #[inline]
    pub(super) fn claim_on(&self, client: u64) -> u64 {
        mixed(client, self.hash)
    }

    fn age(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.born).as_millis()).unwrap_or(u64::MAX >> 16)
    }
}
