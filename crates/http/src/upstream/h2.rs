//! Connections over HTTP/2: many requests at a time on few of them. h2 reads and writes frames, in a task for each
//! connection; a body that goes up is another while it waits for the client.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, SendStream};
use http::header;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::stream;
use crate::body::{Incoming, Upload, pipe};

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
    pub(super) async fn begin(stream: stream::Stream) -> Result<Rc<Self>, h2::Error> {
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_max_send_streams(UNTOLD)
            .initial_window_size(256 * 1024)
            .initial_connection_window_size(1024 * 1024)
            .max_send_buffer_size(256 * 1024)
            .max_header_list_size(256 * 1024);
        let (sender, mut connection) = builder.handshake(stream).await?;
        let life = Rc::new(Life { active: Cell::new(0), is_over: Cell::new(false) });
        let pings = connection.ping_pong();
        let lived = Rc::clone(&life);
        tokio::task::spawn_local(async move {
            tokio::select! {
                biased;
                _ = connection => {}
                () = silence(pings, &lived) => {}
            }
            lived.is_over.set(true);
        });
        Ok(Rc::new(Self { sender, life, used: Cell::new(false), idle: Cell::new(Instant::now()) }))
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

/// Why there is no answer, and the request, where nothing of it was sent.
pub(super) struct Unanswered {
    pub(super) error: h2::Error,
    pub(super) request: Option<Box<Request<Upload>>>,
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

    /// Sends the request, and tells what comes before its answer, where somebody wants to know.
    pub(super) async fn send(
        &mut self,
        request: Request<Upload>,
        early: Option<impl Fn(StatusCode, HeaderMap)>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let mut sender = self.connection.sender.clone();
        if let Err(error) = poll_fn(|context| sender.poll_ready(context)).await {
            // It is going away, and takes nothing more.
            self.connection.life.is_over.set(true);
            return Err(Unanswered { error, request: Some(Box::new(request)) });
        }
        let (mut head, body) = request.into_parts();
        let is_tunnel = head.method == Method::CONNECT;
        let is_whole = body.is_end_stream();
        if let Some(length) = body.size_hint().exact()
            && (length > 0 || has_body(&head.method))
        {
            head.headers.entry(header::CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        let unanswered = |error| Unanswered { error, request: None };
        let sent = sender.send_request(Request::from_parts(head, ()), is_whole && !is_tunnel);
        let (mut answer, out) = sent.map_err(unanswered)?;
        if is_tunnel {
            self.out = Some(out);
        } else if !is_whole {
            self.upload = started(pipe(body, out)).await.map(Uploading);
        }
        let answer = poll_fn(|context| {
            if let Some(early) = &early {
                while let Poll::Ready(Some(Ok(said))) = answer.poll_informational(context) {
                    let (head, ()) = said.into_parts();
                    if head.status != StatusCode::CONTINUE {
                        early(head.status, head.headers);
                    }
                }
            }
            Pin::new(&mut answer).poll(context)
        });
        let (head, frames) = answer.await.map_err(unanswered)?.into_parts();
        let incoming = Incoming::http2(frames, &head.headers);
        Ok(Response::from_parts(head, incoming))
    }
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
        self.connection.idle.set(Instant::now());
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
