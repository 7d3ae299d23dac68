//! A backend's body on its way to the client.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tidegate_proxy::{Ending, Lease};
use tokio::time::Sleep;

use super::{BodyError, Incoming};
use crate::exchange::Exchange;
use crate::upstream::{Hold, cause};

pub(crate) struct Download {
    incoming: Incoming,
    /// Given back at the end, so that another request can have the connection.
    hold: Option<Hold>,
    lease: Option<Lease>,
    exchange: Rc<Exchange>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Download {
    pub(crate) fn new(
        incoming: Incoming,
        hold: Hold,
        lease: Lease,
        exchange: &Rc<Exchange>,
        deadline: Option<Pin<Box<Sleep>>>,
    ) -> Self {
        let exchange = Rc::clone(exchange);
        let mut download = Self { incoming, hold: Some(hold), lease: Some(lease), exchange, deadline };
        if download.incoming.is_end_stream() {
            download.finish();
        }
        download
    }

    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.incoming).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    self.exchange.carried_down(data.len());
                }
                if self.incoming.is_end_stream() {
                    self.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                self.exchange.ends(Ending::BackendReset, Some(cause(&error).into()));
                Poll::Ready(Some(Err(BodyError::Backend)))
            }
            Poll::Pending => {
                let over = self.deadline.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready());
                if !over {
                    return Poll::Pending;
                }
                self.exchange.ends(Ending::RequestTimeout, None);
                Poll::Ready(Some(Err(BodyError::Timeout)))
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.hold.is_none()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }

    fn finish(&mut self) {
        self.exchange.ends(Ending::Done, None);
        self.lease = None;
        if let Some(hold) = self.hold.take()
            && self.exchange.has_uploaded()
        {
            hold.release();
        }
    }
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("size", &self.incoming.size_hint()).finish_non_exhaustive()
    }
}
