//! What answers on HTTP and HTTPS listeners for as long as there is no HTTP engine: 503, in good form.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use super::{HttpConnection, HttpEngine, Https, Rewound};

#[derive(Debug)]
pub struct Unavailable;

/// For the handshake and the head of the request.
const TIME: Duration = Duration::from_secs(10);
const MOST: usize = 16 * 1024;
const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 49\r\nconnection: close\r\n\r\nThis version of Tidegate does not serve HTTP yet\n";

impl HttpEngine for Unavailable {
    fn serve(&self, connection: HttpConnection) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let HttpConnection { stream, tls, place: _place, .. } = connection;
            // That the client does not wait for the answer is no concern of anybody.
            let _ = tokio::time::timeout(TIME, async move {
                match tls {
                    None => answer(stream).await,
                    Some(Https { config, read, .. }) => {
                        let mut config = (*config).clone();
                        config.alpn_protocols.retain(|protocol| protocol != b"h2");
                        let acceptor = TlsAcceptor::from(Arc::new(config));
                        answer(acceptor.accept(Rewound::new(read, stream)).await?).await
                    }
                }
            })
            .await;
        })
    }
}

/// Reads the head of one request and answers it.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MOST || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(ANSWER).await?;
    stream.shutdown().await
}
