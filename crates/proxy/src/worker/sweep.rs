//! Ending what was removed. Connections outlive most changes; those whose listener, route or permission is gone have
//! a deadline, and all of them have one when the process is told to stop.

use std::time::Duration;

use super::Worker;
use crate::Ending;

/// A walk over all connections, a stretch of them at a time so that traffic goes on.
#[derive(Debug)]
pub(super) struct Sweep {
    next: u32,
    reach: Reach,
    time: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Removed,
    All,
}

/// Connections looked at in one stretch.
const STRETCH: u32 = 10_000;

impl Worker {
    pub(super) fn begin_sweep(&mut self) {
        self.kit.take_up_snapshot();
        self.udp.replanned();
        self.http.look_again();
        if self.sweep.as_ref().is_none_or(|sweep| sweep.reach == Reach::Removed) {
            self.sweep =
                Some(Sweep { next: 0, reach: Reach::Removed, time: self.kit.snapshot.bounds.drain_time });
        }
        self.continue_sweep();
    }

    /// The sockets go first, so that nothing new comes; those of datagrams are kept for the flows that are there.
    pub(super) fn drain(&mut self, time: Duration) {
        self.with_flows(|udp, context| udp.drain(time, context));
        for number in 0..self.listening.len() {
            self.unlisten(number);
        }
        self.http.drain(time);
        self.sweep = Some(Sweep { next: 0, reach: Reach::All, time });
        self.continue_sweep();
    }

    pub(super) fn continue_sweep(&mut self) {
        let Some(Sweep { next, reach, time }) = self.sweep.take() else { return };
        let end = self.sessions.places().min(next.saturating_add(STRETCH));
        let ending = if reach == Reach::All { Ending::Shutdown } else { Ending::Drained };
        let deadline = self.kit.tick().after(time);
        for place in next..end {
            let Some((due, entry)) = self.sessions.at(place) else { continue };
            if reach == Reach::All || entry.session.facts.lost(&self.kit.snapshot) {
                let sooner = entry.session.drain.is_none_or(|(other, _)| deadline < other);
                if sooner {
                    entry.session.drain = Some((deadline, ending));
                    entry.entered = entry.entered.min(self.wheel.enter(deadline, due));
                }
            }
        }
        if end < self.sessions.places() {
            self.sweep = Some(Sweep { next: end, reach, time });
        }
    }
}
