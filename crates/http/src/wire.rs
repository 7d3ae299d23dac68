//! A connection as bytes, from a client or to a backend, with or without TLS, and what was read of it and not yet taken.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tidegate_proxy::Rewound;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: Stream,
    /// What was read and not yet taken.
    pub(crate) rest: BytesMut,
    /// The last read brought much: the next one most likely does, too.
    is_bulk: bool,
}

#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Accepted(Box<server::TlsStream<Rewound<TcpStream>>>),
    Connected(Box<client::TlsStream<TcpStream>>),
}

/// What one read takes at most.
const PIECE: usize = 64 * 1024;
/// From this size on bytes are read to where they stay, instead of being copied.
const BULK: usize = 8 * 1024;

thread_local! {
    /// What connections read into that wait, most of the time, for little or nothing: none of them has memory of its own
    /// for that.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into());
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, rest: BytesMut::new(), is_bulk: false }
    }

    /// Reads more behind what is there. 0 at the end.
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let count = ready!(if self.is_bulk { self.poll_bulk(context) } else { self.poll_scratch(context) })?;
        self.is_bulk = count >= BULK;
        Poll::Ready(Ok(count))
    }

    fn poll_scratch(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
            self.rest.extend_from_slice(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }

    fn poll_bulk(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.rest.reserve(PIECE);
        let polled = pin!(self.stream.read_buf(&mut self.rest)).poll(context);
        if polled.is_pending() {
            self.is_bulk = false;
            if self.rest.is_empty() {
                self.rest = BytesMut::new();
            }
        }
        polled
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Accepted(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Connected(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Accepted(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Connected(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Accepted(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Connected(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Accepted(stream) => Pin::new(stream).poll_flush(context),
            Self::Connected(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Accepted(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Connected(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// What was read already comes first.
impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, rest, .. } = self.get_mut();
        if rest.is_empty() {
            return Pin::new(stream).poll_read(context, buffer);
        }
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest.split_to(count));
        if rest.is_empty() {
            *rest = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
