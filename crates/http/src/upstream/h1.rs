//! Connections over HTTP/1.1: one request at a time, and idle between them. Whoever has the request reads and writes the
//! connection itself; one that rests is looked at when it is taken, and now and then.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, response};
use http_body::{Body as _, Frame};
use tidegate_proxy::{PipePool, Piped};

use super::pools::Pool;
use crate::body::{IncomingError, Outbound as _, Polled, Portion, Upload};
use crate::flush::Flush;
use crate::h1::{
    BadBody, Decoder, Encoder, HeadError, LineEnds, Outbox, Piece, Scan, read_response, take_front,
    write_request,
};
use crate::request::Outgoing;
use crate::wire::{Stream, Wire};

/// Those without a request, the one used last at the end.
#[derive(Default)]
pub(super) struct Idle(RefCell<Vec<Resting>>);

struct Resting {
    line: Rc<RefCell<Line>>,
    since: Instant,
}

/// A connection in use.
pub(crate) struct Checkout {
    line: Rc<RefCell<Line>>,
    pub(super) was_used: bool,
    pool: Rc<Pool>,
}

/// A connection, and the request that is on it.
pub(super) struct Line {
    wire: Wire,
    method: Method,
    out: Outbox,
    /// What of the request is still to be written, and how.
    upload: Upload,
    encoder: Encoder,
    /// Who goes on with it if it does not go out [with others](Flush).
    waits_with: Option<Waker>,
    /// Something of the request was written.
    has_begun: bool,
    /// Nothing more of it can be: what the backend has to say to that is still to be heard.
    is_broken: bool,
    /// Of the answer.
    body: Decoder,
    persists: bool,
    /// Headers that an answer may have.
    most: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("{0}")]
    Broken(#[from] io::Error),
    #[error("{0}")]
    Invalid(#[from] HeadError),
    #[error("the head of the answer is too long")]
    TooLong,
    #[error("the request broke off")]
    Request,
}

impl Unanswered {
    /// Whether what came is no answer, rather than that none came.
    pub(super) const fn is_invalid(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::TooLong)
    }
}

/// Of the head of an answer.
const HEAD: usize = 256 * 1024;

impl Line {
    pub(super) fn new(stream: Stream, most: usize) -> Self {
        Self {
            wire: Wire::new(stream),
            method: Method::GET,
            out: Outbox::default(),
            upload: Upload::Empty,
            encoder: Encoder::Done,
            waits_with: None,
            has_begun: false,
            is_broken: false,
            body: Decoder::done(),
            persists: true,
            most,
        }
    }

    fn begin(&mut self, request: Outgoing<'_>, endpoint: SocketAddr, upload: Upload) {
        let exact = if upload.is_end_stream() { Some(0) } else { upload.size_hint().exact() };
        self.encoder = write_request(self.out.small(), request, || endpoint.to_string(), exact);
        self.upload = if self.encoder.is_done() { Upload::Empty } else { upload };
        self.method = request.head.method.clone();
        self.has_begun = false;
        self.persists = false;
    }

    /// Writes what is to be written, and what there is of the body behind it, until both are at their end.
    fn poll_upload(&mut self, pipes: &PipePool, context: &mut Context<'_>) -> Poll<Result<(), Unanswered>> {
        if self.is_broken || self.waits_with.is_some() || self.encoder.is_done() && self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let takes_pipes = self.encoder.is_plain() && self.wire.stream.is_plain();
        let pipes = takes_pipes.then_some(pipes);
        loop {
            let mut waits = false;
            while !waits && !self.encoder.is_done() && self.out.has_room() {
                let portion = self.upload.poll_portion(pipes, context).map_err(|_| Unanswered::Request)?;
                let is_last = self.upload.is_end_stream();
                let wrote = match portion {
                    Poll::Pending => {
                        waits = true;
                        Ok(())
                    }
                    Poll::Ready(None) => self.encoder.end(&mut self.out),
                    Poll::Ready(Some(Portion::Frame(frame))) => {
                        self.encoder.write(frame, is_last, &mut self.out)
                    }
                    Poll::Ready(Some(Portion::Piped(piped))) => {
                        self.encoder.write_piped(piped, is_last, &mut self.out)
                    }
                };
                wrote.map_err(|_| Unanswered::Request)?;
            }
            let has_begun = &mut self.has_begun;
            match ready!(self.wire.stream.poll_send(&mut self.out, context, || *has_begun = true)) {
                Err(error) if !self.has_begun => return Poll::Ready(Err(error.into())),
                // It may have answered before it stopped to listen.
                Err(_) => {
                    self.is_broken = true;
                    return Poll::Ready(Ok(()));
                }
                Ok(()) if self.encoder.is_done() => {
                    self.upload = Upload::Empty;
                    return Poll::Ready(Ok(()));
                }
                Ok(()) if waits => return Poll::Pending,
                Ok(()) => {}
            }
        }
    }

