//! The load on both sides of a change: connections that stay, new ones, and probes for the new name.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::Options;
use crate::Result;
use crate::connection::Connection;
use crate::histogram::Histogram;
use crate::modes::opening::{self, begin};
use crate::modes::{BUFFER, probe};
use crate::poll::{Event, Poll};
use crate::record::Record;
use crate::request::Request;
use crate::target::Target;

const EXCHANGE: &[u8] = &[b'q'; 64];
/// New connections, and probes, that are under way at a time.
const PLACES: usize = 64;
const OPENED_AT_A_TIME: usize = 64;
const NEW_PATIENCE: Duration = Duration::from_secs(3);
const PROBE_PATIENCE: Duration = Duration::from_secs(1);
/// A connection that stays and was not answered for so long hangs.
const STUCK: Duration = Duration::from_secs(2);

pub(super) struct Load {
    target: Target,
    new_name: Target,
    /// Of each connection, in HTTP; what stays asks it again and again.
    first: Option<Request>,
    first_of_new: Option<Request>,
    poll: Poll,
    events: Vec<Event>,
    buffer: Vec<u8>,
    /// Those that stay, then places for new ones, then places for probes; the place is the token.
    connections: Vec<Option<Connection>>,
    staying: usize,
    /// Who has the next exchange.
    turn: usize,
    /// The change has been made.
    pub(super) changed: bool,
    /// When the new name was first answered.
    pub(super) served: Option<Instant>,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    open: usize,
    broken: u64,
    /// By the proxy, between two requests.
    closed: u64,
    new: u64,
    new_failed: u64,
    before: Histogram,
    after: Histogram,
    new_times: Histogram,
}

impl Load {
    pub(super) fn new(options: &Options) -> Result<Self> {
        let (staying, new_name) = (options.conns, &options.new_sni);
        let mut poll = Poll::new()?;
        let mut target = Target::new(&options.target, "echo.test")?;
        let mut new_target = Target::with_names(&options.target, vec![new_name.clone()])?;
        let (first, first_of_new) = (options.request.first("echo.test"), options.request.first_for(new_name));
        let mut opened = opening::open(&mut target, first, staying, OPENED_AT_A_TIME, &mut poll);
        if probe::answers(&mut new_target, first_of_new, Duration::from_millis(500)) {
            return Err(format!("{new_name} answers before it was added").into());
        }
        opened.connections.resize_with(staying + 2 * PLACES, || None);
        Ok(Self {
            target,
            new_name: new_target,
            first,
            first_of_new,
            poll,
            events: Vec::new(),
            buffer: vec![0; BUFFER],
            connections: opened.connections,
            staying,
            turn: 0,
            changed: false,
            served: None,
            seen: Seen { open: opened.open, ..Seen::default() },
        })
    }

    /// Has the next of the connections that stay ask, unless it still waits.
    pub(super) fn exchange(&mut self, now: Instant) {
        for _ in 0..self.staying {
            self.turn = (self.turn + 1) % self.staying;
            let Some(connection) = self.connections[self.turn].as_mut() else { continue };
            if !connection.busy {
                // One that fails here is told of by epoll as well.
                let _ = connection.ask(self.first.unwrap_or(Request::Echo(EXCHANGE)), now);
            }
            return;
        }
    }

    pub(super) fn connect_new(&mut self) {
        let Some(place) = self.free(self.new_places()) else { return };
        match begin(&mut self.target, self.first, &self.poll, place) {
            Ok(connection) => self.connections[place] = Some(connection),
            Err(_) => self.seen.new_failed += 1,
        }
    }

    pub(super) fn connect_probe(&mut self) {
        let Some(place) = self.free(self.probe_places()) else { return };
        self.connections[place] = begin(&mut self.new_name, self.first_of_new, &self.poll, place).ok();
    }

    /// Waits for events, at most so long, and looks at what they bring.
    pub(super) fn turn(&mut self, limit: Duration) {
        let mut events = std::mem::take(&mut self.events);
        self.poll.wait(Some(limit), &mut events);
        let now = Instant::now();
        for &event in &events {
            self.ready(event, now);
        }
        self.events = events;
        self.give_up_on_slow(now);
    }

    fn ready(&mut self, event: Event, now: Instant) {
        let place = event.token;
        let Some(connection) = self.connections[place].as_mut() else { return };
        let failed =
            connection.pump(&mut self.buffer, event.flags).is_err() || connection.ended || connection.wrong;
        let done = connection.done() && !connection.wrong;
        let took = now.saturating_duration_since(connection.since);
        if place < self.staying {
            if connection.busy && done {
                connection.busy = false;
                let times = if self.changed { &mut self.seen.after } else { &mut self.seen.before };
                times.note(took);
            }
            let is_between_requests = self.first.is_some() && !connection.busy && !connection.wrong;
            if failed {
                self.close(place);
                if is_between_requests {
                    // Which HTTP allows a server, and clients follow with another connection.
                    self.seen.closed += 1;
                    self.connections[place] = begin(&mut self.target, self.first, &self.poll, place).ok();
                } else {
                    self.seen.broken += 1;
                }
            }
        } else if done || failed {
            if self.probe_places().contains(&place) {
                self.served = self.served.or(done.then_some(now));
            } else if done {
                self.seen.new += 1;
                self.seen.new_times.note(took);
            } else {
                self.seen.new_failed += 1;
            }
            self.close(place);
        }
    }

    fn give_up_on_slow(&mut self, now: Instant) {
        for place in self.staying..self.connections.len() {
            let is_new = self.new_places().contains(&place);
            let patience = if is_new { NEW_PATIENCE } else { PROBE_PATIENCE };
            let Some(connection) = &self.connections[place] else { continue };
            if now.saturating_duration_since(connection.since) > patience {
                self.seen.new_failed += u64::from(is_new);
                self.close(place);
            }
        }
    }

    pub(super) fn describe(&self, record: Record) -> Record {
        let staying = self.connections[..self.staying].iter().flatten();
        let stuck =
            staying.filter(|connection| connection.busy && connection.since.elapsed() > STUCK).count();
        let Seen { open, broken, closed, new, new_failed, before, after, new_times } = &self.seen;
        record
            .set("conns", self.staying)
            .set("live", *open)
            .set("broken", *broken)
            .set("closed", *closed)
            .set("stuck", stuck)
            .set("new_ok", *new)
            .set("new_failed", *new_failed)
            .number("live_before_p999_us", before.quantile(0.999), 0)
            .number("live_p99_us", after.quantile(0.99), 0)
            .number("live_p999_us", after.quantile(0.999), 0)
            .number("live_max_us", after.longest(), 0)
            .number("new_max_us", new_times.longest(), 0)
    }

    fn new_places(&self) -> Range<usize> {
        self.staying..self.staying + PLACES
    }

    fn probe_places(&self) -> Range<usize> {
        self.staying + PLACES..self.staying + 2 * PLACES
    }

    fn free(&self, mut places: Range<usize>) -> Option<usize> {
        places.find(|&place| self.connections[place].is_none())
    }

    fn close(&mut self, place: usize) {
        if let Some(connection) = self.connections[place].take() {
            connection.close();
        }
    }
}
