//! A connection as bytes, from a client or to a backend, with or without TLS, and what was read of it and not yet taken.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tidegate_proxy::{PipePool, Piped, Rewound};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

use crate::h1::{Decoder, Outbox};

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
/// What goes through a pipe at a time.
const PIPED: usize = 256 * 1024;
/// Less than this is not worth a pipe.
const WORTH_A_PIPE: u64 = PIECE as u64;

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

/// Bodies that nobody looks at.
impl Wire {
    /// Whether more of a body comes in [pipes](Self::poll_piped): nothing of it was read, and it is much.
    pub(crate) fn is_for_pipes(&self, body: &Decoder) -> bool {
        self.is_bulk && self.rest.is_empty() && body.plain() >= WORTH_A_PIPE && self.stream.is_plain()
    }

    /// The next of a body, in a pipe. Outer `None`: it must be [read](Self::poll_fill).
    pub(crate) fn poll_piped(
        &mut self,
        body: &mut Decoder,
        pipes: &PipePool,
        context: &mut Context<'_>,
    ) -> Option<Poll<Option<io::Result<Piped>>>> {
        if !self.is_for_pipes(body) {
            return None;
        }
        let most = usize::try_from(body.plain()).map_or(PIPED, |plain| plain.min(PIPED));
        let piped = match self.stream.poll_pipe(pipes, most, context) {
            Poll::Ready(piped) => piped.transpose()?,
            Poll::Pending => return Some(Poll::Pending),
        };
        Some(Poll::Ready(match piped {
            Ok(piped) if piped.is_empty() && body.ends() => None,
            Ok(piped) if piped.is_empty() => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(piped) => {
                body.took(piped.len());
                self.is_bulk = piped.len() >= BULK;
                Some(Ok(piped))
            }
            Err(error) => Some(Err(error)),
        }))
    }
}

impl Stream {
    /// Whether bytes go over it as they are.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Sends until nothing is left. `carried` is told of each time that some was taken.
    pub(crate) fn poll_send(
        &mut self,
        out: &mut Outbox,
        context: &mut Context<'_>,
        mut carried: impl FnMut(),
    ) -> Poll<io::Result<()>> {
        ready!(out.poll_flush(self, context, &mut carried))?;
        while let Some(piped) = out.piped() {
            if ready!(self.poll_drain(piped, context))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            carried();
        }
        Poll::Ready(Ok(()))
    }

    /// `None`: there is no pipe, or no way to have bytes in one.
    fn poll_pipe(
        &self,
        pipes: &PipePool,
        most: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Piped>>> {
        let Self::Plain(stream) = self else { return Poll::Ready(Ok(None)) };
        loop {
            ready!(stream.poll_read_ready(context))?;
            match stream.try_io(Interest::READABLE, || pipes.fill(stream.as_fd(), most).transpose()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                filled => return Poll::Ready(filled),
            }
        }
    }

    fn poll_drain(&self, piped: &mut Piped, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Self::Plain(stream) = self else { return Poll::Ready(Err(io::ErrorKind::Unsupported.into())) };
        loop {
            ready!(stream.poll_write_ready(context))?;
            match stream.try_io(Interest::WRITABLE, || piped.drain(stream.as_fd())) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                drained => return Poll::Ready(drained),
            }
        }
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::h1::{Length, LineEnds, Piece};

    async fn connection() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap());
        let (near, far) = tokio::join!(listener.accept(), far);
        (Wire::new(Stream::Plain(near.unwrap().0)), far.unwrap())
    }

    /// How a body went.
    #[derive(Default)]
    struct Carried {
        all: Vec<u8>,
        /// How many of them in pipes.
        piped: usize,
        /// What was behind it.
        left: Vec<u8>,
        error: Option<io::ErrorKind>,
    }

    /// Carries it from one connection to another.
    async fn carried(length: Length, text: &[u8]) -> Carried {
        let ((mut from, mut client), (mut to, mut backend)) = (connection().await, connection().await);
        let sending = async move { client.write_all(text).await.unwrap() };
        let carrying = async move {
            let (mut body, pipes) = (Decoder::new(length, LineEnds::Strict), PipePool::default());
            let (mut carried, mut out) = (Carried::default(), Outbox::default());
            while !body.is_done() {
                let next = poll_fn(|context| match from.poll_piped(&mut body, &pipes, context) {
                    Some(polled) => polled.map(Some),
                    None => Poll::Ready(None),
                });
                match next.await {
                    Some(None) => {}
                    Some(Some(Ok(piped))) => {
                        carried.piped += piped.len();
                        out.push_piped(piped);
                    }
                    Some(Some(Err(error))) => {
                        carried.error = Some(error.kind());
                        return carried;
                    }
                    None => match body.take(&mut from.rest).unwrap() {
                        Piece::Data(data) => out.push(data, b""),
                        _ if poll_fn(|context| from.poll_fill(context)).await.unwrap() > 0 => {}
                        _ if body.ends() => {}
                        _ => {
                            carried.error = Some(io::ErrorKind::UnexpectedEof);
                            return carried;
                        }
                    },
                }
                poll_fn(|context| to.stream.poll_send(&mut out, context, || ())).await.unwrap();
            }
            from.read_to_end(&mut carried.left).await.unwrap();
            carried
        };
        let mut all = Vec::new();
        let ((), carried, read) = tokio::join!(sending, carrying, backend.read_to_end(&mut all));
        read.unwrap();
        Carried { all, ..carried }
    }

    fn text(size: usize) -> Vec<u8> {
        (0..size).map(|number| (number % 251) as u8).collect()
    }

    #[tokio::test]
    async fn a_body_in_pipes_ends_where_it_ends() {
        let text = text(3 << 20);
        for size in [1 << 20, (1 << 20) + 1, 2_000_003] {
            let carried = carried(Length::Exact(size as u64), &text).await;
            assert!(carried.piped > 0 && carried.all == text[..size] && carried.left == text[size..]);
        }
        let carried = carried(Length::ToTheEnd, &text).await;
        assert!(carried.piped > 0 && carried.all == text && carried.left.is_empty());
    }

    #[tokio::test]
    async fn what_is_not_worth_a_pipe() {
        let text = text(100_000);
        for size in [1, 8192, 65_535] {
            let carried = carried(Length::Exact(size as u64), &text).await;
            assert!(carried.piped == 0 && carried.all == text[..size] && carried.left == text[size..]);
        }
    }

    #[tokio::test]
    async fn a_body_in_pipes_that_is_not_whole() {
        let text = text(3 << 20);
        let carried = carried(Length::Exact(4 << 20), &text).await;
        assert_eq!(carried.error, Some(io::ErrorKind::UnexpectedEof));
        assert!(carried.piped > 0 && carried.all == text);
    }
}
