//! A connection to a backend, and what each kind of server does with it. An error ends the connection, and so does
//! the other side's end.

use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustls::ServerConnection;

use super::Serves;
use super::http::{self, Requests};
use crate::net::{self, Outlet, would_block};
use crate::poll::{BOTH_EDGES, Event, EventFlags, GONE, Poll};

/// How often one client is written to before others have their turn.
const WRITES: usize = 4;

pub(super) struct Client {
    pub(super) socket: OwnedFd,
    server: Server,
    /// What the kernel did not take yet.
    unsent: Vec<u8>,
    sent: usize,
}

enum Server {
    Echo,
    /// Sends without end once it was sent something.
    Source {
        started: bool,
    },
    Sink,
    /// Echoes as well.
    Tls(Box<ServerConnection>),
    /// Answers each request.
    Http(Requests),
}

/// What all clients share.
pub(super) struct Scratch {
    pub(super) buffer: Vec<u8>,
    source: Vec<u8>,
    response: Vec<u8>,
    /// For who asks for much.
    large: Vec<u8>,
    /// The sink does not look at what it gets.
    lite: bool,
}

impl Scratch {
    pub(super) fn new(lite: bool, body: usize) -> Self {
        let (response, large) = (http::response(body), http::response(http::LARGE));
        Self { buffer: vec![0; 256 << 10], source: vec![b'x'; 64 << 10], response, large, lite }
    }
}

impl Client {
    pub(super) fn new(socket: OwnedFd, serves: &Serves) -> Result<Self, rustls::Error> {
        let server = match serves {
            Serves::Echo | Serves::Datagrams => Server::Echo,
            Serves::Source => Server::Source { started: false },
            Serves::Sink => Server::Sink,
            Serves::Http => Server::Http(Requests::default()),
            Serves::Tls(config) => Server::Tls(Box::new(ServerConnection::new(Arc::clone(config))?)),
        };
        Ok(Self { socket, server, unsent: Vec::new(), sent: 0 })
    }

    pub(super) fn interest(&self) -> EventFlags {
        match self.server {
            Server::Source { .. } | Server::Sink => EventFlags::IN,
            Server::Echo | Server::Tls(_) | Server::Http(_) => BOTH_EDGES,
        }
    }

    pub(super) fn ready(&mut self, event: Event, poll: &Poll, scratch: &mut Scratch) -> io::Result<()> {
        match &mut self.server {
            Server::Sink => {
                let read = if scratch.lite { net::discard } else { net::receive };
                took(read(&self.socket, &mut scratch.buffer)).map(drop)
            }
            Server::Source { started } => {
                if event.flags.intersects(EventFlags::IN | GONE) {
                    took(net::receive(&self.socket, &mut scratch.buffer))?;
                    if !*started {
                        *started = true;
                        poll.modify(&self.socket, event.token, EventFlags::IN | EventFlags::OUT)?;
                    }
                }
                if *started { pour(&self.socket, &scratch.source) } else { Ok(()) }
            }
            Server::Tls(tls) => echo_tls(&self.socket, tls, &mut scratch.buffer),
            Server::Echo | Server::Http(_) => self.answer(event, scratch),
        }
    }

    /// Reads and answers until nothing is left to read, or the other side does not take more.
    fn answer(&mut self, event: Event, scratch: &mut Scratch) -> io::Result<()> {
        while self.flush()? {
            let Some(length) = took(net::receive(&self.socket, &mut scratch.buffer))? else { return Ok(()) };
            let bytes = &scratch.buffer[..length];
            let mut all_sent = true;
            match &mut self.server {
                Server::Http(requests) => {
                    for wants_much in requests.take(bytes) {
                        let response = if wants_much { &scratch.large } else { &scratch.response };
                        all_sent &= self.send(response)?;
                    }
                }
                _ => all_sent = self.send(bytes)?,
            }
            if all_sent && length < scratch.buffer.len() && !event.flags.intersects(GONE) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether nothing is left to be sent.
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<bool> {
        while self.unsent.is_empty() && !bytes.is_empty() {
            match net::send(&self.socket, bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if would_block(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.unsent.extend_from_slice(bytes);
        Ok(self.unsent.is_empty())
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.unsent.len() {
            match net::send(&self.socket, &self.unsent[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if would_block(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.unsent.clear();
        self.sent = 0;
        Ok(true)
    }
}

/// Bytes that were read, or `None` where there are none for now; the end is an error.
fn took(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(length) => Ok(Some(length)),
        Err(error) if would_block(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn pour(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    for _ in 0..WRITES {
        match net::send(socket, bytes) {
            Ok(_) => {}
            Err(error) if would_block(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn echo_tls(socket: &OwnedFd, tls: &mut ServerConnection, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        flush_tls(socket, tls)?;
        let Some(length) = took(net::receive(socket, buffer))? else { return Ok(()) };
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            tls.read_tls(&mut rest)?;
            tls.process_new_packets().map_err(io::Error::other)?;
            loop {
                let plain = match tls.reader().fill_buf() {
                    Ok(plain) if !plain.is_empty() => plain.to_vec(),
                    _ => break,
                };
                tls.reader().consume(plain.len());
                tls.writer().write_all(&plain)?;
            }
        }
    }
}

fn flush_tls(socket: &OwnedFd, tls: &mut ServerConnection) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(&mut Outlet(socket)) {
            Ok(_) => {}
            Err(error) if would_block(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
