//! Connections over HTTP/2: many requests at a time on few of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::client::conn::http2::SendRequest;
use tokio::sync::Notify;

use crate::body::Upload;

/// Those that are there, and who waits for one that is being made.
#[derive(Default)]
pub(super) struct Shared {
    all: RefCell<Vec<Rc<Connection>>>,
    /// Whether one is being made: those who come meanwhile wait for it instead of making their own.
    pub(super) making: Cell<bool>,
    pub(super) made: Notify,
}

struct Connection {
    sender: SendRequest<Upload>,
    active: Cell<usize>,
    peer: Rc<Peer>,
    used: Cell<bool>,
    idle: Cell<Instant>,
}

/// What the backend has told of a connection so far.
pub(super) struct Peer {
    /// As many streams as it lets us have, or we want.
    streams: Cell<usize>,
    /// Whether it takes tunnels (RFC 8441). `None` as long as its settings are not there.
    tunnels: Cell<Option<bool>>,
    /// Somebody would like to know it.
    asked: Notify,
}

/// Requests at a time on one connection, if the backend does not want fewer.
const STREAMS: usize = 100;

/// How often settings that are awaited are looked for: hyper does not say when they come.
const LOOK: Duration = Duration::from_millis(2);

impl Peer {
    /// The number of streams that stands for none having been told: no settings can have it.
    pub(super) const UNTOLD: usize = usize::MAX - 1;

    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self { streams: Cell::new(STREAMS), tunnels: Cell::new(None), asked: Notify::new() })
    }

    /// As things stand now; the backend may say at any time that it wants fewer streams.
    pub(super) fn says(&self, streams: usize, tunnels: bool) {
        if streams != Self::UNTOLD {
            self.streams.set(streams.clamp(1, STREAMS));
            self.tunnels.set(Some(tunnels));
        }
    }

    /// It will tell no more.
    pub(super) fn ends(&self) {
        self.tunnels.set(Some(false));
    }

    /// Waits until it is worth a look at what the backend says.
    pub(super) async fn is_asked(&self) {
        self.asked.notified().await;
    }

    async fn takes_tunnels(&self) -> bool {
        loop {
            if let Some(tunnels) = self.tunnels.get() {
                return tunnels;
            }
            self.asked.notify_one();
            tokio::time::sleep(LOOK).await;
        }
    }
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

    /// Waits until that is known.
    pub(super) async fn takes_tunnels(&self) -> bool {
        self.connection.peer.takes_tunnels().await
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
        let roomy = all.iter().filter(|connection| connection.active.get() < connection.peer.streams.get());
        roomy.min_by_key(|connection| connection.active.get()).map(Stream::new)
    }

    pub(super) fn add(&self, sender: SendRequest<Upload>, peer: Rc<Peer>) -> Stream {
        let connection = Rc::new(Connection {
            sender,
            active: Cell::new(0),
            peer,
            used: Cell::new(false),
            idle: Cell::new(Instant::now()),
        });
        let stream = Stream::new(&connection);
        self.all.borrow_mut().push(connection);
        stream
    }

    /// A stream that belongs to no connection others may use: its pool is closed.
    pub(super) fn alone(sender: SendRequest<Upload>, peer: Rc<Peer>) -> Stream {
        Self::default().add(sender, peer)
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