    /// Waits for the answer, and tells what comes before it, while the request is sent.
    fn poll_answer(
        &mut self,
        scan: &mut Scan,
        early: &mut impl FnMut(StatusCode, HeaderMap),
        pipes: &PipePool,
        context: &mut Context<'_>,
    ) -> Poll<Result<response::Parts, Unanswered>> {
        if let Poll::Ready(Err(error)) = self.poll_upload(pipes, context) {
            return Poll::Ready(Err(error));
        }
        loop {
            while let Some(end) = scan.end(&self.wire.rest)? {
                if end > HEAD {
                    return Poll::Ready(Err(Unanswered::TooLong));
                }
                let head = take_front(&mut self.wire.rest, end);
                let message = read_response(&head, scan.lines, self.most, &self.method)?;
                *scan = Scan::new(LineEnds::Lenient);
                let status = message.parts.status;
                if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
                    // That the body is wanted is nothing to tell: we have not asked.
                    if status != StatusCode::CONTINUE {
                        early(status, message.parts.headers);
                    }
                    continue;
                }
                self.body = Decoder::new(message.length, LineEnds::Lenient);
                self.persists = message.persists && status != StatusCode::SWITCHING_PROTOCOLS;
                return Poll::Ready(Ok(message.parts));
            }
            if self.wire.rest.len() > HEAD {
                return Poll::Ready(Err(Unanswered::TooLong));
            }
            if ready!(self.wire.poll_fill(context))? == 0 {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
            }
        }
    }

    /// Whether it is as it should be between two requests: nothing was said, and it is open.
    fn is_quiet(&mut self, context: &mut Context<'_>) -> bool {
        self.wire.rest.is_empty() && self.wire.poll_fill(context).is_pending()
    }

    /// Lets go of all memory that the next request will not find useful.
    fn rest(&mut self) {
        self.out = Outbox::default();
        self.wire.rest = BytesMut::new();
    }

    /// Whether both messages were carried to their end, and others may follow.
    fn is_free(&self) -> bool {
        self.persists
            && self.body.is_done()
            && !self.is_broken
            && self.encoder.is_done()
            && self.out.is_empty()
            && self.wire.rest.is_empty()
    }
}

impl Flush for RefCell<Line> {
    fn flush(&self, context: &mut Context<'_>) {
        let line = &mut *self.borrow_mut();
        let waits_with = line.waits_with.take();
        let has_begun = &mut line.has_begun;
        let flushed = line.wire.stream.poll_send(&mut line.out, context, || *has_begun = true);
        // What went wrong its own task will see as well.
        if !matches!(flushed, Poll::Ready(Ok(())))
            && let Some(task) = waits_with
        {
            task.wake();
        }
    }
}

/// A request that may wait to go out with others. Nobody waits for an answer when this is gone: what was not sent by
/// then may be on its way to another backend.
struct Queued<'l>(&'l RefCell<Line>);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut line = self.0.borrow_mut();
        if line.waits_with.take().is_some() {
            line.out = Outbox::default();
            line.is_broken = true;
        }
    }
}

impl Checkout {
    pub(super) fn fresh(line: Line, pool: Rc<Pool>) -> Self {
        Self { line: Rc::new(RefCell::new(line)), was_used: false, pool }
    }

