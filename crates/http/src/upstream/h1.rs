//! Connections over HTTP/1.1: one request at a time, and idle between them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::SendRequest;

use super::heard::Heard;
use super::pools::Pool;
use crate::body::Upload;

/// Those without a request, the one used last at the end.
#[derive(Default)]
pub(super) struct Idle(RefCell<Vec<Resting>>);

struct Resting {
    sender: SendRequest<Upload>,
    heard: Heard,
    since: Instant,
}

/// A connection in use.
pub(crate) struct Checkout {
    sender: SendRequest<Upload>,
    heard: Heard,
    pub(super) was_used: bool,
    pool: Rc<Pool>,
}

impl Checkout {
    pub(super) fn fresh(sender: SendRequest<Upload>, pool: Rc<Pool>) -> Self {
        Self { sender, heard: Heard::default(), was_used: false, pool }
    }

    /// Sends the request, and tells what comes before its answer, where somebody wants to know.
    pub(super) async fn send(
        &mut self,
        mut request: Request<Upload>,
        early: Option<impl Fn(StatusCode, HeaderMap)>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Upload>>> {
        let Some(early) = early else { return self.sender.try_send_request(request).await };
        self.heard.listen(&mut request);
        let mut answer = pin!(self.sender.try_send_request(request));
        poll_fn(|context| {
            while let Some((status, headers)) = self.heard.next(context) {
                early(status, headers);
            }
            answer.as_mut().poll(context)
        })
        .await
    }

    /// Whether it will take a request, now or in a moment: what was read last may not be digested yet.
    pub(super) async fn is_ready(&mut self) -> bool {
        self.sender.is_ready() || poll_fn(|context| self.sender.poll_ready(context)).await.is_ok()
    }

    pub(super) fn release(self) {
        let Self { sender, heard, pool, .. } = self;
        if !sender.is_closed() && !pool.is_closed() {
            pool.idle.rest(sender, heard, pool.most_idle);
        }
    }
}

impl Idle {
    /// The one used last: those at the other end may rest until they are not needed any more.
    pub(super) fn take(&self, pool: &Rc<Pool>) -> Option<Checkout> {
        let mut all = self.0.borrow_mut();
        while let Some(Resting { sender, heard, .. }) = all.pop() {
            if !sender.is_closed() {
                return Some(Checkout { sender, heard, was_used: true, pool: Rc::clone(pool) });
            }
        }
        None
    }

    fn rest(&self, sender: SendRequest<Upload>, heard: Heard, most: usize) {
        let mut all = self.0.borrow_mut();
        if all.len() < most {
            all.push(Resting { sender, heard, since: Instant::now() });
        }
    }

    /// Lets go of those that rest for too long or were ended by the backend. `true` when none is left.
    pub(super) fn tend(&self, now: Instant, time: Duration) -> bool {
        let mut all = self.0.borrow_mut();
        all.retain(|resting| !resting.sender.is_closed() && now.duration_since(resting.since) < time);
        all.is_empty()
    }

    pub(super) fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}
