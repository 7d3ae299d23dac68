//! Connections over HTTP/2: many requests at a time on few of them. h2 reads and writes frames, in a task for each
//! connection; a body that goes up is another while it waits for the client.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, SendStream};
use http::header;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Destination;
use crate::body::{Incoming, Upload, pipe};
use crate::clock::Clock;
use crate::cork::corked;
use crate::hop;
use crate::request::Outgoing;
use crate::wire;

/// Those that are there, and who waits for one that is being made.
#[derive(Default)]
pub(super) struct Shared {
    all: RefCell<Vec<Rc<Connection>>>,
    /// Whether one is being made: those who come meanwhile wait for it instead of making their own.
    pub(super) making: Cell<bool>,
    pub(super) made: Notify,
}

pub(super) struct Connection {
    sender: SendRequest<Bytes>,
    life: Rc<Life>,
    used: Cell<bool>,
    idle: Cell<Instant>,
    clock: Rc<Clock>,
    /// How long a request waits for the backend to take any of its body.
    stall_time: Duration,
}

/// What the task of a connection has in common with those who use it.
struct Life {
    /// Requests under way.
    active: Cell<usize>,
    is_over: Cell<bool>,
}

/// Requests at a time on one connection, if the backend does not want fewer.
const STREAMS: usize = 100;

/// The number of streams that stands for none having been told: no settings can have it.
const UNTOLD: usize = usize::MAX - 1;

/// How often settings that are awaited are looked for: h2 does not say when they come.
const LOOK: Duration = Duration::from_millis(2);

/// How often a backend with requests is asked whether it is there, and how long it has to say so.
const ASKED: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(10);

impl Connection {
    /// Begins to speak HTTP/2.
    pub(super) async fn begin(
        stream: wire::Stream,
        clock: &Rc<Clock>,
        stall_time: Duration,
    ) -> Result<Rc<Self>, h2::Error> {
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_max_send_streams(UNTOLD)
            .initial_window_size(256 * 1024)
            .initial_connection_window_size(1024 * 1024)
            .max_send_buffer_size(256 * 1024)
            .max_header_list_size(256 * 1024);
        let (stream, cork) = corked(stream);
        let (sender, mut connection) = builder.handshake(stream).await?;
        let life = Rc::new(Life { active: Cell::new(0), is_over: Cell::new(false) });
        let pings = connection.ping_pong();
        let lived = Rc::clone(&life);
        tokio::task::spawn_local(async move {
            let ended = poll_fn(|context| {
                let polled = Pin::new(&mut connection).poll(context).is_ready();
                let is_over = polled || cork.release(context).is_err();
                if is_over { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::select! {
                biased;
                () = ended => {}
                () = silence(pings, &lived) => {}
            }
            lived.is_over.set(true);
        });
        let (used, idle) = (Cell::new(false), Cell::new(clock.now()));
        Ok(Rc::new(Self { sender, life, used, idle, clock: Rc::clone(clock), stall_time }))
    }

    fn is_over(&self) -> bool {
        self.life.is_over.get()
    }

    /// As things stand now; the backend may say at any time that it wants fewer.
    fn has_room(&self) -> bool {
        self.life.active.get() < self.sender.current_max_send_streams().clamp(1, STREAMS)
    }

    async fn takes_tunnels(&self) -> bool {
        while !self.is_over() && self.sender.current_max_send_streams() == UNTOLD {
            sleep(LOOK).await;
        }
        self.sender.is_extended_connect_protocol_enabled()
    }
}

/// Waits until the backend does not say that it is there, while it has requests.
async fn silence(pings: Option<PingPong>, life: &Life) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(ASKED).await;
        if life.active.get() > 0 && timeout(PATIENCE, pings.ping(Ping::opaque())).await.is_err() {
            return;
        }
    }
}

/// One request's share of a connection.
pub(crate) struct Stream {
    connection: Rc<Connection>,
    was_used: bool,
    /// The body on its way up: nobody wants the rest of it when the answer is over.
    upload: Option<Uploading>,
    /// The way out of a tunnel.
    out: Option<SendStream<Bytes>>,
}

struct Uploading(JoinHandle<()>);

impl Drop for Uploading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why there is no answer.
pub(super) struct Unanswered {
    pub(super) error: h2::Error,
    /// Nothing of the request was sent.
    pub(super) is_whole: bool,
}

impl Stream {
    pub(super) fn new(connection: &Rc<Connection>) -> Self {
        let life = &connection.life;
        life.active.set(life.active.get() + 1);
        let was_used = connection.used.replace(true);
        Self { connection: Rc::clone(connection), was_used, upload: None, out: None }
    }

    pub(super) fn was_used(&self) -> bool {
        self.was_used
    }

    /// Waits until that is known.
    pub(super) async fn takes_tunnels(&self) -> bool {
        self.connection.takes_tunnels().await
    }

