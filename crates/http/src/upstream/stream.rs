//! A stream to a backend, with or without TLS. It is read in pieces of a bounded size: hyper gives a connection a buffer
//! as large as what comes at once, and leaves it to one that rests.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

#[derive(Debug)]
pub(super) enum Stream {
    Plain(Take<TcpStream>),
    Tls(Box<Take<TlsStream<TcpStream>>>),
}

/// A buffer that was filled is doubled: of 64 KB this leaves a byte.
const PIECE: u64 = 64 * 1024 - 1;

impl Stream {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self::Plain(stream.take(PIECE))
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self::Tls(Box::new(stream.take(PIECE)))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => {
                stream.set_limit(PIECE);
                Pin::new(stream).poll_read(context, buffer)
            }
            Self::Tls(stream) => {
                stream.set_limit(PIECE);
                Pin::new(stream).poll_read(context, buffer)
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream.get_mut()).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream.get_mut()).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream.get_mut()).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream.get_mut()).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.get_ref().is_write_vectored(),
            Self::Tls(stream) => stream.get_ref().is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream.get_mut()).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream.get_mut()).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream.get_mut()).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream.get_mut()).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// However much there is, and however often.
    #[tokio::test]
    async fn pieces_are_bounded_and_nothing_is_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (mut stream, (mut far, _)) = (Stream::plain(near.unwrap()), far.unwrap());
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
        let bytes = sent.clone();
        tokio::spawn(async move { far.write_all(&bytes).await });
        let (mut all, mut buffer) = (Vec::new(), vec![0; 256 * 1024]);
        loop {
            let count = stream.read(&mut buffer).await.unwrap();
            if count == 0 {
                break;
            }
            assert!(count < 64 * 1024, "{count} bytes at once");
            all.extend_from_slice(&buffer[..count]);
        }
        assert!(all == sent, "{} bytes", all.len());
    }
}
