//! When bytes went over a client's connection.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use crate::clock::Clock;

#[derive(Debug)]
pub(crate) struct Activity {
    clock: Rc<Clock>,
    last: Cell<Instant>,
    /// The next byte begins the head of a request.
    awaiting: Cell<bool>,
    head: Cell<Instant>,
}

impl Activity {
    pub(super) fn new(clock: &Rc<Clock>) -> Rc<Self> {
        let now = clock.now();
        let (last, head) = (Cell::new(now), Cell::new(now));
        Rc::new(Self { clock: Rc::clone(clock), last, awaiting: Cell::new(false), head })
    }

    /// No request is under way: from here on the next byte is the first of one.
    pub(super) fn requests_ended(&self) {
        self.awaiting.set(true);
    }

    /// Whether no byte of a request has come since [`requests_ended`](Self::requests_ended).
    pub(super) fn is_awaiting(&self) -> bool {
        self.awaiting.get()
    }

    /// When the first byte of the request that is being read came.
    pub(super) fn head(&self) -> Instant {
        self.head.get()
    }

    /// When the last byte went in either direction.
    pub(super) fn last(&self) -> Instant {
        self.last.get()
    }

    /// Bytes came.
    pub(super) fn came(&self) {
        self.went();
        if self.awaiting.replace(false) {
            self.head.set(self.last.get());
        }
    }

    /// Bytes went out.
    pub(super) fn went(&self) {
        self.last.set(self.clock.now());
    }
}
