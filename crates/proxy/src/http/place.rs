//! A place among the connections that there may be, and what is written down when it is given back.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tidegate_plan::TlsVersion;

use crate::Ending;
use crate::engine::Facts;
use crate::observe::{LogWriter, Record, Side};
use crate::shared::Shared;

/// Counts as one of the connections, in all, of its source and of its listener, for as long as it is kept.
pub struct ConnectionPlace {
    shared: Arc<Shared>,
    log: Option<Rc<RefCell<LogWriter>>>,
    worker: usize,
    facts: RefCell<Facts>,
    ending: Cell<Ending>,
    _occupied: OneOfThem,
}

/// How many HTTP connections a worker has.
#[derive(Default)]
pub(crate) struct Occupied(Cell<usize>);

/// Counts as one for as long as it is kept.
pub(crate) struct OneOfThem(Rc<Occupied>);

impl Occupied {
    pub(crate) fn by_one_more(this: &Rc<Self>) -> OneOfThem {
        this.0.set(this.0.get() + 1);
        OneOfThem(Rc::clone(this))
    }

    pub(crate) fn is_any(&self) -> bool {
        self.0.get() > 0
    }
}

impl Drop for OneOfThem {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() - 1);
    }
}

impl ConnectionPlace {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        log: Option<Rc<RefCell<LogWriter>>>,
        worker: usize,
        facts: Facts,
        occupied: OneOfThem,
    ) -> Self {
        let shared = Arc::clone(shared);
        let (facts, ending) = (RefCell::new(facts), Cell::new(Ending::Done));
        Self { shared, log, worker, facts, ending, _occupied: occupied }
    }

    /// Why the connection ends, unless that was said already. Requests have endings of their own: only a connection
    /// that ends before any of them has a line in the log.
    pub fn ends(&self, ending: Ending, detail: Option<&dyn fmt::Display>) {
        if self.ending.get() == Ending::Done {
            self.ending.set(ending);
            if let Some(detail) = detail {
                self.facts.borrow_mut().say(detail);
            }
        }
    }

    /// What came is no request, and was answered with this status (0: not at all). It counts as a request, too, and the
    /// connection ends with it.
    pub fn refuses(&self, ending: Ending, status: u16, detail: &dyn fmt::Display) {
        self.shared.counters[self.worker].request(ending, status);
        self.ends(ending, Some(detail));
    }

    /// The handshake with the client was not carried through.
    pub fn handshake_failed(&self, error: &std::io::Error) {
        self.ends(Ending::HandshakeFailed, Some(&crate::tls::tls_words(error)));
    }

    /// The handshake with the client was carried through.
    pub fn shook_hands(&self, connection: &rustls::ServerConnection) {
        let version = match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => TlsVersion::V1_2,
            _ => TlsVersion::V1_3,
        };
        let resumed = connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        self.shared.counters[self.worker].handshake(Side::Client, version, resumed);
    }

    /// The server name of the client's hello.
    #[must_use]
    pub fn server_name(&self) -> Option<Box<str>> {
        self.facts.borrow().server_name.clone()
    }

    fn write_down(&self) {
        let (facts, ending) = (self.facts.borrow(), self.ending.get());
        self.shared.counters[self.worker].ended(ending);
        if let Some(place) = &facts.place {
            let cell = place.stats.cell(self.worker);
            cell.taken();
            cell.ended(ending);
        }
        if !ending.is_refusal() {
            return;
        }
        let now = SystemTime::now();
        if self.shared.journal.wants(now) {
            self.shared.journal.keep(crate::worker::refused(&facts, Vec::new(), now, ending));
        }
        if let Some(log) = &self.log {
            let record = crate::worker::record(&facts, None, 0, 0, Instant::now(), ending);
            // A plain connection is known to carry HTTP before its listener is known.
            let protocol = facts.listener.as_ref().map_or("HTTP", |_| record.protocol);
            log.borrow_mut().write(&Record { protocol, ..record });
        }
    }
}

impl fmt::Debug for ConnectionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionPlace({})", self.facts.borrow().client)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.write_down();
        self.shared.leave(self.facts.borrow().client.ip());
    }
}
