//! What a backend says over HTTP/1.1 before its answer. hyper tells it in the task of the connection, and it is wanted
//! in the one of the request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use http::{HeaderMap, Request, StatusCode};

/// Of one connection, and of the request that it has.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Said>>);

#[derive(Default)]
struct Said {
    all: VecDeque<(StatusCode, HeaderMap)>,
    listener: Option<Waker>,
}

/// More than anybody sends, and no more than is worth keeping for a client that does not read.
const MOST: usize = 16;

impl Heard {
    /// Listens for answers that come before the answer to this request. That the body is wanted is none of them: we
    /// have not asked.
    pub(super) fn listen<B>(&self, request: &mut Request<B>) {
        self.said().all.clear();
        let heard = self.clone();
        hyper::ext::on_informational(request, move |early| {
            if early.status() != StatusCode::CONTINUE {
                heard.hear(early.status(), early.headers().clone());
            }
        });
    }

    fn hear(&self, status: StatusCode, headers: HeaderMap) {
        let mut said = self.said();
        if said.all.len() < MOST {
            said.all.push_back((status, headers));
        }
        if let Some(listener) = said.listener.take() {
            listener.wake();
        }
    }

    /// The next one; the task is woken when there is another.
    pub(super) fn next(&self, context: &Context<'_>) -> Option<(StatusCode, HeaderMap)> {
        let mut said = self.said();
        let next = said.all.pop_front();
        if next.is_none() && said.listener.as_ref().is_none_or(|known| !known.will_wake(context.waker())) {
            said.listener = Some(context.waker().clone());
        }
        next
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
