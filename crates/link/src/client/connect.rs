//! Connections to a controller, by address and with a fixed name: no DNS has a part in it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use crate::SERVER_NAME;
use crate::wire::MESSAGE;
use crate::wire::proto::link_client::LinkClient;

/// What connecting and the handshake have together.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIME: Duration = Duration::from_secs(10);
const WINDOW: u32 = 1024 * 1024;

pub(crate) async fn connect(
    controller: SocketAddr,
    tls: Arc<ClientConfig>,
) -> Result<LinkClient<Channel>, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{SERVER_NAME}"))?
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIME)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let channel = endpoint.connect_with_connector(Connector { controller, tls }).await?;
    Ok(LinkClient::new(channel).max_decoding_message_size(MESSAGE).max_encoding_message_size(MESSAGE))
}

struct Connector {
    controller: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (controller, tls) = (self.controller, TlsConnector::from(Arc::clone(&self.tls)));
        Box::pin(async move {
            let stream = TcpStream::connect(controller).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
            tls.connect(name, stream).await.map(TokioIo::new)
        })
    }
}
