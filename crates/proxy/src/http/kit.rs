//! What a worker lends to the HTTP engine on its thread: the newest snapshot, chance, pipes, counters, the log, the journal.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::Guard;
use tidegate_plan::TlsVersion;

use crate::net::PipePool;
use crate::observe::{ConnectFailure, LogWriter, Record, Refused, RequestRecord, RequestStats, Side};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::upstream::{Backend, Lease, Random};
use crate::{Bounds, Ending};

pub struct HttpKit {
    shared: Arc<Shared>,
    worker: usize,
    log: Option<Rc<RefCell<LogWriter>>>,
    random: RefCell<Random>,
    /// For bodies that nobody needs to look at.
    pub pipes: PipePool,
}

impl HttpKit {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        worker: usize,
        log: Option<Rc<RefCell<LogWriter>>>,
        pipes: PipePool,
    ) -> Self {
        Self { shared: Arc::clone(shared), worker, log, random: RefCell::new(Random::new()), pipes }
    }

    /// What is served at this moment. To be let go before anything is waited for.
    #[must_use]
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.shared.snapshot.load()
    }

    /// As they are at this moment.
    #[must_use]
    pub fn bounds(&self) -> Arc<Bounds> {
        Arc::clone(&self.shared.snapshot.load().bounds)
    }

    /// What a CA is answered that asks for the proof of a name.
    #[must_use]
    pub fn proof(&self, host: &str, path: &str) -> Option<Arc<str>> {
        self.shared.challenges.of_request(host, path)
    }

    /// A number by chance, of no use as a secret.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.random.borrow_mut().next()
    }

    /// The endpoint for a request of this client, other than those that were tried. `None`: none is left.
    #[must_use]
    pub fn pick(
        &self,
        backend: &Backend,
        client: IpAddr,
        tried: &[SocketAddr],
        now: Instant,
    ) -> Option<Lease> {
        backend.pick(client, tried, &mut self.random.borrow_mut(), now).map(Lease::new)
    }

    /// An endpoint is asked for a connection; [`connected`](Self::connected) or
    /// [`connect_failed`](Self::connect_failed) follows.
    pub fn connecting(&self) {
        self.shared.counters[self.worker].connecting();
    }

    pub fn connected(&self, backend: &Backend, endpoint: &Lease) {
        endpoint.connected();
        backend.stats.cell(self.worker).connected();
    }

    /// Whether it is the endpoint's fault, so that another is worth a try.
    pub fn connect_failed(&self, backend: &Backend, endpoint: &Lease, error: &io::Error) -> bool {
        let failure = ConnectFailure::from(error);
        self.shared.counters[self.worker].connect_failed(failure);
        backend.stats.cell(self.worker).failed();
        if failure.is_of_endpoint() {
            endpoint.failed(Instant::now());
        }
        failure.is_of_endpoint()
    }

    /// The handshake with a backend was carried through.
    pub fn shook_hands(&self, connection: &rustls::ClientConnection) {
        let version = match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => TlsVersion::V1_2,
            _ => TlsVersion::V1_3,
        };
        let resumed = connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
        self.shared.counters[self.worker].handshake(Side::Backend, version, resumed);
    }

    /// Counts a request that is over and writes its line. `stats` are those of its route, where it had one.
    pub fn request_over(
        &self,
        record: &RequestRecord<'_>,
        stats: Option<&RequestStats>,
        backend: Option<&Backend>,
    ) {
        let counters = &self.shared.counters[self.worker];
        counters.request(record.ending, record.status);
        counters.up(record.up);
        counters.down(record.down);
        if let Some(stats) = stats {
            stats.cell(self.worker).over(record);
        }
        if let Some(backend) = backend {
            backend.stats.cell(self.worker).carried(record.up, record.down);
        }
        if let Some(log) = &self.log {
            log.borrow_mut().write(&Record::of_request(record));
        }
    }

    /// Whether a refusal of this moment is to be [kept](Self::keep) in the journal.
    #[must_use]
    pub fn wants_refusal(&self, now: SystemTime) -> bool {
        self.shared.journal.wants(now)
    }

    pub fn keep(&self, refused: Refused) {
        self.shared.journal.keep(refused);
    }

    /// A bound of the HTTP engine was reached where no request or connection ended for it.
    pub fn reached(&self, ending: Ending) {
        self.shared.counters[self.worker].reached(ending);
    }
}

impl fmt::Debug for HttpKit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpKit").field("worker", &self.worker).finish_non_exhaustive()
    }
}
