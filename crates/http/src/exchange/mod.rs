//! One request and its answer: what is noted of them on their way, and written down when they are over.

mod authorize;
mod failure;
mod forward;
mod mirrored;
mod serve;
mod upgrade;

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri, Version};
use tidegate_plan::{ListenerHandle, RuleHandle};
use tidegate_proxy::{Backend, Ending, Refused, RequestRecord};

pub(crate) use self::serve::serve;
use crate::answer::{grpc_timeout, is_grpc};
use crate::client::{Reply, Tie};
use crate::engine::Home;
use crate::rules::Prepared;

/// Shared by the request's body and the answer's: whoever is done last ends it.
pub(crate) struct Exchange {
    pub(crate) home: Rc<Home>,
    pub(crate) tie: Rc<Tie>,
    reply: Reply,
    start: SystemTime,
    began: Instant,
    method: Method,
    uri: Uri,
    version: Version,
    host: Option<HeaderValue>,
    trace: Option<HeaderValue>,
    pub(crate) is_grpc: bool,
    /// How long a gRPC client waits. Backends that know it give up by themselves, and break off when they do.
    grpc_timeout: Option<Duration>,
    /// The client would like to go on with another protocol.
    is_tunnel: bool,
    listener: OnceCell<ListenerHandle>,
    rule: OnceCell<RuleHandle>,
    prepared: OnceCell<Arc<Prepared>>,
    backend: RefCell<Option<Arc<Backend>>>,
    endpoint: Cell<Option<SocketAddr>>,
    status: Cell<u16>,
    up: Cell<u64>,
    down: Cell<u64>,
    upstream: Cell<Option<Duration>>,
    retries: Cell<u32>,
    /// The request's body is on its way.
    uploading: Cell<bool>,
    /// Answers before the answer.
    early: Cell<u32>,
    /// The answer passes no more filters.
    is_final: Cell<bool>,
    ending: Cell<Option<Ending>>,
    detail: RefCell<Option<Box<str>>>,
}

/// So many answers may come before the answer; one is usual.
const MOST_EARLY: u32 = 16;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

impl Exchange {
    fn new(home: Rc<Home>, tie: Rc<Tie>, parts: &Parts, reply: Reply, is_tunnel: bool) -> Rc<Self> {
        tie.request_began();
        let is_grpc = is_grpc(&parts.headers);
        let began = Instant::now();
        Rc::new(Self {
            start: home.clock.time_of_day(began),
            began,
            home,
            tie,
            reply,
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            version: parts.version,
            host: parts.headers.get(header::HOST).cloned(),
            trace: parts.headers.get(TRACEPARENT).cloned(),
            is_grpc,
            grpc_timeout: if is_grpc { grpc_timeout(&parts.headers) } else { None },
            is_tunnel,
            listener: OnceCell::new(),
            rule: OnceCell::new(),
            prepared: OnceCell::new(),
            backend: RefCell::new(None),
            endpoint: Cell::new(None),
            status: Cell::new(0),
            up: Cell::new(0),
            down: Cell::new(0),
            upstream: Cell::new(None),
            retries: Cell::new(0),
            uploading: Cell::new(false),
            early: Cell::new(0),
            is_final: Cell::new(false),
            ending: Cell::new(None),
            detail: RefCell::new(None),
        })
    }

    /// How it ends, unless that was said already.
    pub(crate) fn ends(&self, ending: Ending, detail: Option<Box<str>>) {
        if self.ending.get().is_none() {
            self.ending.set(Some(ending));
            *self.detail.borrow_mut() = detail;
        }
    }

    /// It goes wrong after all, with the last of the answer here and not there.
    pub(crate) fn fails(&self, ending: Ending) {
        if matches!(self.ending.get(), None | Some(Ending::Done)) {
            self.ending.set(Some(ending));
        }
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.get()
    }

    pub(crate) fn carried_up(&self, bytes: usize) {
        self.up.set(self.up.get() + bytes as u64);
    }

    pub(crate) fn carried_down(&self, bytes: usize) {
        self.down.set(self.down.get() + bytes as u64);
    }

    pub(crate) fn up(&self) -> u64 {
        self.up.get()
    }

    pub(crate) fn uploading(&self) {
        self.uploading.set(true);
    }

    pub(crate) fn uploaded(&self) {
        self.uploading.set(false);
    }

    /// Whether the request was read to its end.
    pub(crate) fn has_uploaded(&self) -> bool {
        !self.uploading.get()
    }

    /// Whether the backend has begun to answer.
    pub(crate) fn is_answered(&self) -> bool {
        self.upstream.get().is_some()
    }

    /// Whether a gRPC client waits no longer.
    fn is_past_deadline(&self) -> bool {
        self.grpc_timeout.is_some_and(|time| self.began.elapsed() >= time)
    }

    /// When it began, since the epoch.
    fn seconds(&self) -> u64 {
        self.start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    fn answered(&self) {
        self.upstream.set(Some(self.began.elapsed()));
    }

    /// Sends an answer that comes before the answer. HTTP/1.0 knows none, and who reads none must not be sent many.
    fn answer_early(&self, status: StatusCode, headers: HeaderMap) {
        if self.early.get() >= MOST_EARLY {
            return;
        }
        self.early.set(self.early.get() + 1);
        if self.version > Version::HTTP_10 {
            self.reply.answer_early(status, headers);
        }
    }

    /// The request is refused: kept for whoever asks why, if there is room.
    fn keep_refusal(&self, ending: Ending, steps: Vec<tidegate_plan::Step>) {
        self.home.kit.keep(Refused {
            at: self.start,
            client: self.tie.client,
            local: self.tie.local,
            sni: self.tie.server_name.as_deref().map(str::to_owned),
            listener: self.listener.get().map(|listener| listener.id.clone()),
            ending,
            detail: Some(format!("{} {}", self.method, self.uri)),
            steps,
        });
    }

    fn write_down<'a>(&'a self) {
        let ending = self.ending.get().unwrap_or_else(|| {
            if std::thread::panicking() {
                Ending::Panicked
            } else {
                self.tie.ended().unwrap_or(Ending::ClientReset)
            }
        });
        let detail = self.detail.borrow();
        let backend = self.backend.borrow();
        let text = |value: &'a Option<HeaderValue>| value.as_ref().and_then(|value| value.to_str().ok());
        let record = RequestRecord {
            start: self.start,
            protocol: if self.tie.is_https() { "HTTPS" } else { "HTTP" },
            client: self.tie.client,
            local: self.tie.local,
            sni: self.tie.server_name.as_deref(),
            listener: self.listener.get().map(|listener| &listener.id),
            route: self.rule.get().map(|rule| &rule.route().id),
            backend: backend.as_ref().map(|backend| &backend.plan.id),
            endpoint: self.endpoint.get(),
            version: version(self.version),
            method: self.method.as_str(),
            host: text(&self.host).or_else(|| self.uri.authority().map(http::uri::Authority::as_str)),
            path: self.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str),
            status: self.status.get(),
            up: self.up.get(),
            down: self.down.get(),
            duration: self.began.elapsed(),
            upstream: self.upstream.get(),
            retries: self.retries.get(),
            trace: text(&self.trace),
            ending,
            detail: detail.as_ref().map(|detail| detail as &dyn std::fmt::Display),
        };
        let stats = self.prepared.get().and_then(|prepared| prepared.stats.as_deref());
        self.home.kit.request_over(&record, stats, backend.as_deref());
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.write_down();
        self.tie.request_ended();
    }
}

const fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}
