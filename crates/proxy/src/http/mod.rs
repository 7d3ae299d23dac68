//! Where connections that carry HTTP go: to an engine on the same thread, with what was read of them so far.

mod rewound;
mod unavailable;

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_plan::{HttpVersion, ListenerHandle};
use tokio::net::TcpStream;

pub use self::rewound::Rewound;
pub use self::unavailable::Unavailable;
use crate::shared::Shared;

/// What serves HTTP. It runs on the worker's thread, among the connections of the data plane.
pub trait HttpEngine: Send + Sync {
    /// Serves the connection to its end.
    fn serve(&self, connection: HttpConnection) -> Pin<Box<dyn Future<Output = ()>>>;
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

/// A place among the connections that there may be.
pub struct ConnectionPlace {
    shared: Arc<Shared>,
    client: SocketAddr,
}

impl ConnectionPlace {
    pub(crate) fn new(shared: &Arc<Shared>, client: SocketAddr) -> Self {
        Self { shared: Arc::clone(shared), client }
    }
}

impl fmt::Debug for ConnectionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionPlace({})", self.client)
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.shared.leave(self.client.ip());
    }
}
