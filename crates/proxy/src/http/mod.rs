//! Where connections that carry HTTP go: to an engine on the same thread, with what was read of them so far and
//! all that a worker can lend it.

mod kit;
mod place;
mod rewound;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_plan::{HttpVersion, ListenerHandle};
use tokio::net::TcpStream;

pub use self::kit::HttpKit;
pub use self::place::ConnectionPlace;
pub(crate) use self::place::Occupied;
pub use self::rewound::Rewound;

/// What serves HTTP.
pub trait HttpEngine: Send + Sync {
    /// Its part on one worker, where it stays: called once on the thread of each.
    fn on_worker(&self, kit: HttpKit) -> Box<dyn HttpWorker>;
}

/// The engine on one worker's thread, among the connections of the data plane.
pub trait HttpWorker {
    /// Serves the connection to its end.
    fn serve(&self, connection: HttpConnection) -> Pin<Box<dyn Future<Output = ()>>>;

    /// Called every tenth of a second.
    fn tick(&self);

    /// Listeners or routes have changed: connections that were let in under what is gone are to end.
    fn look_again(&self);

    /// All connections are to end, at the latest so long from now.
    fn drain(&self, time: Duration);
}

/// A connection that carries HTTP.
#[derive(Debug)]
pub struct HttpConnection {
    pub stream: TcpStream,
    pub client: SocketAddr,
    /// As the plan has it, without the offset of ports.
    pub local: SocketAddr,
    /// `None` for plain HTTP.
    pub tls: Option<Https>,
    /// Counts as one of the connections for as long as it is kept.
    pub place: ConnectionPlace,
}

/// A ClientHello was read and decided about; the handshake is the engine's.
#[derive(Debug)]
pub struct Https {
    pub listener: ListenerHandle,
    pub config: Arc<rustls::ServerConfig>,
    pub version: HttpVersion,
    /// All that was read.
    pub read: Vec<u8>,
}

/// An engine for tests of everything else: it closes what it is given.
#[cfg(test)]
pub(crate) struct Nobody;

#[cfg(test)]
impl HttpEngine for Nobody {
    fn on_worker(&self, _: HttpKit) -> Box<dyn HttpWorker> {
        Box::new(Self)
    }
}

#[cfg(test)]
impl HttpWorker for Nobody {
    fn serve(&self, _: HttpConnection) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::ready(()))
    }

    fn tick(&self) {}

    fn look_again(&self) {}

    fn drain(&self, _: Duration) {}
}
