//! New connections: a set number at a time, each replaced by the next as soon as it has had its exchange.

use std::time::{Duration, Instant};

use clap::Args;

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
    /// Connections at a time
    #[arg(long, default_value_t = 64)]
    conc: usize,
}

/// A connection that has not had its exchange by then has failed.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut load = Load {
        target: Target::new(&options.target, "echo.test")?,
        requests: Requests::new(&options.request)?,
        poll: Poll::new()?,
        connections: Vec::new(),
        buffer: vec![0; BUFFER],
        seen: Seen::default(),
    };
    for place in 0..options.conc {
        load.connections.push(None);
        load.connect(place);
    }
    let mut window = Window::new(&options.window);
    let mut events = Vec::new();
    loop {
        load.poll.wait(Some(LOOK_UP), &mut events);
        let now = Instant::now();
        match window.turn(now) {
            Some(Turn::Opened) => load.seen = Seen::default(),
            Some(Turn::Closed) => break,
            None => {}
        }
        if events.is_empty() {
            load.give_up_on_slow(now);
        }
        for &event in &events {
            load.ready(event);
        }
    }
    let Seen { done, errors, resumed, times } = load.seen;
    let record = window.record("conn", done as f64).set("conc", options.conc).set("err", errors);
    let record = record.number("resumed", resumed as f64 / done.max(1) as f64, 3);
    times.describe(record).print();
    Ok(())
}

struct Load {
    target: Target,
    requests: Requests,
    poll: Poll,
    connections: Vec<Option<Connection>>,
    buffer: Vec<u8>,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    done: u64,
    errors: u64,
    resumed: u64,
    times: Histogram,
}

impl Load {
    fn connect(&mut self, place: usize) {
        let since = Instant::now();
        self.connections[place] = None;
        let Ok(mut connection) = self.target.connect() else { return };
        if connection.register(&self.poll, place).is_err() {
            return;
        }
        let begun = if self.target.begins_with_exchange() {
            connection.since = since;
            connection.flush()
        } else {
            connection.ask(self.requests.next(), since)
        };
        match begun {
            Ok(()) => self.connections[place] = Some(connection),
            Err(_) => connection.close(),
        }
    }

    fn ready(&mut self, event: Event) {
        let Some(connection) = self.connections[event.token].as_mut() else { return };
        let pumped = connection.pump(&mut self.buffer, event.flags);
        if connection.done() && !connection.wrong {
            self.seen.done += 1;
            self.seen.times.note(connection.since.elapsed());
            self.seen.resumed += u64::from(connection.resumed());
        } else if pumped.is_err() || connection.ended || connection.wrong {
            self.seen.errors += 1;
        } else {
            return;
        }
        self.replace(event.token);
    }

    fn give_up_on_slow(&mut self, now: Instant) {
        for place in 0..self.connections.len() {
            let waits = |connection: &Connection| now - connection.since <= PATIENCE;
            if !self.connections[place].as_ref().is_some_and(waits) {
                self.seen.errors += 1;
                self.replace(place);
            }
        }
    }

    fn replace(&mut self, place: usize) {
        if let Some(connection) = self.connections[place].take() {
            connection.close();
        }
        self.connect(place);
    }
}
