//! A client's connection over HTTP/1.1: one request at a time, all of it in the task of the connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::{Body as _, Frame};
use tidegate_proxy::{Ending, PipePool, Piped};
use tokio::io::AsyncWrite as _;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Tie;
use super::activity::Activity;
use crate::answer::{Cause, answer};
use crate::body::{Body, BodyError, Incoming, IncomingError, Outbound, Polled, Portion};
use crate::engine::Home;
use crate::flush::Flush;
use crate::h1::{
    Asked, Decoder, Encoder, HeadError, LineEnds, Message, Outbox, Piece, Scan, WrongLength, read_request,
    take_front, write_early, write_response,
};
use crate::limits::{Limits, TooLarge};
use crate::request::BadRequest;
use crate::tunnel::End;
use crate::wire::Wire;

pub(crate) struct Connection {
    wire: Rc<RefCell<Wire>>,
    activity: Rc<Activity>,
    /// Of the request that is under way.
    body: RefCell<Decoder>,
    /// The client waits to be told that its body is wanted.
    expects: Cell<bool>,
    /// The answer has begun: nothing comes before it any more.
    is_answered: Cell<bool>,
    out: RefCell<Outbox>,
    /// Who goes on with it if it does not go out [with others](Flush).
    waits_with: RefCell<Option<Waker>>,
    /// Who waits for all that comes after the answer.
    heir: Cell<Option<oneshot::Sender<End>>>,
}

/// Why a connection ends before its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("{0}")]
    Client(#[from] io::Error),
    /// What was to be sent is not all there; whoever knows why has said so.
    #[error("the answer broke off")]
    Answer,
}

impl From<BodyError> for Broken {
    fn from(_: BodyError) -> Self {
        Self::Answer
    }
}

impl From<WrongLength> for Broken {
    fn from(_: WrongLength) -> Self {
        Self::Answer
    }
}

/// How long one waits for the end of a client whose last words nobody read: what is thrown away with the connection
/// would take the answer with it.
const LINGER: Duration = Duration::from_secs(1);

/// What is read of requests whose turn has not come, so that it is seen when the client leaves.
const AHEAD: usize = 16 * 1024;

/// Answers requests until the client or one of them ends it.
pub(super) async fn serve<F>(
    home: &Home,
    tie: &Tie,
    connection: &Rc<Connection>,
    answers: impl Fn(Request<Incoming>) -> F,
) -> Result<(), Broken>
where
    F: Future<Output = Response<Body>>,
{
    loop {
        let (mut asked, response) = match connection.head(&home.limits, tie).await? {
            None => return connection.close(false).await,
            Some(Ok(message)) => {
                let asked = asked(&message);
                let request = connection.begin(message);
                // On the heap, so that a connection that rests has nothing of it.
                let answering = Box::pin(answers(request));
                (asked, connection.unless_gone(answering).await?)
            }
            Some(Err(refusal)) => {
                let response = refusal.answer(tie, home.options.reasons);
                connection.respond(home, response, &mut REFUSED.clone()).await?;
                return connection.close(true).await;
            }
        };
        asked.is_last |= tie.is_ending() || connection.leaves_body(response.body());
        let status = response.status();
        connection.respond(home, response, &mut asked).await?;
        if status == StatusCode::SWITCHING_PROTOCOLS
            && let Some(heir) = connection.heir.take()
        {
            poll_fn(|context| connection.poll_flush(context)).await?;
            // Nobody wants it where the backend is gone already, and then it ends with this.
            let _ = heir.send(End::connection(Rc::clone(&connection.wire)));
            return Ok(());
        }
        let is_read = connection.skip_body();
        if asked.is_last || !is_read {
            return connection.close(!is_read).await;
        }
    }
}

fn asked(message: &Message<http::request::Parts>) -> Asked {
    Asked {
        is_head: message.parts.method == Method::HEAD,
        version: message.parts.version,
        trailers: message.trailers,
        is_last: !message.persists,
    }
}

/// What cannot be read is answered as if it were of today, and is the last of its connection.
const REFUSED: Asked = Asked { is_head: false, version: Version::HTTP_11, trailers: false, is_last: true };

