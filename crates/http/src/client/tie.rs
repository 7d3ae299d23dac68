//! What is known of one client's connection, shared by all its requests, and how long it may go on.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tidegate_plan::{Expects, ListenerHandle, Transport};
use tidegate_proxy::{Bounds, ConnectionPlace, Ending, Snapshot};

use super::activity::Activity;
use crate::clock::Clock;
use crate::forwarded;
use crate::networks::Networks;

pub(crate) struct Tie {
    pub(crate) client: SocketAddr,
    /// As the plan has it.
    pub(crate) local: SocketAddr,
    /// As it was at the handshake; `None` for plain HTTP.
    pub(crate) listener: Option<ListenerHandle>,
    pub(crate) server_name: Option<Box<str>>,
    pub(crate) place: ConnectionPlace,
    pub(crate) forwarded: forwarded::Client,
    pub(crate) activity: Rc<Activity>,
    clock: Rc<Clock>,
    /// HTTP/2 has bytes that belong to no request, so that these say nothing of one.
    is_http2: bool,
    /// Requests under way.
    requests: Cell<u32>,
    had_requests: Cell<bool>,
    /// Since when there is none.
    idle: Cell<Instant>,
    /// When it must be over, and why.
    end: Cell<Option<(Instant, Ending)>>,
    /// Whoever is to be woken when that is said.
    watch: RefCell<Option<Waker>>,
}

/// What a connection is at, and since when.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Waiting for another request.
    Idle(Instant),
    /// The head of a request is awaited or has begun to come.
    Head(Instant),
    /// Requests are under way; the last byte was then.
    Busy(Instant),
}

/// What follows from a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// It may end in good order.
    Idle,
    Over(Ending),
}

impl Tie {
    pub(crate) fn new(
        client: SocketAddr,
        local: SocketAddr,
        listener: Option<ListenerHandle>,
        place: ConnectionPlace,
        is_http2: bool,
        trusted: &Networks,
        clock: &Rc<Clock>,
    ) -> Self {
        Self {
            forwarded: forwarded::Client::new(client, local, listener.is_some(), trusted),
            client,
            local,
            listener,
            server_name: place.server_name(),
            place,
            activity: Activity::new(clock),
            clock: Rc::clone(clock),
            is_http2,
            requests: Cell::new(0),
            had_requests: Cell::new(false),
            idle: Cell::new(clock.now()),
            end: Cell::new(None),
            watch: RefCell::new(None),
        }
    }

    pub(crate) fn is_https(&self) -> bool {
        self.listener.is_some()
    }

    pub(crate) fn request_began(&self) {
        self.requests.set(self.requests.get() + 1);
        self.had_requests.set(true);
    }

    pub(crate) fn request_ended(&self) {
        self.requests.set(self.requests.get().saturating_sub(1));
        if self.requests.get() == 0 {
            self.idle.set(self.clock.now());
            self.activity.requests_ended();
        }
    }

    /// Whether several requests are under way.
    pub(super) fn is_shared(&self) -> bool {
        self.requests.get() > 1
    }

    /// Where it is while no request is under way. A client that says nothing at first has no more time than one that
    /// says little.
    fn phase(&self) -> Phase {
        if self.requests.get() > 0 {
            Phase::Busy(self.activity.last())
        } else if self.had_requests.get() && (self.is_http2 || self.activity.is_awaiting()) {
            Phase::Idle(self.idle.get())
        } else {
            Phase::Head(self.activity.head())
        }
    }

    /// It is to end after the requests that are under way, and at this moment at the latest.
    pub(crate) fn end(&self, deadline: Instant, ending: Ending) {
        if self.end.get().is_none_or(|(other, _)| deadline < other) {
            self.end.set(Some((deadline, ending)));
            if let Some(watch) = self.watch.take() {
                watch.wake();
            }
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.end.get().is_some()
    }

    /// Why it must be over by now.
    pub(crate) fn ended(&self) -> Option<Ending> {
        self.end.get().filter(|(deadline, _)| *deadline <= Instant::now()).map(|(_, ending)| ending)
    }

    /// Waits for the moment at which it must be over, whatever is under way.
    pub(crate) async fn must_end(&self) -> Ending {
        loop {
            match self.end.get() {
                Some((deadline, ending)) => {
                    tokio::time::sleep_until(deadline.into()).await;
                    if self.end.get().is_some_and(|(now, _)| now <= deadline) {
                        return ending;
                    }
                }
                // Looked at now and then: most never end in this way.
                None => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
    }

    /// Has the task woken when it [is to end](Self::end).
    pub(super) fn watch(&self, context: &Context<'_>) {
        let mut watch = self.watch.borrow_mut();
        if watch.as_ref().is_none_or(|known| !known.will_wake(context.waker())) {
            *watch = Some(context.waker().clone());
        }
    }

    /// When it must be looked at, if nothing happens before.
    pub(super) fn deadline(&self, bounds: &Bounds) -> Instant {
        let own = match self.phase() {
            Phase::Idle(since) => since + bounds.keep_alive_time,
            Phase::Head(since) => since + bounds.header_time,
            Phase::Busy(last) => last + bounds.idle_time,
        };
        // Phases change without a word to the timer: it comes by as often as the shortest of them asks for.
        let shortest = bounds.header_time.min(bounds.keep_alive_time);
        let soon = Instant::now() + shortest.max(Duration::from_millis(10));
        self.end.get().map_or(own, |(end, _)| own.min(end)).min(soon)
    }

    pub(super) fn overdue(&self, now: Instant, bounds: &Bounds) -> Option<Overdue> {
        if let Some((end, ending)) = self.end.get()
            && end <= now
        {
            return Some(Overdue::Over(ending));
        }
        match self.phase() {
            Phase::Idle(since) if since + bounds.keep_alive_time <= now && !self.is_ending() => {
                Some(Overdue::Idle)
            }
            Phase::Head(since) if since + bounds.header_time <= now => {
                Some(Overdue::Over(Ending::HeaderTimeout))
            }
            Phase::Busy(last) if last + bounds.idle_time <= now => Some(Overdue::Over(Ending::IdleTimeout)),
            _ => None,
        }
    }

    /// Whether the plan would let it in today as it did then.
    pub(super) fn is_welcome(&self, snapshot: &Snapshot) -> bool {
        let tables = snapshot.tables();
        match &self.listener {
            None => tables.expects(self.local, Transport::Tcp) == Some(Expects::Http),
            Some(then) => tables.listener(&then.id).is_some_and(|now| self.was_let_in_by(now)),
        }
    }

    /// Whether the listener asks of clients what it asked of this one.
    pub(crate) fn was_let_in_by(&self, now: &ListenerHandle) -> bool {
        let Some(then) = &self.listener else { return true };
        if Arc::ptr_eq(then.fragment(), now.fragment()) {
            return true;
        }
        let rules = |listener: &ListenerHandle| {
            listener.handling.server_tls().map(|tls| tls.client_certificates.clone())
        };
        now.refuse.is_none() && rules(then) == rules(now)
    }

    /// The connection broke. What became of its requests they say themselves.
    pub(super) fn broke(&self, cause: &(impl fmt::Display + ?Sized)) {
        if !self.had_requests.get() {
            self.place.ends(Ending::ClientGone, Some(&cause.to_string()));
        }
    }
}
