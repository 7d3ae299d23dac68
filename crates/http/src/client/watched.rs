//! A client's stream that notes when bytes go over it. It may be given away with the connection when that is
//! upgraded, which is why it shares no more than a few numbers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;

/// When bytes went over a connection, in milliseconds since it began.
#[derive(Debug)]
pub(crate) struct Activity {
    born: Instant,
    last: AtomicU64,
    /// The next byte begins the head of a request.
    awaiting: AtomicBool,
    head: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self { born: Instant::now(), last: zero(), awaiting: AtomicBool::new(false), head: zero() })
    }

    /// From here on the next byte is the first of a request.
    pub(super) fn await_head(&self) {
        self.awaiting.store(true, Relaxed);
    }

    /// Whether no byte of a request has come since [`await_head`](Self::await_head).
    pub(super) fn is_awaiting(&self) -> bool {
        self.awaiting.load(Relaxed)
    }

    /// When the first byte of the request that is being read came.
    pub(super) fn head(&self) -> Instant {
        self.born + Duration::from_millis(self.head.load(Relaxed))
    }

    /// When the last byte went in either direction.
    pub(super) fn last(&self) -> Instant {
        self.born + Duration::from_millis(self.last.load(Relaxed))
    }

    /// Says whether these bytes begin a head.
    fn carried(&self, incoming: bool) -> bool {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Relaxed);
        let begins = incoming && self.awaiting.load(Relaxed);
        if begins {
            self.awaiting.store(false, Relaxed);
            self.head.store(now, Relaxed);
        }
        begins
    }
}

pub(super) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    /// Of HTTP/1.1.
    framing: Option<Framing>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>, is_http1: bool) -> Self {
        Self { stream, activity, framing: is_http1.then(Framing::default) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if buffer.filled().len() > before {
            let Self { activity, framing, .. } = &mut *self;
            let begins = activity.carried(true);
            if let Some(framing) = framing {
                if begins {
                    framing.go_on();
                }
                framing.read(&mut buffer.filled_mut()[before..]);
            }
        }
        Poll::Ready(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.activity.carried(false);
        Poll::Ready(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        self.activity.carried(false);
        Poll::Ready(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
