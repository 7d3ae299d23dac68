//! Datagrams and their echoes, on flows that stay or on a new flow for each.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use clap::Args;

use super::LOOK_UP;
use crate::Result;
use crate::histogram::Histogram;
use crate::net;
use crate::poll::{EventFlags, Poll};
use crate::target::address;
use crate::window::{self, Turn, Window};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    window: window::Options,
    #[arg(long, default_value = "8053", value_parser = address)]
    to: SocketAddrV4,
    /// Flows at a time
    #[arg(long, default_value_t = 32)]
    conns: usize,
    /// Datagrams under way on each flow
    #[arg(long, default_value_t = 1)]
    win: usize,
    /// Each exchange is a new flow: a new socket, from an address and port not used before
    #[arg(long)]
    fresh: bool,
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Milliseconds until a datagram counts as lost
    #[arg(long, default_value_t = 500)]
    timeout_ms: u64,
}

/// How often to look for lost datagrams.
const LOOK_FOR_LOST: Duration = Duration::from_millis(50);

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut load = Load {
        options,
        message: vec![b'u'; options.size],
        buffer: vec![0; options.size + 1],
        poll: Poll::new()?,
        sources: options.fresh.then(Sources::default),
        flows: Vec::new(),
        seen: Seen::default(),
    };
    for place in 0..options.conns {
        let flow = load.open(place)?;
        load.flows.push(flow);
    }
    let mut window = Window::new(&options.window);
    let mut events = Vec::new();
    let mut looked = Instant::now();
    loop {
        load.poll.wait(Some(LOOK_UP), &mut events);
        let now = Instant::now();
        match window.turn(now) {
            Some(Turn::Opened) => load.seen = Seen::default(),
            Some(Turn::Closed) => break,
            None => {}
        }
        for event in &events {
            load.ready(event.token)?;
        }
        if now - looked > LOOK_FOR_LOST {
            looked = now;
            load.replace_lost(now)?;
        }
    }
    let Seen { echoes, lost, wrong, times } = load.seen;
    let record = window.record("udp", echoes as f64).set("conns", options.conns);
    let record = record.set("err", wrong).set("lost", lost);
    let record = record.number("loss_frac", lost as f64 / (echoes + lost).max(1) as f64, 6);
    times.describe(record).print();
    Ok(())
}

struct Load<'a> {
    options: &'a Options,
    message: Vec<u8>,
    buffer: Vec<u8>,
    poll: Poll,
    sources: Option<Sources>,
    flows: Vec<Flow>,
    seen: Seen,
}

struct Flow {
    socket: OwnedFd,
    asked: Instant,
}

#[derive(Default)]
struct Seen {
    echoes: u64,
    lost: u64,
    wrong: u64,
    times: Histogram,
}

impl Load<'_> {
    fn under_way(&self) -> usize {
        if self.options.fresh { 1 } else { self.options.win }
    }

    fn open(&mut self, place: usize) -> io::Result<Flow> {
        let from = self.sources.as_mut().map(Sources::next);
        let socket = net::datagram_client(from, self.options.to)?;
        self.poll.add(&socket, place, EventFlags::IN)?;
        for _ in 0..self.under_way() {
            // One that is not taken is one that is lost, and is counted as such.
            let _ = net::send(&socket, &self.message);
        }
        Ok(Flow { socket, asked: Instant::now() })
    }

    fn ready(&mut self, place: usize) -> io::Result<()> {
        while let Ok(length) = net::receive(&self.flows[place].socket, &mut self.buffer) {
            let flow = &mut self.flows[place];
            self.seen.times.note(flow.asked.elapsed());
            if self.buffer[..length] == self.message {
                self.seen.echoes += 1;
            } else {
                self.seen.wrong += 1;
            }
            if self.options.fresh {
                self.flows[place] = self.open(place)?;
                break;
            }
            flow.asked = Instant::now();
            let _ = net::send(&flow.socket, &self.message);
        }
        Ok(())
    }

    fn replace_lost(&mut self, now: Instant) -> io::Result<()> {
        let limit = Duration::from_millis(self.options.timeout_ms);
        for place in 0..self.flows.len() {
            if now.saturating_duration_since(self.flows[place].asked) > limit {
                self.seen.lost += self.under_way() as u64;
                self.flows[place] = self.open(place)?;
            }
        }
        Ok(())
    }
}

/// Addresses of the loopback network, one after the other. Ports alone would come round within seconds, and a proxy
/// that remembers its flows for a minute would take half of the new ones for old ones.
#[derive(Default)]
struct Sources(u16);

impl Sources {
    fn next(&mut self) -> Ipv4Addr {
        self.0 = self.0.wrapping_add(1);
        let [third, fourth] = self.0.to_be_bytes();
        Ipv4Addr::new(127, 1, third, fourth)
    }
}
