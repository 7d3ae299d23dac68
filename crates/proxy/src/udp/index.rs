//! Which worker has a flow. The kernel deals datagrams to the workers' sockets and may deal one flow differently from
//! one datagram to the next; a worker that gets a datagram of another's flow passes it on through the flow's own
//! socket, so that the backend sees one sender, and its answers come to the worker that has the flow.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::udp::record::Traffic;
use crate::udp::table::Key;

/// What the workers have in common: how many flows there are, and whose they are.
#[derive(Debug)]
pub(crate) struct Shared {
    flows: AtomicUsize,
    limit: AtomicUsize,
    /// A lock each, held while one flow begins, ends or is passed on. A single worker needs none of them.
    shards: Box<[Mutex<Shard>]>,
    hasher: foldhash::quality::RandomState,
}

type Shard = HashMap<Key, Entry, foldhash::quality::RandomState>;

const SHARDS: usize = 64;

/// What is known of a flow outside of its worker.
#[derive(Debug)]
struct Entry {
    socket: Arc<OwnedFd>,
    passed: Passed,
}

/// What other workers have passed on to a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Passed {
    pub(crate) traffic: Traffic,
    /// The last time.
    pub(crate) at: Option<Instant>,
}

impl Shared {
    /// For so many workers, and so many flows in all.
    pub(crate) fn new(workers: usize, limit: usize) -> Self {
        let shards = if workers > 1 { SHARDS } else { 0 };
        Self {
            flows: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            hasher: Default::default(),
        }
    }

    pub(crate) fn flows(&self) -> usize {
        self.flows.load(Relaxed)
    }

    /// So many from now on; those above it that are there stay.
    pub(crate) fn limit(&self, limit: usize) {
        self.limit.store(limit, Relaxed);
    }

    /// Takes a place among all flows, unless there is none left.
    pub(super) fn enter(&self) -> bool {
        let taken = self.flows.fetch_add(1, Relaxed) < self.limit.load(Relaxed);
        if !taken {
            self.leave();
        }
        taken
    }

    pub(super) fn leave(&self) {
        self.flows.fetch_sub(1, Relaxed);
    }

    /// Says whose socket a flow has from now on. `false`: another worker has the flow.
    pub(super) fn claim(&self, key: &Key, socket: &Arc<OwnedFd>) -> bool {
        let Some(mut shard) = self.shard(key) else { return true };
        let mut claimed = false;
        shard.entry(*key).or_insert_with(|| {
            claimed = true;
            Entry { socket: Arc::clone(socket), passed: Passed::default() }
        });
        claimed
    }

    /// A flow of the caller's has another socket from now on.
    pub(super) fn replace(&self, key: &Key, socket: &Arc<OwnedFd>) {
        if let Some(mut shard) = self.shard(key)
            && let Some(entry) = shard.get_mut(key)
        {
            entry.socket = Arc::clone(socket);
        }
    }

    /// Forgets a flow of the caller's. From here on nobody sends on its socket but the caller.
    pub(super) fn release(&self, key: &Key) -> Passed {
        let entry = self.shard(key).and_then(|mut shard| shard.remove(key));
        entry.map(|entry| entry.passed).unwrap_or_default()
    }

    /// When another worker last passed something on to a flow of the caller's.
    pub(super) fn passed_at(&self, key: &Key) -> Option<Instant> {
        self.shard(key)?.get(key)?.passed.at
    }

    /// Passes something on to a flow of another worker: `send` gets its socket and says what was sent. `None`:
    /// nobody has the flow. The lock is held while sending, or the socket could be another flow's by then.
    pub(super) fn pass_on(
        &self,
        key: &Key,
        now: Instant,
        send: impl FnOnce(BorrowedFd<'_>) -> Traffic,
    ) -> Option<Traffic> {
        let mut shard = self.shard(key)?;
        let entry = shard.get_mut(key)?;
        let sent = send(entry.socket.as_fd());
        entry.passed.traffic += sent;
        entry.passed.at = Some(now);
        Some(sent)
    }

    fn shard(&self, key: &Key) -> Option<MutexGuard<'_, Shard>> {
        use std::hash::BuildHasher;
        let shard = self.shards.get(self.hasher.hash_one(key) as usize % self.shards.len().max(1))?;
        // Whoever held it changed one entry at most, and left it whole.
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use super::*;

    fn key(client: u16) -> Key {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Key { client: address(client), local: address(53) }
    }

    fn socket() -> Arc<OwnedFd> {
        Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap().into())
    }

    const ONE: Traffic = Traffic { datagrams: 1, bytes: 10 };

    #[test]
    fn a_flow_has_one_worker() {
        let shared = Shared::new(2, 10);
        let (mine, other) = (socket(), socket());
        assert!(shared.claim(&key(1), &mine));
        assert!(!shared.claim(&key(1), &other));
        assert!(shared.claim(&key(2), &other));
        shared.release(&key(1));
        assert!(shared.claim(&key(1), &other));
        assert_eq!(Arc::strong_count(&mine), 1, "a socket that was released is not kept open");
    }

    #[test]
    fn what_is_passed_on_goes_through_the_socket_of_the_flow_and_is_counted() {
        use std::os::fd::AsRawFd;
        let shared = Shared::new(2, 10);
        let now = Instant::now();
        let mine = socket();
        assert!(shared.pass_on(&key(1), now, |_| unreachable!("nobody has it")).is_none());
        assert!(shared.claim(&key(1), &mine));
        assert_eq!(shared.passed_at(&key(1)), None);
        for _ in 0..3 {
            let sent = shared.pass_on(&key(1), now, |socket| {
                assert_eq!(socket.as_raw_fd(), mine.as_raw_fd());
                ONE
            });
            assert_eq!(sent, Some(ONE));
        }
        assert_eq!(shared.passed_at(&key(1)), Some(now));
        let next = socket();
        shared.replace(&key(1), &next);
        shared.pass_on(&key(1), now, |socket| {
            assert_eq!(socket.as_raw_fd(), next.as_raw_fd(), "the flow has moved");
            Traffic::default()
        });
        let passed = shared.release(&key(1));
        assert_eq!(passed.traffic, Traffic { datagrams: 3, bytes: 30 });
        assert!(shared.pass_on(&key(1), now, |_| unreachable!("it has ended")).is_none());
    }

    #[test]
    fn a_single_worker_has_every_flow() {
        let shared = Shared::new(1, 10);
        assert!(shared.claim(&key(1), &socket()));
        assert!(shared.pass_on(&key(1), Instant::now(), |_| unreachable!("there is no other")).is_none());
        assert_eq!(shared.release(&key(1)).traffic, Traffic::default());
    }

    #[test]
    fn no_more_flows_than_there_may_be() {
        let shared = Arc::new(Shared::new(4, 100));
        let entered: usize = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..50).filter(|_| shared.enter()).count())).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!((entered, shared.flows()), (100, 100));
        shared.leave();
        assert!(shared.enter());
        assert!(!shared.enter());
    }
}
