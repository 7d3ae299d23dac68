//! A client's connection over HTTP/2: h2 reads and writes frames, each request is a task.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, Builder, Handshake, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::header::{self, HeaderMap};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use tokio::sync::oneshot;

use super::Tie;
use super::watched::Watched;
use crate::body::{Body, Incoming, pipe};
use crate::clock::Clock;
use crate::cork::{Cork, Corked, corked};
use crate::engine::Home;
use crate::flush::Flushes;
use crate::hop;
use crate::wire::Wire;

/// A connection that gives each request to `begin`.
pub(super) struct Connection<B> {
    state: State,
    cork: Cork<Watched>,
    flushes: Rc<Flushes>,
    tie: Rc<Tie>,
    begin: B,
    is_ending: bool,
}

enum State {
    Handshaking(Handshake<Corked<Watched>, Bytes>),
    Serving(server::Connection<Corked<Watched>, Bytes>),
}

/// Why a connection ends before its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Http2(#[from] h2::Error),
    #[error(transparent)]
    Wire(#[from] io::Error),
}

/// Where the answer to a request goes, and what comes before it.
pub(crate) struct Reply {
    respond: RefCell<SendResponse<Bytes>>,
    tunnel: Cell<Option<Tunnel>>,
    begun: Cell<Option<oneshot::Sender<SendStream<Bytes>>>>,
    /// Nobody wants a body.
    is_head: bool,
    /// The answer has begun: nothing comes before it any more.
    is_answered: Cell<bool>,
}

/// A stream that the client would like to go on with another protocol; the way out of it is open when it was answered.
pub(crate) struct Tunnel {
    pub(crate) frames: RecvStream,
    pub(crate) out: oneshot::Receiver<SendStream<Bytes>>,
}

impl<B> Connection<B> {
    pub(super) fn new(wire: Wire, tie: &Rc<Tie>, home: &Home, begin: B) -> Self {
        let bounds = home.kit.bounds();
        let mut builder = Builder::new();
        builder
            .max_concurrent_streams(bounds.streams)
            .max_header_list_size(u32::try_from(bounds.header_size).unwrap_or(u32::MAX))
            .max_pending_accept_reset_streams(bounds.resets)
            .max_local_error_reset_streams(Some(bounds.resets))
            .max_send_buffer_size(256 * 1024)
            .initial_window_size(256 * 1024)
            .initial_connection_window_size(1024 * 1024)
            .enable_connect_protocol();
        let (stream, cork) = corked(Watched { wire, activity: Rc::clone(&tie.activity) });
        let state = State::Handshaking(builder.handshake(stream));
        let (flushes, tie) = (Rc::clone(&home.flushes), Rc::clone(tie));
        Self { state, cork, flushes, tie, begin, is_ending: false }
    }

    /// Lets it end after the requests that are under way.
    pub(super) fn end(self: Pin<&mut Self>)
    where
        B: Unpin,
    {
        let this = self.get_mut();
        this.is_ending = true;
        if let State::Serving(connection) = &mut this.state {
            connection.graceful_shutdown();
        }
    }
}

impl<B> Future for Connection<B>
where
    B: Fn(Request<Incoming>, Rc<Reply>) + Unpin,
{
    type Output = Result<(), Broken>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let polled = this.poll_frames(context);
        if polled.is_pending() {
            // Where there are several requests, more of them may be answered in a moment.
            if this.tie.is_shared() {
                this.cork.release_late(&this.flushes, context)?;
            } else {
                this.cork.release(context)?;
            }
        }
        polled.map_err(Into::into)
    }
}

impl<B> Connection<B>
where
    B: Fn(Request<Incoming>, Rc<Reply>),
{
    fn poll_frames(&mut self, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        loop {
            match &mut self.state {
                State::Handshaking(handshake) => {
                    let mut connection = ready!(Pin::new(handshake).poll(context))?;
                    if self.is_ending {
                        connection.graceful_shutdown();
                    }
                    self.state = State::Serving(connection);
                }
                State::Serving(connection) => match ready!(connection.poll_accept(context)) {
                    None => return Poll::Ready(Ok(())),
                    Some(next) => {
                        let (request, respond) = next?;
                        let (request, reply) = Reply::to(request, respond);
                        (self.begin)(request, reply);
                    }
                },
            }
        }
    }
}

