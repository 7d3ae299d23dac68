//! What single listeners and backends have carried, a cell for each worker.

use super::count::{Count, Counts, PerWorker};
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

#[derive(Debug)]
pub(crate) struct BackendStats(PerWorker<BackendCell>);

/// One worker's share of a backend.
#[derive(Debug, Default)]
pub(crate) struct BackendCell {
    connections: Count,
    failures: Count,
    up: Count,
    down: Count,
}

impl BackendStats {
    pub(crate) fn new(workers: usize) -> Self {
        Self(PerWorker::new(workers))
    }

    #[inline]
    pub(crate) fn cell(&self, worker: usize) -> &BackendCell {
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

impl BackendCell {
    /// An endpoint accepted a connection, or a flow began.
    #[inline]
    pub(crate) fn connected(&self) {
        self.connections.add(1);
    }

    /// An endpoint did not accept a connection.
    pub(crate) fn failed(&self) {
        self.failures.add(1);
    }

    #[inline]
    pub(crate) fn carried(&self, up: u64, down: u64) {
        self.up.add(up);
        self.down.add(down);
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

        let backend = BackendStats::new(2);
        backend.cell(0).connected();
        backend.cell(0).failed();
        backend.cell(1).failed();
        backend.cell(1).carried(1, 2);
        assert_eq!((backend.connections(), backend.failures(), backend.up(), backend.down()), (1, 2, 1, 2));
    }
}
