//! A client's connection: what it still has to send, and what it waits for. Every byte of an echo is compared with
//! what was sent, so that a proxy which answers by itself, or mixes up connections, has made an error.

use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustls::{ClientConnection, HandshakeKind};

use crate::net::{self, Outlet, would_block};
use crate::poll::{BOTH_EDGES, EventFlags, GONE, Poll};
use crate::request::Request;

/// What the bodies of answers are made of.
pub(crate) const BODY: u8 = b'x';

#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// What the kernel did not take yet.
    unsent: &'static [u8],
    awaited: Awaited,
    /// When the connection, or the exchange under way, began.
    pub(crate) since: Instant,
    /// An exchange is under way.
    pub(crate) busy: bool,
    /// The other side has ended.
    pub(crate) ended: bool,
    /// Something came that was not awaited.
    pub(crate) wrong: bool,
}

#[derive(Debug)]
enum Awaited {
    /// The rest of an echo; nothing more once it is empty.
    Echo(&'static [u8]),
    Head(Vec<u8>),
    /// Bytes of a body that are still to come.
    Body(usize),
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, tls: Option<Box<ClientConnection>>, hello: &'static [u8]) -> Self {
        Self {
            socket,
            tls,
            unsent: hello,
            awaited: Awaited::Echo(hello),
            since: Instant::now(),
            busy: false,
            ended: false,
            wrong: false,
        }
    }

    pub(crate) fn register(&self, poll: &Poll, token: usize) -> io::Result<()> {
        poll.add(&self.socket, token, BOTH_EDGES)
    }

    /// Begins an exchange, which counts from `since`. The one before must be done.
    pub(crate) fn ask(&mut self, request: Request, since: Instant) -> io::Result<()> {
        self.since = since;
        self.busy = true;
        let bytes = match request {
            Request::Echo(bytes) => {
                self.awaited = Awaited::Echo(bytes);
                bytes
            }
            Request::Http(bytes) => {
                self.awaited = Awaited::Head(Vec::new());
                bytes
            }
        };
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(bytes)?,
            None => self.unsent = bytes,
        }
        self.flush()
    }

    /// Sends what can be sent, then takes what is there.
    pub(crate) fn pump(&mut self, buffer: &mut [u8], flags: EventFlags) -> io::Result<()> {
        self.flush()?;
        loop {
            let length = match net::receive(&self.socket, buffer) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(());
                }
                Ok(length) => length,
                Err(error) if would_block(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.take(&buffer[..length])?;
            // A short read has emptied the socket, unless its end is to be read as well.
            if length < buffer.len() && !flags.intersects(GONE) {
                return Ok(());
            }
        }
    }

    /// Whether all that was awaited has come, and nothing else.
    pub(crate) fn done(&self) -> bool {
        let came = match &self.awaited {
            Awaited::Echo(rest) => rest.is_empty() && !self.wrong,
            Awaited::Head(_) => false,
            Awaited::Body(left) => *left == 0,
        };
        came && self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    pub(crate) fn resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut Outlet(&self.socket)) {
                    Ok(_) => {}
                    Err(error) if would_block(&error) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        }
        while !self.unsent.is_empty() {
            match net::send(&self.socket, self.unsent) {
                Ok(sent) => self.unsent = &self.unsent[sent..],
                Err(error) if would_block(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn close(mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // Whether the other side is still there to read it does not matter any more.
            let _ = tls.write_tls(&mut Outlet(&self.socket));
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Self { tls, awaited, wrong, .. } = self;
        let Some(tls) = tls else {
            *wrong |= !awaited.meet(bytes);
            return Ok(());
        };
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes)?;
            tls.process_new_packets().map_err(io::Error::other)?;
            let mut reader = tls.reader();
            loop {
                let length = match reader.fill_buf() {
                    Ok(plain) if !plain.is_empty() => {
                        *wrong |= !awaited.meet(plain);
                        plain.len()
                    }
                    _ => break,
                };
                reader.consume(length);
            }
        }
        self.flush()
    }
}

impl Awaited {
    /// Whether these bytes are what was to come next.
    fn meet(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Echo(rest) => match rest.strip_prefix(bytes) {
                Some(left) => {
                    *rest = left;
                    true
                }
                None => false,
            },
            Self::Head(head) => {
                head.extend_from_slice(bytes);
                let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") else { return true };
                let body = &head[end + 4..];
                let (right, length) = response(&head[..end]);
                let right = right && body.len() <= length && is_of_backend(body);
                *self = Self::Body(length.saturating_sub(body.len()));
                right
            }
            Self::Body(left) => {
                let right = bytes.len() <= *left && is_of_backend(bytes);
                *left = left.saturating_sub(bytes.len());
                right
            }
        }
    }
}

/// The bodies of our backends are of one letter: a page that a proxy made itself is not.
fn is_of_backend(body: &[u8]) -> bool {
    body.iter().all(|&byte| byte == BODY)
}

/// Whether it is a 200, and how long its body is.
fn response(head: &[u8]) -> (bool, usize) {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    (head.starts_with("http/1.1 200"), length.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_comes_in_pieces_and_must_be_the_same_bytes() {
        let mut awaited = Awaited::Echo(b"abcd");
        assert!(awaited.meet(b"ab"));
        assert!(awaited.meet(b"cd"));
        assert!(!awaited.meet(b"e"), "more than was sent");
        assert!(!Awaited::Echo(b"abcd").meet(b"abxd"));
    }

    #[test]
    fn a_response_is_a_head_and_as_many_bytes_as_it_says() {
        let mut awaited = Awaited::Head(Vec::new());
        assert!(awaited.meet(b"HTTP/1.1 200 OK\r\nContent-Len"));
        assert!(awaited.meet(b"gth: 5\r\n\r\nxx"));
        assert!(matches!(awaited, Awaited::Body(3)));
        assert!(awaited.meet(b"xxx"));
        assert!(matches!(awaited, Awaited::Body(0)));
        assert!(!Awaited::Body(2).meet(b"no"), "of somebody else");
        assert!(!Awaited::Head(Vec::new()).meet(b"HTTP/1.1 503 No\r\n\r\n"));
    }
}