    /// Sends a request, and tells what comes before its answer. Whether anything of it was sent is known
    /// [afterwards](Self::has_begun).
    pub(super) async fn send(
        &mut self,
        request: Outgoing<'_>,
        endpoint: SocketAddr,
        upload: Upload,
        mut early: impl FnMut(StatusCode, HeaderMap),
    ) -> Result<response::Parts, Unanswered> {
        self.line.borrow_mut().begin(request, endpoint, upload);
        let _queued = Queued(&self.line);
        let mut scan = Scan::new(LineEnds::Lenient);
        let mut is_new = true;
        poll_fn(|context| {
            let mut line = self.line.borrow_mut();
            if std::mem::take(&mut is_new) && line.encoder.is_done() {
                line.waits_with = Some(context.waker().clone());
                self.pool.flushes.put(Rc::clone(&self.line) as Rc<dyn Flush>);
            }
            line.poll_answer(&mut scan, &mut early, &self.pool.pipes, context)
        })
        .await
    }

    pub(super) fn has_begun(&self) -> bool {
        self.line.borrow().has_begun
    }

    /// How much of the answer is to come, where that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.line.borrow().body.left()
    }

    /// The next part of the answer.
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncomingError>>> {
        let line = &mut *self.line.borrow_mut();
        let broke_off = matches!(line.poll_upload(&self.pool.pipes, context), Poll::Ready(Err(_)));
        loop {
            match line.body.take(&mut line.wire.rest) {
                Ok(Piece::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Piece::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Ok(Piece::End) => return Poll::Ready(None),
                Ok(Piece::More) => {}
                Err(bad @ BadBody) => return Poll::Ready(Some(Err(bad.into()))),
            }
            // What was there already may be all of the answer.
            if broke_off {
                return Poll::Ready(Some(Err(IncomingError::Request)));
            }
            match ready!(line.wire.poll_fill(context)) {
                Ok(0) if line.body.ends() => return Poll::Ready(None),
                Ok(0) => {
                    let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Poll::Ready(Some(Err(error.into())));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    /// The same in a pipe, where that can be.
    pub(crate) fn poll_piped(
        &mut self,
        pipes: &PipePool,
        context: &mut Context<'_>,
    ) -> Option<Polled<Piped, IncomingError>> {
        let line = &mut *self.line.borrow_mut();
        if !line.wire.is_for_pipes(&line.body) {
            return None;
        }
        if let Poll::Ready(Err(_)) = line.poll_upload(&self.pool.pipes, context) {
            return Some(Poll::Ready(Some(Err(IncomingError::Request))));
        }
        let polled = line.wire.poll_piped(&mut line.body, pipes, context)?;
        Some(polled.map_err(Into::into))
    }

    /// Sends more of the request.
    pub(crate) fn go_on(&mut self, context: &mut Context<'_>) -> Result<(), IncomingError> {
        match self.line.borrow_mut().poll_upload(&self.pool.pipes, context) {
            Poll::Ready(Err(_)) => Err(IncomingError::Request),
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// The connection itself, which speaks another protocol now.
    pub(crate) fn into_wire(self) -> Option<Wire> {
        Rc::into_inner(self.line).map(|line| line.into_inner().wire)
    }

    /// Gives it back, if another request can have it.
    pub(crate) fn release(self) {
        let Self { line, pool, .. } = self;
        let is_free = line.borrow().is_free();
        if is_free && !pool.is_closed() {
            line.borrow_mut().rest();
            pool.idle.rest(line, pool.clock.now(), pool.most_idle);
        }
    }
}

impl Idle {
    /// The one used last: those at the other end may rest until they are not needed any more.
    pub(super) async fn take(&self, pool: &Rc<Pool>) -> Option<Checkout> {
        poll_fn(|context| {
            let mut all = self.0.borrow_mut();
            while let Some(Resting { line, .. }) = all.pop() {
                let is_quiet = line.borrow_mut().is_quiet(context);
                if is_quiet {
                    return Poll::Ready(Some(Checkout { line, was_used: true, pool: Rc::clone(pool) }));
                }
            }
            Poll::Ready(None)
        })
        .await
    }

    fn rest(&self, line: Rc<RefCell<Line>>, since: Instant, most: usize) {
        let mut all = self.0.borrow_mut();
        if all.len() < most {
            all.push(Resting { line, since });
        }
    }

    /// Lets go of those that rest for too long or were ended by the backend. `true` when none is left.
    pub(super) fn tend(&self, now: Instant, time: Duration) -> bool {
        let mut all = self.0.borrow_mut();
        let mut context = Context::from_waker(Waker::noop());
        all.retain(|resting| {
            now.duration_since(resting.since) < time && resting.line.borrow_mut().is_quiet(&mut context)
        });
        all.is_empty()
    }

    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}
