//! What the HTTP engine is given of a connection that is its own.

use std::sync::Arc;

use tidegate_plan::{HttpVersion, ListenerHandle};

/// A connection that carries HTTP, or nothing but a handshake.
#[derive(Debug)]
pub(crate) enum HandOver {
    /// Without TLS; nothing was read.
    Http,
    /// The client's hello was read and decided about, and the handshake has yet to be made.
    Https {
        listener: ListenerHandle,
        config: Arc<rustls::ServerConfig>,
        version: HttpVersion,
        /// All that was read.
        read: Vec<u8>,
    },
    /// A CA wants a name proved: the handshake is all there is.
    Challenge { config: Arc<rustls::ServerConfig>, read: Vec<u8> },
}
