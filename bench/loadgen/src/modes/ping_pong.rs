//! Exchanges on connections that stay: each connection asks again when it was answered, or, with a rate, whichever is
//! free asks when a question is due. Late questions then count from when they were due, not from when they were asked.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clap::Args;

use super::opening;
use super::{BUFFER, LOOK_UP};
use crate::Result;
use crate::connection::Connection;
use crate::histogram::Histogram;
use crate::poll::{Event, Poll};
use crate::request::{RequestOptions, Requests};
use crate::target::{self, Target};
use crate::window::{self, Turn, Window};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: target::Options,
    #[command(flatten)]
    window: window::Options,
    #[command(flatten)]
    request: RequestOptions,
    #[arg(long, default_value_t = 50)]
    conns: usize,
    /// Questions a second on all connections together [default: as many as are answered]
    #[arg(long)]
    rate: Option<f64>,
}

const OPENED_AT_A_TIME: usize = 64;

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut poll = Poll::new()?;
    let mut target = Target::new(&options.target, "echo.test")?;
    let opened = opening::open(&mut target, None, options.conns, OPENED_AT_A_TIME, &mut poll);
    if opened.open < options.conns {
        eprintln!("rr: {} of {} connections came up", opened.open, options.conns);
    }
    let mut load = Load {
        requests: Requests::new(&options.request)?,
        connections: opened.connections,
        buffer: vec![0; BUFFER],
        pace: options.rate.map(Pace::new),
        seen: Seen::default(),
    };
    let mut window = Window::new(&options.window);
    load.start();
    let mut events = Vec::new();
    loop {
        let limit = load.ask_what_is_due();
        poll.wait(Some(limit), &mut events);
        match window.turn(Instant::now()) {
            // Connections that were lost on the way here are missing from now on.
            Some(Turn::Opened) => load.seen = Seen { errors: load.seen.errors, ..Seen::default() },
            Some(Turn::Closed) => break,
            None => {}
        }
        for &event in &events {
            load.ready(event);
        }
    }
    let record = window.record("rr", load.seen.answers as f64).set("conns", options.conns);
    let record = record.set("rate", options.rate).set("err", load.seen.errors + opened.failed as u64);
    load.seen.times.describe(record).print();
    Ok(())
}

struct Load {
    requests: Requests,
    connections: Vec<Option<Connection>>,
    buffer: Vec<u8>,
    pace: Option<Pace>,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    answers: u64,
    errors: u64,
    times: Histogram,
}

struct Pace {
    gap: Duration,
    next: Instant,
    due: VecDeque<Instant>,
    idle: VecDeque<usize>,
}

impl Pace {
    fn new(rate: f64) -> Self {
        let gap = Duration::from_secs_f64(1.0 / rate);
        Self { gap, next: Instant::now(), due: VecDeque::new(), idle: VecDeque::new() }
    }
}

impl Load {
    fn start(&mut self) {
        let there = (0..self.connections.len()).filter(|&place| self.connections[place].is_some());
        let there: Vec<usize> = there.collect();
        if let Some(pace) = &mut self.pace {
            pace.next = Instant::now();
            pace.idle.extend(there);
        } else {
            let now = Instant::now();
            for place in there {
                self.ask(place, now);
            }
        }
    }

    fn ask(&mut self, place: usize, since: Instant) {
        let Some(connection) = self.connections[place].as_mut() else { return };
        if connection.ask(self.requests.next(), since).is_err() {
            self.lose(place);
        }
    }

    /// How long there is until the next question.
    fn ask_what_is_due(&mut self) -> Duration {
        let Some(pace) = &mut self.pace else { return LOOK_UP };
        let now = Instant::now();
        while pace.next <= now {
            pace.due.push_back(pace.next);
            pace.next += pace.gap;
        }
        let next = pace.next;
        while let Some(pace) = &mut self.pace
            && let (Some(&since), Some(&place)) = (pace.due.front(), pace.idle.front())
        {
            pace.due.pop_front();
            pace.idle.pop_front();
            self.ask(place, since);
        }
        next.saturating_duration_since(Instant::now()).min(LOOK_UP)
    }

    fn ready(&mut self, event: Event) {
        let place = event.token;
        let Some(connection) = self.connections[place].as_mut() else { return };
        let pumped = connection.pump(&mut self.buffer, event.flags);
        let failed = pumped.is_err() || connection.ended;
        if connection.busy && connection.done() {
            // A response that is not the right one is an error, and the connection is still of use.
            self.seen.errors += u64::from(std::mem::take(&mut connection.wrong));
            self.seen.answers += 1;
            let now = Instant::now();
            self.seen.times.note(now - connection.since);
            connection.busy = false;
            match &mut self.pace {
                Some(pace) => pace.idle.push_back(place),
                None if !failed => self.ask(place, now),
                None => {}
            }
        }
        if failed || self.connections[place].as_ref().is_some_and(|connection| connection.wrong) {
            self.lose(place);
        }
    }

    fn lose(&mut self, place: usize) {
        if let Some(connection) = self.connections[place].take() {
            self.seen.errors += 1;
            connection.close();
        }
    }
}