/// Why what came is no request.
enum Refusal {
    Malformed(HeadError),
    TooLarge(TooLarge),
}

impl Refusal {
    fn answer(self, tie: &Tie, reasons: bool) -> Response<Body> {
        let (cause, ending, detail): (Cause, _, String) = match self {
            Self::TooLarge(large) => (large.into(), Ending::RequestTooLarge, large.to_string()),
            Self::Malformed(error) => {
                let bad = match error {
                    HeadError::SeveralLengths => BadRequest::SeveralLengths,
                    HeadError::TwoLengths => BadRequest::TwoLengths,
                    HeadError::TransferEncoding => BadRequest::TransferEncoding,
                    _ => BadRequest::Head,
                };
                (bad.into(), Ending::RequestInvalid, error.to_string())
            }
        };
        let answer = answer(cause, false, reasons.then_some(ending.as_str()));
        tie.place.refuses(ending, answer.status().as_u16(), &detail);
        answer.map(Body::from)
    }
}

impl From<HeadError> for Refusal {
    fn from(error: HeadError) -> Self {
        match error {
            HeadError::TooMany => Self::TooLarge(TooLarge::HeaderCount),
            error => Self::Malformed(error),
        }
    }
}

type Head = Option<Result<Message<http::request::Parts>, Refusal>>;

impl Connection {
    pub(super) fn new(wire: Wire, activity: &Rc<Activity>) -> Rc<Self> {
        Rc::new(Self {
            wire: Rc::new(RefCell::new(wire)),
            activity: Rc::clone(activity),
            body: RefCell::new(Decoder::done()),
            expects: Cell::new(false),
            is_answered: Cell::new(false),
            out: RefCell::default(),
            waits_with: RefCell::default(),
            heir: Cell::new(None),
        })
    }

    /// Has an answer sent that comes before the answer to the request that is under way. A client that takes none of
    /// them is not kept more than a few.
    pub(crate) fn answer_early(&self, status: StatusCode, headers: &HeaderMap) {
        let mut out = self.out.borrow_mut();
        if !self.is_answered.get() && out.has_room() {
            write_early(out.small(), status, headers);
        }
    }

    /// Gives away what comes after the answer, if that is the protocol's last word.
    pub(crate) fn inherit(&self) -> oneshot::Receiver<End> {
        let (heir, inheritance) = oneshot::channel();
        self.heir.set(Some(heir));
        inheritance
    }

    /// Waits for the head of a request; `None` at the end.
    async fn head(&self, limits: &Limits, tie: &Tie) -> Result<Head, Broken> {
        if !self.wire.borrow().rest.is_empty() {
            // It came behind the last one.
            self.activity.came();
        }
        let mut scan = Scan::new(LineEnds::Strict);
        poll_fn(|context| {
            if self.waits_with.borrow().is_none() {
                ready!(self.poll_flush(context))?;
            }
            let wire = &mut *self.wire.borrow_mut();
            loop {
                match found(wire, &mut scan, limits) {
                    Ok(None) if wire.rest.is_empty() && tie.is_ending() => return Poll::Ready(Ok(None)),
                    Ok(None) => {}
                    Ok(Some(message)) => return Poll::Ready(Ok(Some(Ok(message)))),
                    Err(refusal) => return Poll::Ready(Ok(Some(Err(refusal)))),
                }
                if ready!(wire.poll_fill(context))? == 0 {
                    let is_over = wire.rest.is_empty();
                    return Poll::Ready(if is_over { Ok(None) } else { Err(gone()) });
                }
                self.activity.came();
            }
        })
        .await
    }

    fn begin(self: &Rc<Self>, message: Message<http::request::Parts>) -> Request<Incoming> {
        self.expects.set(message.expects);
        self.is_answered.set(false);
        *self.body.borrow_mut() = Decoder::new(message.length, LineEnds::Strict);
        Request::from_parts(message.parts, Incoming::Client(Rc::clone(self)))
    }

