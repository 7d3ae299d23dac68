//! What stands behind the proxies: one thread, and a port for each kind of server; HTTP/2 has a thread of its own. Without a proxy in between it is
//! itself what is measured (`direct`).

mod client;
mod http;
mod http2;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use clap::Args;
use rustls::ServerConfig;

use self::client::{Client, Scratch};
use crate::Result;
use crate::net;
use crate::poll::{Event, EventFlags, Poll};
use crate::tls::{self, KeyExchange};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Ports are this one plus 1 to 8
    #[arg(long, default_value_t = 9000)]
    base: u16,
    /// Folder with backend-ecdsa and backend-rsa (.crt and .key)
    #[arg(long, default_value = "certs")]
    certs: String,
    /// The sink drops bytes without a copy out of the kernel
    #[arg(long)]
    lite: bool,
    /// Bytes of the body of an HTTP response
    #[arg(long, default_value_t = 128)]
    http_body: usize,
}

/// Tokens below it are listeners.
const FIRST_CLIENT: usize = 64;
/// Taken from one listener before others have their turn.
const AT_A_TIME: usize = 64;

struct Listener {
    socket: OwnedFd,
    serves: Serves,
}

enum Serves {
    Echo,
    Source,
    Sink,
    Http,
    Tls(Arc<ServerConfig>),
    Datagrams,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let poll = Poll::new()?;
    let listeners = open(options)?;
    http2::start(SocketAddrV4::new(Ipv4Addr::LOCALHOST, options.base + 8), options.http_body)?;
    for (token, listener) in listeners.iter().enumerate() {
        poll.add(&listener.socket, token, EventFlags::IN)?;
    }
    let clients = Clients { all: Vec::new(), free: Vec::new() };
    Backend { poll, listeners, clients, scratch: Scratch::new(options.lite, options.http_body) }.serve()
}

fn open(options: &Options) -> Result<Vec<Listener>> {
    let tls = |name| Ok(Serves::Tls(tls::server(&options.certs, name, KeyExchange::X25519)?));
    let all: [Result<Serves>; 7] = [
        Ok(Serves::Echo),
        Ok(Serves::Source),
        Ok(Serves::Sink),
        tls("backend-ecdsa"),
        Ok(Serves::Http),
        tls("backend-rsa"),
        Ok(Serves::Datagrams),
    ];
    let ports = options.base + 1..;
    let listener = |(port, serves): (u16, Result<Serves>)| {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let serves = serves?;
        let socket = match serves {
            Serves::Datagrams => net::datagram_server(address),
            _ => net::listen(address),
        };
        Ok(Listener { socket: socket.map_err(|error| format!("{address}: {error}"))?, serves })
    };
    ports.zip(all).map(listener).collect()
}

struct Backend {
    poll: Poll,
    listeners: Vec<Listener>,
    clients: Clients,
    scratch: Scratch,
}

impl Backend {
    fn serve(mut self) -> Result<()> {
        let mut events = Vec::new();
        loop {
            self.poll.wait(None, &mut events);
            for &event in &events {
                match event.token.checked_sub(FIRST_CLIENT) {
                    None => self.listener_ready(event.token)?,
                    Some(place) => self.client_ready(place, event),
                }
            }
        }
    }

    fn listener_ready(&mut self, token: usize) -> Result<()> {
        let Listener { socket, serves } = &self.listeners[token];
        for _ in 0..AT_A_TIME {
            if matches!(serves, Serves::Datagrams) {
                if net::echo_datagram(socket, &mut self.scratch.buffer).is_err() {
                    break;
                }
                continue;
            }
            let Ok(accepted) = net::accept(socket) else { break };
            let client = Client::new(accepted, serves)?;
            let place = self.clients.place();
            self.poll.add(&client.socket, FIRST_CLIENT + place, client.interest())?;
            self.clients.all[place] = Some(client);
        }
        Ok(())
    }

    fn client_ready(&mut self, place: usize, event: Event) {
        let Some(client) = self.clients.all[place].as_mut() else { return };
        if client.ready(event, &self.poll, &mut self.scratch).is_err() {
            self.clients.all[place] = None;
            self.clients.free.push(place);
        }
    }
}

struct Clients {
    all: Vec<Option<Client>>,
    free: Vec<usize>,
}

impl Clients {
    fn place(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        })
    }
}
