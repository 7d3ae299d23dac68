//! What single listeners, routes and backends have carried, a cell for each worker.

use std::sync::Arc;

use super::count::{Count, Counts, PerWorker};
use super::ledger::{Account, Ledger};
use crate::Ending;

#[derive(Debug)]
pub(crate) struct ListenerStats(PerWorker<ListenerCell>);

/// One worker's share of a listener.
#[derive(Debug, Default)]
pub(crate) struct ListenerCell {
    connections: Count,
    up: Count,
    down: Count,
    endings: Counts<{ Ending::COUNT }>,
}

impl ListenerStats {
    pub(crate) fn new(workers: usize) -> Self {
        Self(PerWorker::new(workers))
    }

    #[inline]
    pub(crate) fn cell(&self, worker: usize) -> &ListenerCell {
        self.0.cell(worker)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.0.sum(|cell| cell.connections.get())
    }

    pub(crate) fn up(&self) -> u64 {
        self.0.sum(|cell| cell.up.get())
    }

    pub(crate) fn down(&self) -> u64 {
        self.0.sum(|cell| cell.down.get())
    }

    pub(crate) fn ended(&self, ending: Ending) -> u64 {
        self.0.sum(|cell| cell.endings.get(ending.index()))
    }
}

impl ListenerCell {
    /// A connection or flow was found to be the listener's.
    #[inline]
    pub(crate) fn taken(&self) {
        self.connections.add(1);
    }

    #[inline]
    pub(crate) fn carried(&self, up: u64, down: u64) {
        self.up.add(up);
        self.down.add(down);
    }

    #[inline]
    pub(crate) fn ended(&self, ending: Ending) {
        self.endings.add(ending.index(), 1);
    }
}

/// Of a route or a backend. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct TrafficStats(Account);

/// One worker's share of that.
#[derive(Debug, Default)]
pub(crate) struct TrafficCell {
    connections: Count,
    failures: Count,
    up: Count,
    down: Count,
}

impl TrafficStats {
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Self {
        Self(ledger.open())
    }

    #[inline]
    pub(crate) fn cell(&self, worker: usize) -> &TrafficCell {
        self.0.cell(worker)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.0.sum(|cell| cell.connections.get())
    }

    pub(crate) fn failures(&self) -> u64 {
        self.0.sum(|cell| cell.failures.get())
    }

    pub(crate) fn up(&self) -> u64 {
        self.0.sum(|cell| cell.up.get())
    }

    pub(crate) fn down(&self) -> u64 {
        self.0.sum(|cell| cell.down.get())
    }
}

impl TrafficCell {
    /// An endpoint accepted a connection, or a flow began.
    #[inline]
    pub(crate) fn connected(&self) {
        self.connections.add(1);
    }

    /// Of a backend: an endpoint did not accept a connection. Of a route: a connection reached no endpoint.
    pub(crate) fn failed(&self) {
        self.failures.add(1);
    }

    #[inline]
    pub(crate) fn carried(&self, up: u64, down: u64) {
        self.up.add(up);
        self.down.add(down);
    }

    /// For another owner.
    pub(super) fn clear(&self) {
        for count in [&self.connections, &self.failures, &self.up, &self.down] {
            count.clear();
        }
    }

    #[cfg(test)]
    pub(super) fn connections(&self) -> u64 {
        self.connections.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_workers_add_up() {
        let listener = ListenerStats::new(2);
        for worker in 0..2 {
            listener.cell(worker).taken();
            listener.cell(worker).carried(10, 20);
        }
        listener.cell(1).ended(Ending::Drained);
        assert_eq!((listener.connections(), listener.up(), listener.down()), (2, 20, 40));
        assert_eq!((listener.ended(Ending::Drained), listener.ended(Ending::Done)), (1, 0));

        let backend = TrafficStats::new(&Ledger::new(2));
        backend.cell(0).connected();
        backend.cell(0).failed();
        backend.cell(1).failed();
        backend.cell(1).carried(1, 2);
        assert_eq!((backend.connections(), backend.failures(), backend.up(), backend.down()), (1, 2, 1, 2));
    }
}
