//! Connections over HTTP/2: many requests at a time on few of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::client::conn::http2::SendRequest;

use crate::body::Upload;

/// Those that are there, and who waits for one that is being made.
#[derive(Default)]
pub(super) struct Shared {
    all: RefCell<Vec<Rc<Connection>>>,
    /// Whether one is being made: those who come meanwhile wait for it instead of making their own.
    pub(super) making: Cell<bool>,
    pub(super) made: tokio::sync::Notify,
}

pub(super) struct Connection {
    sender: SendRequest<Upload>,
    active: Cell<usize>,
    /// As many streams as the backend lets us have, or we want.
    pub(super) limit: Rc<Cell<usize>>,
    used: Cell<bool>,
    idle: Cell<Instant>,
}

/// One request's share of a connection.
pub(crate) struct Stream {
    connection: Rc<Connection>,
    sender: SendRequest<Upload>,
    was_used: bool,
}

impl Stream {
    fn new(connection: &Rc<Connection>) -> Self {
        connection.active.set(connection.active.get() + 1);
        let was_used = connection.used.replace(true);
        Self { sender: connection.sender.clone(), connection: Rc::clone(connection), was_used }
    }

    pub(super) fn sender(&mut self) -> &mut SendRequest<Upload> {
        &mut self.sender
    }

    pub(super) fn was_used(&self) -> bool {
        self.was_used
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.active.set(connection.active.get() - 1);
        connection.idle.set(Instant::now());
    }
}

impl Shared {
    /// A stream of the least busy connection that has room.
    pub(super) fn take(&self) -> Option<Stream> {
        let mut all = self.all.borrow_mut();
        all.retain(|connection| !connection.sender.is_closed());
        let roomy = all.iter().filter(|connection| connection.active.get() < connection.limit.get());
        roomy.min_by_key(|connection| connection.active.get()).map(Stream::new)
    }

    pub(super) fn add(&self, sender: SendRequest<Upload>, limit: Rc<Cell<usize>>) -> Stream {
        let connection = Rc::new(Connection {
            sender,
            active: Cell::new(0),
            limit,
            used: Cell::new(false),
            idle: Cell::new(Instant::now()),
        });
        let stream = Stream::new(&connection);
        self.all.borrow_mut().push(connection);
        stream
    }

    /// A stream that belongs to no connection others may use: its pool is closed.
    pub(super) fn alone(sender: SendRequest<Upload>, limit: Rc<Cell<usize>>) -> Stream {
        Self::default().add(sender, limit)
    }

    pub(super) fn tend(&self, now: Instant, time: Duration) -> bool {
        let mut all = self.all.borrow_mut();
        all.retain(|connection| {
            let rests = connection.active.get() == 0 && now.duration_since(connection.idle.get()) >= time;
            !rests && !connection.sender.is_closed()
        });
        all.is_empty()
    }

    /// Streams under way go on; the connection ends with the last of them.
    pub(super) fn clear(&self) {
        self.all.borrow_mut().clear();
    }
}