    /// The way out of a tunnel that was asked for.
    pub(super) fn take_out(&mut self) -> Option<SendStream<Bytes>> {
        self.out.take()
    }

    /// Sends the request, and tells what comes before its answer.
    pub(super) async fn send(
        &mut self,
        outgoing: Outgoing<'_>,
        to: &Destination,
        endpoint: SocketAddr,
        body: Upload,
        mut early: impl FnMut(StatusCode, HeaderMap),
    ) -> Result<Response<Incoming>, Unanswered> {
        let mut sender = self.connection.sender.clone();
        if let Err(error) = poll_fn(|context| sender.poll_ready(context)).await {
            // It is going away, and takes nothing more.
            self.connection.life.is_over.set(true);
            return Err(Unanswered { error, is_whole: true });
        }
        let head = outgoing.head;
        let mut request = translated(outgoing, to, endpoint);
        let is_tunnel = head.method == Method::CONNECT;
        let is_whole = body.is_end_stream();
        if let Some(length) = body.size_hint().exact()
            && (length > 0 || has_body(&head.method))
        {
            request.headers_mut().entry(header::CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        let unanswered = |error| Unanswered { error, is_whole: false };
        let sent = sender.send_request(request, is_whole && !is_tunnel);
        let (mut answer, out) = sent.map_err(unanswered)?;
        if is_tunnel {
            self.out = Some(out);
        } else if !is_whole {
            self.upload = started(pipe(body, out, self.connection.stall_time)).await.map(Uploading);
        }
        let answer = poll_fn(|context| {
            while let Poll::Ready(Some(Ok(said))) = answer.poll_informational(context) {
                let (head, ()) = said.into_parts();
                // HTTP/2 has no upgrades, and a client of HTTP/1.1 would take it for one.
                if !matches!(head.status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS) {
                    early(head.status, head.headers);
                }
            }
            Pin::new(&mut answer).poll(context)
        });
        let (mut head, frames) = answer.await.map_err(unanswered)?.into_parts();
        let incoming = Incoming::http2(frames, &head.headers);
        let is_repeated = head.headers.get_all(header::CONTENT_LENGTH).iter().nth(1).is_some();
        if is_repeated && incoming.size_hint().exact().is_some() {
            hop::settle_length(&mut head.headers);
        }
        Ok(Response::from_parts(head, incoming))
    }
}

/// The request in the words of HTTP/2.
fn translated(outgoing: Outgoing<'_>, to: &Destination, endpoint: SocketAddr) -> Request<()> {
    let head = outgoing.head;
    let mut request = Request::new(());
    *request.version_mut() = Version::HTTP_2;
    *request.method_mut() = head.method.clone();
    *request.headers_mut() = head.headers.clone();
    *request.extensions_mut() = head.extensions.clone();
    hop::detach(request.headers_mut());
    outgoing.announced.inspect(|announced| announced.set(request.headers_mut()));
    let host = request.headers_mut().remove(header::HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(if to.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP });
    uri.authority = authority.or_else(|| Authority::try_from(endpoint.to_string()).ok());
    let path = head.uri.path_and_query().cloned();
    uri.path_and_query = Some(path.unwrap_or(PathAndQuery::from_static("/")));
    if let Ok(uri) = Uri::from_parts(uri) {
        *request.uri_mut() = uri;
    }
    request
}

/// Methods whose requests say so where they have no body.
fn has_body(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::DELETE | Method::CONNECT)
}

/// Goes as far as it can at once, and on as a task where that is not its end.
async fn started(future: impl Future<Output = ()> + 'static) -> Option<JoinHandle<()>> {
    let mut future = Box::pin(future);
    let is_over = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
    (!is_over).then(|| tokio::task::spawn_local(future))
}

impl Drop for Stream {
    fn drop(&mut self) {
        let life = &self.connection.life;
        life.active.set(life.active.get() - 1);
        self.connection.idle.set(self.connection.clock.now());
    }
}

impl Shared {
    /// A stream of the least busy connection that has room.
    pub(super) fn take(&self) -> Option<Stream> {
        let mut all = self.all.borrow_mut();
        all.retain(|connection| !connection.is_over());
        let roomy = all.iter().filter(|connection| connection.has_room());
        roomy.min_by_key(|connection| connection.life.active.get()).map(Stream::new)
    }

    pub(super) fn add(&self, connection: Rc<Connection>) {
        self.all.borrow_mut().push(connection);
    }

    pub(super) fn tend(&self, now: Instant, time: Duration) -> bool {
        let mut all = self.all.borrow_mut();
        all.retain(|connection| {
            let is_idle = connection.life.active.get() == 0;
            let rests = is_idle && now.duration_since(connection.idle.get()) >= time;
            !rests && !connection.is_over()
        });
        all.is_empty()
    }

    /// Streams under way go on; the connection ends with the last of them.
    pub(super) fn clear(&self) {
        self.all.borrow_mut().clear();
    }
}
