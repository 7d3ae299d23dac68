//! Where connections go and how they begin: with a handshake, with a recorded ClientHello that the backend echoes (so
//! that the proxy's share of a passthrough connection is all that is measured), or with nothing.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use clap::Args;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::Result;
use crate::connection::Connection;
use crate::net;
use crate::tls::{self, ClientOptions};

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Port on 127.0.0.1, or address and port
    #[arg(long, default_value = "8443", value_parser = address)]
    pub(crate) to: SocketAddrV4,
    /// Server name; of several (a,b,c) one is taken at random for each connection
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,
    /// A file with server names
    #[arg(long, value_name = "FILE", conflicts_with = "sni")]
    sni_file: Option<String>,
    /// Speak TLS instead of sending a recorded ClientHello
    #[arg(long)]
    tls: bool,
    /// Begin with the exchange itself
    #[arg(long, conflicts_with = "tls")]
    pub(crate) plain: bool,
    #[command(flatten)]
    client: ClientOptions,
}

impl Options {
    /// TLS for a client that speaks HTTP/2 alone, where TLS was asked for.
    pub(crate) fn http2_client(&self) -> Result<Option<Arc<ClientConfig>>> {
        if !self.tls {
            return Ok(None);
        }
        let mut config = ClientConfig::clone(&*tls::client(&self.client)?);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Some(Arc::new(config)))
    }
}

/// Reads `8443` or `127.0.0.1:8443`.
pub(crate) fn address(text: &str) -> std::result::Result<SocketAddrV4, String> {
    match text.parse() {
        Ok(port) => Ok(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)),
        Err(_) => text.parse().map_err(|_| "write a port or an IPv4 address and a port".to_owned()),
    }
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddrV4,
    beginning: Beginning,
    dice: Dice,
}

#[derive(Debug)]
enum Beginning {
    Tls(Arc<ClientConfig>, Vec<ServerName<'static>>),
    Recorded(Vec<&'static [u8]>),
    Plain,
}

impl Target {
    pub(crate) fn new(options: &Options, default_name: &str) -> Result<Self> {
        let names = match &options.sni_file {
            Some(file) => fs::read_to_string(file)?.split_whitespace().map(str::to_owned).collect(),
            None => {
                let names = options.sni.as_deref().unwrap_or(default_name);
                names.split(',').map(str::to_owned).collect()
            }
        };
        Self::with_names(options, names)
    }

    pub(crate) fn with_names(options: &Options, names: Vec<String>) -> Result<Self> {
        let names: Vec<_> =
            names.into_iter().map(ServerName::try_from).collect::<std::result::Result<_, _>>()?;
        if names.is_empty() {
            return Err("no server names".into());
        }
        let config = tls::client(&options.client)?;
        let beginning = if options.tls {
            Beginning::Tls(config, names)
        } else if options.plain {
            Beginning::Plain
        } else {
            let hellos = names.iter().map(|name| Ok(&*tls::client_hello(&config, name)?.leak()));
            Beginning::Recorded(hellos.collect::<Result<_>>()?)
        };
        Ok(Self { address: options.to, beginning, dice: Dice::default() })
    }

    /// Whether the beginning is itself an exchange, whose echo is waited for.
    pub(crate) fn begins_with_exchange(&self) -> bool {
        matches!(self.beginning, Beginning::Recorded(_))
    }

    pub(crate) fn connect(&mut self) -> io::Result<Connection> {
        let socket = net::connect(self.address)?;
        let (tls, hello) = self.begin();
        Ok(Connection::new(socket, tls, hello))
    }

    /// A client's side of TLS, or the bytes to send first.
    pub(crate) fn begin(&mut self) -> (Option<Box<ClientConnection>>, &'static [u8]) {
        match &self.beginning {
            Beginning::Tls(config, names) => {
                let name = names[self.dice.below(names.len())].clone();
                // It fails only for configurations that offer nothing, and this one was tried.
                (ClientConnection::new(Arc::clone(config), name).ok().map(Box::new), &[])
            }
            Beginning::Recorded(hellos) => (None, hellos[self.dice.below(hellos.len())]),
            Beginning::Plain => (None, &[]),
        }
    }
}

/// Xorshift: the same sequence in every run, so that all proxies are asked for the same names.
#[derive(Debug)]
struct Dice(u64);

impl Default for Dice {
    fn default() -> Self {
        Self(88_172_645_463_325_252)
    }
}

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        if bound == 1 {
            return 0;
        }
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}
