//! The connections of a worker, so that they can be told to end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tidegate_proxy::{Ending, Snapshot};

use super::Tie;

#[derive(Default)]
pub(crate) struct Guests {
    seats: RefCell<Vec<Option<Rc<Tie>>>>,
    free: RefCell<Vec<usize>>,
    /// Where a walk over all of them goes on.
    walk: Cell<Option<usize>>,
    /// Set once everything is to end: for those that come after.
    closing: Cell<Option<(Instant, Ending)>>,
}

/// Connections looked at in one stretch.
const STRETCH: usize = 10_000;

/// A connection's place among the guests, for as long as it is held.
pub(crate) struct Seat {
    guests: Rc<Guests>,
    number: usize,
}

impl Guests {
    pub(crate) fn seat(self: &Rc<Self>, tie: &Rc<Tie>) -> Seat {
        if let Some((deadline, ending)) = self.closing.get() {
            tie.end(deadline, ending);
        }
        let mut seats = self.seats.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            seats.push(None);
            seats.len() - 1
        });
        seats[number] = Some(Rc::clone(tie));
        Seat { guests: Rc::clone(self), number }
    }

    pub(crate) fn begin_walk(&self) {
        self.walk.set(Some(0));
    }

    /// Tells those that would not be let in today to end, a stretch at a time.
    pub(crate) fn continue_walk(&self, snapshot: &Snapshot, time: Duration) {
        let Some(start) = self.walk.take() else { return };
        let deadline = Instant::now() + time;
        let seats = self.seats.borrow();
        let end = seats.len().min(start + STRETCH);
        for tie in seats[start.min(end)..end].iter().flatten() {
            if !tie.is_welcome(snapshot) {
                tie.end(deadline, Ending::Drained);
            }
        }
        if end < seats.len() {
            self.walk.set(Some(end));
        }
    }

    pub(crate) fn end_all(&self, deadline: Instant, ending: Ending) {
        self.closing.set(Some((deadline, ending)));
        self.seats.borrow().iter().flatten().for_each(|tie| tie.end(deadline, ending));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.guests.seats.borrow_mut()[self.number] = None;
        self.guests.free.borrow_mut().push(self.number);
    }
}
