//! What a worker lends to whichever connection it is busy with.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crate::engine::{Scratch, Tick, World};
use crate::net::{Dialer, PipePool};
use crate::observe::Counters;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::upstream::Random;

pub(super) struct Kit {
    pub(super) number: usize,
    shared: Arc<Shared>,
    pub(super) snapshot: Arc<Snapshot>,
    scratch: Scratch,
    pub(super) pipes: PipePool,
    dialer: Dialer,
    pub(super) random: Random,
    began: Instant,
    /// Looked at once a turn.
    pub(super) now: Instant,
    pub(super) wall: SystemTime,
}

impl Kit {
    pub(super) fn new(number: usize, shared: &Arc<Shared>) -> Self {
        let now = Instant::now();
        Self {
            number,
            shared: Arc::clone(shared),
            snapshot: shared.snapshot.load_full(),
            scratch: Scratch::new(),
            pipes: PipePool::default(),
            dialer: Dialer,
            random: Random::new(),
            began: now,
            now,
            wall: SystemTime::now(),
        }
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.shared.counters[self.number]
    }

    pub(super) fn look_at_clock(&mut self) {
        self.now = Instant::now();
        self.wall = SystemTime::now();
    }

    pub(super) fn tick(&self) -> Tick {
        Tick::at(self.now.duration_since(self.began))
    }

    /// Before every accept the newest state is taken up.
    pub(super) fn take_up_snapshot(&mut self) {
        let newest = self.shared.snapshot.load();
        if !Arc::ptr_eq(&newest, &self.snapshot) {
            self.snapshot = Arc::clone(&newest);
        }
    }

    pub(super) fn world(&mut self) -> World<'_, Dialer, PipePool> {
        World {
            now: self.tick(),
            network: &mut self.dialer,
            pipes: &mut self.pipes,
            scratch: &mut self.scratch,
            snapshot: &self.snapshot,
            bounds: &self.snapshot.bounds,
            counters: &self.shared.counters[self.number],
            journal: &self.shared.journal,
            challenges: &self.shared.challenges,
            random: &mut self.random,
            worker: self.number,
            instant: self.now,
        }
    }
}
