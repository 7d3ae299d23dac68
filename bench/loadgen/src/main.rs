//! A load tool for proxies that carry TLS, TCP, UDP and HTTP: clients, the backends behind the proxy, and an account of what
//! the proxy spent in between. It knows a proxy by its ports and its process id alone, so that all are measured alike.
//! Each run prints one line of JSON.

mod backend;
mod connection;
mod histogram;
mod modes;
mod net;
mod poll;
mod processes;
mod record;
mod request;
mod target;
mod tls;
mod window;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Debug, Parser)]
#[command(name = "loadgen", about = "Load for proxies, and an account of what they spent on it")]
struct Loadgen {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// What stands behind the proxy: base+1 echo, +2 source, +3 sink, +4 TLS echo, +5 HTTP, +6 TLS echo (RSA), +7 UDP echo,
    /// +8 HTTP/2 and gRPC
    Backend(backend::Options),
    /// New connections: connect, a ClientHello or a handshake, one exchange, close
    Conn(modes::conn::Options),
    /// Ping-pong on connections that stay
    Rr(modes::ping_pong::Options),
    /// Requests over HTTP/2, several at a time on each connection
    H2(modes::http2::Options),
    /// Many bytes on few connections
    Bulk(modes::bulk::Options),
    /// Memory of the proxy for each connection that is open and silent
    Idle(modes::idle::Options),
    /// Datagrams and their echoes
    Udp(modes::udp::Options),
    /// A change of configuration under load: when is it served, and what broke?
    Reload(modes::reload::Options),
    /// Wait until a name is served
    Probe(modes::probe::Options),
    /// What handshakes cost in memory, without sockets
    Crypto(modes::crypto::Options),
    /// Memory of the proxy as it is
    Mem(modes::mem::Options),
}

fn main() -> ExitCode {
    match run(Loadgen::parse().mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadgen: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mode: Mode) -> Result<()> {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files })?;
    match mode {
        Mode::Backend(options) => backend::run(&options),
        Mode::Conn(options) => modes::conn::run(&options),
        Mode::Rr(options) => modes::ping_pong::run(&options),
        Mode::H2(options) => modes::http2::run(&options),
        Mode::Bulk(options) => modes::bulk::run(&options),
        Mode::Idle(options) => modes::idle::run(&options),
        Mode::Udp(options) => modes::udp::run(&options),
        Mode::Reload(options) => modes::reload::run(&options),
        Mode::Probe(options) => modes::probe::run(&options),
        Mode::Crypto(options) => modes::crypto::run(&options),
        Mode::Mem(options) => modes::mem::run(&options),
    }
}