    /// Waits for the answer, as long as the client does.
    async fn unless_gone<F>(&self, mut answering: Pin<Box<F>>) -> Result<Response<Body>, Broken>
    where
        F: Future<Output = Response<Body>>,
    {
        poll_fn(|context| {
            if let Poll::Ready(response) = answering.as_mut().poll(context) {
                return Poll::Ready(Ok(response));
            }
            if let Poll::Ready(Err(error)) = self.poll_flush(context) {
                return Poll::Ready(Err(error.into()));
            }
            self.poll_gone(context).map(Err)
        })
        .await
    }

    /// Waits for the client to leave. What it sends before its answer is there is read when that is.
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<Broken> {
        let wire = &mut *self.wire.borrow_mut();
        if !self.body.borrow().is_done() {
            return Poll::Pending;
        }
        while wire.rest.len() < AHEAD {
            match ready!(wire.poll_fill(context)) {
                Ok(0) => return Poll::Ready(gone()),
                Ok(_) => self.activity.came(),
                Err(error) => return Poll::Ready(error.into()),
            }
        }
        Poll::Pending
    }

    fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut out = self.out.borrow_mut();
        if out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let stream = &mut self.wire.borrow_mut().stream;
        ready!(stream.poll_send(&mut out, context, || self.activity.went()))?;
        // One that rests has no memory for it.
        *out = Outbox::default();
        Poll::Ready(Ok(()))
    }

    /// Sends the answer to its end.
    async fn respond(
        self: &Rc<Self>,
        home: &Home,
        response: Response<Body>,
        asked: &mut Asked,
    ) -> Result<(), Broken> {
        let (head, mut body) = response.into_parts();
        self.is_answered.set(true);
        // An answer that came before it goes first.
        poll_fn(|context| self.poll_flush(context)).await?;
        let exact = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        let mut encoder = {
            let (date, mut out) = (home.clock.date(), self.out.borrow_mut());
            write_response(out.small(), head.status, &head.headers, exact, date.as_bytes(), asked)
        };
        drop(head);
        let takes_pipes = encoder.is_plain() && self.wire.borrow().stream.is_plain();
        let pipes = takes_pipes.then_some(&home.kit.pipes);
        poll_fn(|context| {
            let is_over = ready!(self.poll_body(&mut body, &mut encoder, pipes, context))?;
            body.suffices(context);
            if !is_over {
                *self.waits_with.borrow_mut() = Some(context.waker().clone());
                home.flushes.put(Rc::clone(self) as Rc<dyn Flush>);
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Writes what there is of the body behind what is to be written already, until both are at their end. `false` if
    /// what is left may go out with others.
    fn poll_body(
        &self,
        body: &mut Body,
        encoder: &mut Encoder,
        pipes: Option<&PipePool>,
        context: &mut Context<'_>,
    ) -> Poll<Result<bool, Broken>> {
        loop {
            let mut waits = false;
            while !waits && !encoder.is_done() && self.out.borrow().has_room() {
                let portion = body.poll_portion(pipes, context)?;
                let (is_last, mut out) = (body.is_end_stream(), self.out.borrow_mut());
                match portion {
                    Poll::Ready(Some(Portion::Frame(frame))) => encoder.write(frame, is_last, &mut out)?,
                    Poll::Ready(Some(Portion::Piped(piped))) => {
                        encoder.write_piped(piped, is_last, &mut out)?;
                    }
                    Poll::Ready(None) => encoder.end(&mut out)?,
                    Poll::Pending => waits = true,
                }
            }
            if encoder.is_done() && self.out.borrow().is_small() {
                return Poll::Ready(Ok(false));
            }
            match self.poll_flush(context)? {
                Poll::Ready(()) if encoder.is_done() => return Poll::Ready(Ok(true)),
                Poll::Ready(()) if waits => return self.poll_gone(context).map(Err),
                Poll::Ready(()) => {}
                Poll::Pending => {
                    // What the client still sends is carried on meanwhile.
                    body.go_on(context)?;
                    return Poll::Pending;
                }
            }
        }
    }

    /// Whether something of the request's body is still to come when the answer begins. Where the backend answered it
    /// may all be read by then; but the client is told now or not at all that the connection ends.
    fn leaves_body(&self, answer: &Body) -> bool {
        let is_read = match answer {
            // What has come of it belongs to the backend.
            Body::Download(_) => self.body.borrow().is_done(),
            Body::Empty | Body::Bytes(_) => self.skip_body(),
        };
        !is_read
    }

    /// Throws away what has come of a body that nobody wanted. Whether that was all of it.
    fn skip_body(&self) -> bool {
        let (mut body, mut wire) = (self.body.borrow_mut(), self.wire.borrow_mut());
        while !self.expects.get()
            && matches!(body.take(&mut wire.rest), Ok(Piece::Data(_) | Piece::Trailers(_)))
        {}
        body.is_done()
    }

    async fn close(&self, linger: bool) -> Result<(), Broken> {
        poll_fn(|context| self.poll_flush(context)).await?;
        poll_fn(|context| Pin::new(&mut self.wire.borrow_mut().stream).poll_shutdown(context)).await?;
        if linger || !self.wire.borrow().rest.is_empty() {
            let to_its_end = poll_fn(|context| {
                let mut wire = self.wire.borrow_mut();
                loop {
                    wire.rest.clear();
                    match ready!(wire.poll_fill(context)) {
                        Ok(1..) => {}
                        Ok(0) | Err(_) => return Poll::Ready(()),
                    }
                }
            });
            let _ = timeout(LINGER, to_its_end).await;
        }
        Ok(())
    }
}

impl Flush for Connection {
    fn flush(&self, context: &mut Context<'_>) {
        let waits_with = self.waits_with.take();
        // What went wrong its own task will see as well.
        if !matches!(self.poll_flush(context), Poll::Ready(Ok(())))
            && let Some(task) = waits_with
        {
            task.wake();
        }
    }
}

/// The head among what was read, if it is all there.
fn found(
    wire: &mut Wire,
    scan: &mut Scan,
    limits: &Limits,
) -> Result<Option<Message<http::request::Parts>>, Refusal> {
    loop {
        let end = scan.end(&wire.rest)?;
        if let Some(large) = limits.passed_by(end.unwrap_or(wire.rest.len()), scan.lines) {
            return Err(Refusal::TooLarge(large));
        }
        let Some(end) = end else { return Ok(None) };
        let head = take_front(&mut wire.rest, end);
        // Some clients send an empty line behind a body.
        if scan.lines > 0 {
            return Ok(Some(read_request(&head, scan.lines, limits.headers)?));
        }
        *scan = Scan::new(LineEnds::Strict);
    }
}

fn gone() -> Broken {
    io::Error::from(io::ErrorKind::UnexpectedEof).into()
}

/// The body of the request that is under way.
impl Connection {
    /// How much of it is to come, where that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.body.borrow().left()
    }

    pub(crate) fn poll_frame(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncomingError>>> {
        loop {
            let wire = &mut *self.wire.borrow_mut();
            match self.body.borrow_mut().take(&mut wire.rest) {
                Ok(Piece::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Piece::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Ok(Piece::End) => return Poll::Ready(None),
                Ok(Piece::More) => {}
                Err(bad) => return Poll::Ready(Some(Err(bad.into()))),
            }
            if self.expects.replace(false) {
                self.answer_early(StatusCode::CONTINUE, &HeaderMap::new());
            }
            match ready!(wire.poll_fill(context)) {
                Ok(0) => {
                    let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Poll::Ready(Some(Err(error.into())));
                }
                Ok(_) => self.activity.came(),
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    /// The same in a pipe, where that can be.
    pub(crate) fn poll_piped(
        &self,
        pipes: &PipePool,
        context: &mut Context<'_>,
    ) -> Option<Polled<Piped, IncomingError>> {
        // A client that waits to be told that its body is wanted is told with the first frame.
        if self.expects.get() {
            return None;
        }
        let polled = self.wire.borrow_mut().poll_piped(&mut self.body.borrow_mut(), pipes, context)?;
        if let Poll::Ready(Some(Ok(_))) = &polled {
            self.activity.came();
        }
        Some(polled.map_err(Into::into))
    }
}
