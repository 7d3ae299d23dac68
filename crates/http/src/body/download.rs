//! A backend's body on its way to the client.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tidegate_proxy::{Ending, Lease, PipePool, Piped};
use tokio::time::Sleep;

use super::{BodyError, Incoming, IncomingError, Polled};
use crate::exchange::Exchange;
use crate::upstream::{Hold, cause};

pub(crate) struct Download {
    incoming: Incoming,
    /// What is held until the end.
    hold: Option<Hold>,
    lease: Option<Lease>,
    exchange: Rc<Exchange>,
    deadline: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl Download {
    pub(crate) fn new(
        incoming: Incoming,
        hold: Option<Hold>,
        lease: Lease,
        exchange: &Rc<Exchange>,
        deadline: Option<Pin<Box<Sleep>>>,
    ) -> Self {
        let exchange = Rc::clone(exchange);
        let mut download = Self { incoming, hold, lease: Some(lease), exchange, deadline, is_over: false };
        if download.incoming.is_end_stream() {
            download.finish();
        }
        download
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Polled<Frame<Bytes>, BodyError> {
        let polled = Pin::new(&mut self.incoming).poll_frame(context);
        self.note(polled, |frame| frame.data_ref().map_or(0, Bytes::len), context)
    }

    /// The same in a pipe, where that can be.
    pub(super) fn poll_piped(
        &mut self,
        pipes: &PipePool,
        context: &mut Context<'_>,
    ) -> Option<Polled<Piped, BodyError>> {
        let polled = self.incoming.poll_piped(pipes, context)?;
        Some(self.note(polled, Piped::len, context))
    }

    /// Counts what came, and whether it came in time.
    fn note<T>(
        &mut self,
        polled: Polled<T, IncomingError>,
        size: impl Fn(&T) -> usize,
        context: &mut Context<'_>,
    ) -> Polled<T, BodyError> {
        match polled {
            // What is always ready is not looked at by a timer.
            Poll::Ready(Some(Ok(_))) if self.is_late() => self.times_out(),
            Poll::Ready(Some(Ok(part))) => {
                self.exchange.carried_down(size(&part));
                if self.incoming.is_end_stream() {
                    self.finish();
                }
                Poll::Ready(Some(Ok(part)))
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(self.breaks(&error)))),
            Poll::Pending if self.is_overdue(context) => self.times_out(),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_late(&self) -> bool {
        let now = || self.exchange.home.clock.now();
        self.deadline.as_ref().is_some_and(|end| end.deadline().into_std() <= now())
    }

    fn is_overdue(&mut self, context: &mut Context<'_>) -> bool {
        self.deadline.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready())
    }

    fn times_out<T>(&self) -> Polled<T, BodyError> {
        self.exchange.ends(Ending::RequestTimeout, None);
        Poll::Ready(Some(Err(BodyError::Timeout)))
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    fn finish(&mut self) {
        self.exchange.ends(Ending::Done, None);
        self.lease = None;
        self.hold = None;
        if self.exchange.has_uploaded() {
            self.incoming.release();
        }
        self.is_over = true;
    }

    /// Carries on what the backend is still to be sent, while the client takes nothing.
    pub(super) fn go_on(&mut self, context: &mut Context<'_>) -> Result<(), BodyError> {
        if self.is_overdue(context) {
            self.exchange.ends(Ending::RequestTimeout, None);
            return Err(BodyError::Timeout);
        }
        self.incoming.go_on(context).map_err(|error| self.breaks(&error))
    }

    fn breaks(&self, error: &IncomingError) -> BodyError {
        self.exchange.ends(Ending::BackendReset, Some(cause(error).into()));
        BodyError::Backend
    }

    /// The client has all that it was told of, or wants no more: what may be missing is the word that this was all.
    pub(super) fn suffices(&mut self, context: &mut Context<'_>) {
        if !self.is_over {
            let rest = std::mem::replace(&mut self.incoming, Incoming::Empty);
            self.finish();
            rest.let_end(context);
        }
    }

    /// The client has taken nothing for too long.
    pub(super) fn stalls(&self) {
        self.exchange.fails(Ending::IdleTimeout);
    }
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("size", &self.incoming.size_hint()).finish_non_exhaustive()
    }
}
