//! What is known of one client's connection, shared by all its requests, and how long it may go on.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_plan::{Expects, ListenerHandle, Transport};
use tidegate_proxy::{Bounds, ConnectionPlace, Ending, Snapshot};
use tokio::sync::Notify;

use super::watched::Activity;
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
    pub(crate) activity: Arc<Activity>,
    /// HTTP/2 has bytes that belong to no request, so that these say nothing of one.
    is_http2: bool,
    /// Requests under way.
    requests: Cell<u32>,
    had_requests: Cell<bool>,
    /// Since when there is none.
    idle: Cell<Instant>,
    /// When it must be over, and why.
    end: Cell<Option<(Instant, Ending)>>,
    told: Notify,
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
        trusted: &Networks,
    ) -> Self {
        Self {
            forwarded: forwarded::Client::new(client, local, listener.is_some(), trusted),
            client,
            local,
            listener,
            server_name: place.server_name(),
            place,
            activity: Activity::new(),
            is_http2: false,
            requests: Cell::new(0),
            had_requests: Cell::new(false),
            idle: Cell::new(Instant::now()),
            end: Cell::new(None),
            told: Notify::new(),
        }
    }

    /// It turned out to be HTTP/2.
    pub(super) fn speaks_http2(&mut self) {
        self.is_http2 = true;
    }

    pub(crate) fn is_https(&self) -> bool {
        self.listener.is_some()
    }

    pub(crate) fn request_began(&self) {
        self.requests.set(self.requests.get() + 1);
        self.had_requests.set(true);
        self.activity.request_began();
    }

    pub(crate) fn request_ended(&self) {
        self.requests.set(self.requests.get().saturating_sub(1));
        if self.requests.get() == 0 {
            self.idle.set(Instant::now());
            self.activity.requests_ended();
        }
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
            self.told.notify_one();
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.end.get().is_some()
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

    pub(super) async fn told(&self) {
        self.told.notified().await;
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

    /// The connection broke. What became of its requests they say themselves, but for one that the parser refused: it
    /// was answered by the parser and is known to nobody else.
    pub(super) fn failed(&self, error: &hyper::Error) {
        let cause: &dyn fmt::Display = match error.source() {
            Some(cause) => &cause.to_string(),
            None => error,
        };
        let answered = self.activity.refused();
        if error.is_parse_too_large() {
            self.place.refuses(Ending::RequestTooLarge, answered.unwrap_or(TOO_LARGE), cause);
        } else if error.is_parse() {
            self.place.refuses(Ending::RequestInvalid, answered.unwrap_or(BAD_REQUEST), cause);
        } else {
            self.broke(cause);
        }
    }

    /// The same where nothing is answered but requests.
    pub(super) fn broke(&self, cause: &(impl fmt::Display + ?Sized)) {
        if !self.had_requests.get() {
            self.place.ends(Ending::ClientGone, Some(&cause.to_string()));
        }
    }
}

/// What the parser answers with, where nobody saw it.
const BAD_REQUEST: u16 = 400;
const TOO_LARGE: u16 = 431;
