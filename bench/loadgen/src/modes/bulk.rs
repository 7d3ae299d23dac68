//! Many bytes on few connections, in one direction.

use std::io::{self, BufRead, Write};
use std::net::TcpStream;
use std::time::Instant;

use clap::{Args, ValueEnum};
use rustls::ClientConnection;

use super::LOOK_UP;
use crate::Result;
use crate::net::{self, Outlet, would_block};
use crate::poll::{Event, EventFlags, GONE, Poll};
use crate::target::{self, Target};
use crate::window::{self, Turn, Window};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: target::Options,
    #[command(flatten)]
    window: window::Options,
    /// From the backend that sends, or to the one that takes
    #[arg(long, value_enum, default_value_t = Direction::Down)]
    dir: Direction,
    #[arg(long, default_value_t = 8)]
    conns: usize,
    /// Do not copy what comes out of the kernel, which leaves the load side more time
    #[arg(long)]
    lite: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Direction {
    Down,
    Up,
}

/// How often one connection is written to before others have their turn.
const WRITES: usize = 4;
const READ: usize = 256 << 10;
const WRITE: usize = 64 << 10;
/// What rustls keeps of what was written and not sent.
const TLS_BUFFER: usize = 256 << 10;

pub(crate) fn run(options: &Options) -> Result<()> {
    let default_name = match options.dir {
        Direction::Down => "source.test",
        Direction::Up => "sink.test",
    };
    let mut target = Target::new(&options.target, default_name)?;
    let mut load = Load {
        direction: options.dir,
        lite: options.lite,
        streams: Vec::new(),
        bytes: 0,
        errors: 0,
        buffer: vec![0; READ],
        source: vec![b'u'; WRITE],
    };
    let mut poll = Poll::new()?;
    for token in 0..options.conns {
        let stream = Stream::open(&mut target, options.dir)?;
        poll.add(&stream.socket, token, load.interest())?;
        load.streams.push(Some(stream));
    }
    let mut window = Window::new(&options.window);
    let mut events = Vec::new();
    while load.streams.iter().any(Option::is_some) {
        poll.wait(Some(LOOK_UP), &mut events);
        match window.turn(Instant::now()) {
            Some(Turn::Opened) => load.bytes = 0,
            Some(Turn::Closed) => break,
            None => {}
        }
        for &event in &events {
            load.ready(event);
        }
    }
    let gigabytes = load.bytes as f64 / 1e9;
    window.record("bulk", gigabytes).set("conns", options.conns).set("err", load.errors).print();
    Ok(())
}

struct Load {
    direction: Direction,
    lite: bool,
    streams: Vec<Option<Stream>>,
    bytes: u64,
    errors: u64,
    buffer: Vec<u8>,
    source: Vec<u8>,
}

impl Load {
    fn interest(&self) -> EventFlags {
        match self.direction {
            Direction::Down => EventFlags::IN,
            Direction::Up => EventFlags::IN | EventFlags::OUT,
        }
    }

    fn ready(&mut self, event: Event) {
        if self.carry(event).is_err() {
            self.streams[event.token] = None;
            self.errors += 1;
        }
    }

    fn carry(&mut self, event: Event) -> io::Result<()> {
        let Some(stream) = self.streams[event.token].as_mut() else { return Ok(()) };
        if event.flags.intersects(EventFlags::IN | GONE) {
            let received = stream.receive(&mut self.buffer, self.lite)?;
            if self.direction == Direction::Down {
                self.bytes += received as u64;
            }
        }
        if self.direction == Direction::Up && event.flags.intersects(EventFlags::OUT) {
            self.bytes += stream.send(&self.source)? as u64;
        }
        Ok(())
    }
}

struct Stream {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Stream {
    /// A connection that is past its handshake, and on which the source has been told to begin.
    fn open(target: &mut Target, direction: Direction) -> Result<Self> {
        let mut socket = TcpStream::connect(target.address)?;
        socket.set_nodelay(true)?;
        let (mut tls, hello) = target.begin();
        if let Some(tls) = &mut tls {
            if direction == Direction::Down {
                tls.writer().write_all(b"go")?;
            }
            while tls.is_handshaking() || tls.wants_write() {
                tls.complete_io(&mut socket)?;
            }
            tls.set_buffer_limit(Some(TLS_BUFFER));
        } else {
            socket.write_all(if hello.is_empty() { b"go" } else { hello })?;
        }
        socket.set_nonblocking(true)?;
        Ok(Self { socket, tls })
    }

    fn receive(&mut self, buffer: &mut [u8], lite: bool) -> io::Result<usize> {
        let read = if lite && self.tls.is_none() { net::discard } else { net::receive };
        let length = match read(&self.socket, buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => length,
            Err(error) if would_block(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        let Some(tls) = &mut self.tls else { return Ok(length) };
        let mut rest = &buffer[..length];
        let mut plain = 0;
        while !rest.is_empty() {
            tls.read_tls(&mut rest)?;
            tls.process_new_packets().map_err(io::Error::other)?;
            let mut reader = tls.reader();
            while let Ok(length @ 1..) = reader.fill_buf().map(<[u8]>::len) {
                reader.consume(length);
                plain += length;
            }
        }
        Ok(plain)
    }

    fn send(&mut self, source: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        for _ in 0..WRITES {
            let sent = match &mut self.tls {
                None => net::send(&self.socket, source),
                Some(tls) => {
                    let written = if tls.wants_write() { 0 } else { tls.writer().write(source)? };
                    taken += written;
                    tls.write_tls(&mut Outlet(&self.socket)).map(|_| 0)
                }
            };
            match sent {
                Ok(sent) => taken += sent,
                Err(error) if would_block(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }
}