impl Reply {
    fn to(request: Request<RecvStream>, respond: SendResponse<Bytes>) -> (Request<Incoming>, Rc<Self>) {
        let (head, frames) = request.into_parts();
        let (mut tunnel, mut begun) = (None, None);
        let mut incoming = if head.method == Method::CONNECT {
            let (send, out) = oneshot::channel();
            (tunnel, begun) = (Some(Tunnel { frames, out }), Some(send));
            Incoming::Empty
        } else if frames.is_end_stream() {
            Incoming::Empty
        } else {
            Incoming::http2(frames, &head.headers)
        };
        let reply = Rc::new(Self {
            respond: RefCell::new(respond),
            tunnel: Cell::new(tunnel),
            begun: Cell::new(begun),
            is_head: head.method == Method::HEAD,
            is_answered: Cell::new(false),
        });
        if head
            .headers
            .get(header::EXPECT)
            .is_some_and(|said| said.as_bytes().eq_ignore_ascii_case(b"100-continue"))
        {
            incoming.waits_for(&reply);
        }
        (Request::from_parts(head, incoming), reply)
    }

    /// The stream of a request by CONNECT, once.
    pub(crate) fn tunnel(&self) -> Option<Tunnel> {
        self.tunnel.take()
    }

    /// Sends an answer that comes before the answer.
    pub(crate) fn answer_early(&self, status: StatusCode, mut headers: HeaderMap) {
        if self.is_answered.get() {
            return;
        }
        hop::detach(&mut headers);
        let mut early = Response::new(());
        *early.status_mut() = status;
        *early.headers_mut() = headers;
        // A stream that is gone by now says so to whoever waits for the answer.
        let _ = self.respond.borrow_mut().send_informational(early);
    }

    fn is_reset(&self, context: &mut Context<'_>) -> bool {
        self.respond.borrow_mut().poll_reset(context).is_ready()
    }

    fn send(&self, head: Response<()>, is_whole: bool) -> Option<SendStream<Bytes>> {
        self.is_answered.set(true);
        let mut respond = self.respond.borrow_mut();
        let sent = respond.send_response(head, is_whole);
        sent.inspect_err(|_| respond.send_reset(Reason::INTERNAL_ERROR)).ok()
    }
}

/// Waits for the answer, as long as the client does, and sends it.
pub(super) async fn answer(
    answering: Pin<&mut impl Future<Output = Response<Body>>>,
    reply: &Reply,
    clock: &Clock,
    stall_time: Duration,
) {
    let Some(response) = unless_reset(answering, reply).await else { return };
    let (head, mut body) = response.into_parts();
    let mut head = Response::from_parts(head, ());
    if head.headers().keys().any(hop::is_of_connection) {
        hop::strip_response(head.headers_mut());
    }
    head.headers_mut().entry(header::DATE).or_insert_with(|| clock.date().clone());
    if head.status().is_success()
        && let Some(begun) = reply.begun.take()
    {
        head.headers_mut().remove(header::CONTENT_LENGTH);
        if let Some(stream) = reply.send(head, false) {
            // Nobody wants it where the backend is gone already, and then it ends with this.
            let _ = begun.send(stream);
        }
        return;
    }
    if head.status() == StatusCode::NO_CONTENT {
        head.headers_mut().remove(header::CONTENT_LENGTH);
    }
    if body.is_end_stream() || reply.is_head {
        reply.send(head, true);
        poll_fn(|context| {
            body.suffices(context);
            Poll::Ready(())
        })
        .await;
        return;
    }
    // Not by its entry, for which a full map grows even where the header is there.
    if let Some(length) = body.size_hint().exact()
        && !head.headers().contains_key(header::CONTENT_LENGTH)
    {
        head.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    if let Some(stream) = reply.send(head, false) {
        pipe(body, stream, stall_time).await;
    }
}

async fn unless_reset<T>(mut future: Pin<&mut impl Future<Output = T>>, reply: &Reply) -> Option<T> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if reply.is_reset(context) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
