//! Listening sockets: new connections, and what to do when the machine has no room for them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use tidegate_plan::{Expects, Transport};

use super::Worker;
use super::turn::Token;
use crate::engine::{Facts, Session, Stream};
use crate::net::{TcpStream, accept};

/// A socket that listens on one (address, port).
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) socket: OwnedFd,
    pub(crate) transport: Transport,
    /// As it is bound; every address of the machine may be meant.
    pub(crate) bound: SocketAddr,
    /// The port that listeners of the plan have.
    pub(crate) port: u16,
}

/// A socket of a worker, watched.
#[derive(Debug)]
pub(super) enum Open {
    Tcp {
        socket: OwnedFd,
        bound: SocketAddr,
        port: u16,
    },
    /// The flows have it, under this number.
    Udp(usize),
}

/// Connections accepted from one socket before another event has its turn.
const BATCH: usize = 64;

/// A machine that stays exhausted is said to be so this often; the metric counts every pause.
const SILENCE: Duration = Duration::from_secs(10);

impl Worker {
    pub(super) fn listen(&mut self, number: usize, listening: Listening) {
        if self.listening.len() <= number {
            self.listening.resize_with(number + 1, || None);
        }
        let bound = listening.bound;
        match self.watch_socket(number, listening) {
            Ok(open) => self.listening[number] = Some(open),
            Err(error) => eprintln!("tidegate: cannot watch {bound}: {error}"),
        }
    }

    fn watch_socket(&mut self, number: usize, listening: Listening) -> io::Result<Open> {
        let Listening { socket, transport, bound, port } = listening;
        if transport == Transport::Udp {
            return Ok(Open::Udp(self.udp.listen(self.epoll.as_fd(), socket, bound, port)?));
        }
        let token = Token::Listening(number).into();
        epoll::add(&self.epoll, &socket, token, EventFlags::IN | EventFlags::ET)?;
        Ok(Open::Tcp { socket, bound, port })
    }

    /// What waits in the queue of the socket was promised an answer when it was let in.
    pub(super) fn unlisten(&mut self, number: usize) {
        while !self.accept_batch(number) {}
        let Some(listening) = self.listening.get_mut(number) else { return };
        if let Some(Open::Udp(inlet)) = listening.take() {
            self.with_flows(|udp, context| udp.leave(inlet, context));
        }
    }

    pub(super) fn accept_from(&mut self, number: usize) {
        if !self.accept_batch(number) {
            self.accept_again.push(number);
        }
    }

    /// `true` when no more connections wait.
    fn accept_batch(&mut self, number: usize) -> bool {
        self.kit.take_up_snapshot();
        for _ in 0..BATCH {
            let Some(Some(Open::Tcp { socket, bound, port })) = self.listening.get(number) else {
                return true;
            };
            if self.paused {
                return true;
            }
            match accept(socket) {
                Ok((stream, client)) => {
                    let (bound, port) = (*bound, *port);
                    self.accepted(stream, client, bound, port);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if is_exhausted(&error) => {
                    self.pause_accepting(&error);
                    return true;
                }
                // Of a client that is gone already.
                Err(_) => {}
            }
        }
        false
    }

    fn accepted(&mut self, stream: TcpStream, client: SocketAddr, bound: SocketAddr, port: u16) {
        let local = if bound.ip().is_unspecified() { stream.local().unwrap_or(bound) } else { bound };
        let facts = Facts::new(client, local, port, self.kit.wall, self.kit.now);
        self.kit.counters().accepted();
        if let Err(ending) = self.shared.enter(client.ip(), &self.kit.snapshot.bounds) {
            // Without a word: the client has not said anything either.
            stream.reset();
            return self.turn_away(&facts, ending);
        }
        let expects = self.kit.snapshot.tables.expects(facts.planned_local(), Transport::Tcp);
        // Nobody answers at an address whose listeners ask for others.
        let session = Session::new(stream, expects.unwrap_or(Expects::Bytes), facts, self.kit.tick());
        self.begin(session);
    }

    /// An accept that fails for want of descriptors would fail again at once, for as long as the client waits.
    fn pause_accepting(&mut self, error: &io::Error) {
        self.paused = true;
        self.kit.counters().accept_paused();
        if self.paused_said.is_none_or(|said| self.kit.now.duration_since(said) > SILENCE) {
            self.paused_said = Some(self.kit.now);
            eprintln!("tidegate: accepting no connections for a moment: {error}");
        }
    }

    pub(super) fn resume_accepting(&mut self) {
        if std::mem::take(&mut self.paused) {
            for number in 0..self.listening.len() {
                self.accept_from(number);
            }
        }
    }
}

fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;
    use crate::Settings;
    use crate::http::Nobody;
    use crate::net::open_tcp;
    use crate::shared::Shared;

    /// More than one batch. They are answered by a plan without listeners, which is an end and no reset.
    #[test]
    fn what_waits_is_accepted_before_the_socket_is_closed() {
        let shared = Shared::new(Settings { workers: 1, ..Settings::default() }, Box::new(Nobody));
        let mut worker = Worker::new(0, Arc::new(shared), None).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let socket = open_tcp(any, 1, false, false).unwrap().remove(0);
        let bound = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
        let port = bound.port();
        worker.listen(0, Listening { socket, transport: Transport::Tcp, bound, port });
        let clients: Vec<_> =
            (0..2 * BATCH + 1).map(|_| std::net::TcpStream::connect(bound).unwrap()).collect();
        worker.unlisten(0);
        for mut client in clients {
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
        }
        assert!(std::net::TcpStream::connect(bound).is_err());
    }
}
