//! A client's stream that notes when bytes go over it, and what goes to a client of HTTP/1.1 besides what hyper writes:
//! answers before the answer, and words where the parser answers by itself. It may be given away with the connection
//! when that is upgraded, which is why it shares no more than it must.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use super::words::{early, in_words};

/// When bytes went over a connection, in milliseconds since it began, and what else its stream must know of it.
#[derive(Debug)]
pub(crate) struct Activity {
    born: Instant,
    last: AtomicU64,
    /// The next byte begins the head of a request.
    awaiting: AtomicBool,
    head: AtomicU64,
    /// A request is under way.
    busy: AtomicBool,
    /// Nothing of an answer is left in hyper, and no request came since: what it writes now is the parser's.
    quiet: AtomicBool,
    /// hyper has nothing that it tried to write and could not.
    flushed: AtomicBool,
    /// The status of the parser's answer; 0 for none.
    refused: AtomicU16,
    has_early: AtomicBool,
    early: Mutex<Vec<u8>>,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            born: Instant::now(),
            last: AtomicU64::new(0),
            awaiting: AtomicBool::new(false),
            head: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            quiet: AtomicBool::new(true),
            flushed: AtomicBool::new(true),
            refused: AtomicU16::new(0),
            has_early: AtomicBool::new(false),
            early: Mutex::default(),
        })
    }

    pub(super) fn request_began(&self) {
        self.busy.store(true, Relaxed);
        self.quiet.store(false, Relaxed);
    }

    /// No request is under way: from here on the next byte is the first of one.
    pub(super) fn requests_ended(&self) {
        self.busy.store(false, Relaxed);
        self.awaiting.store(true, Relaxed);
    }

    /// Has an answer sent that comes before the answer to the request that is under way. Where something else is still
    /// on its way to a slow client there is no place for it, and it is left out.
    pub(crate) fn answer_early(&self, status: StatusCode, headers: &HeaderMap) {
        if self.flushed.load(Relaxed) {
            let mut all = self.early.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend_from_slice(&early(status, headers));
            self.has_early.store(true, Relaxed);
        }
    }

    fn take_early(&self) -> Option<Vec<u8>> {
        let is_there = self.has_early.load(Relaxed) && self.has_early.swap(false, Relaxed);
        is_there.then(|| std::mem::take(&mut *self.early.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// What the parser answered by itself, if it did.
    pub(super) fn refused(&self) -> Option<u16> {
        Some(self.refused.load(Relaxed)).filter(|status| *status != 0)
    }

    /// Whether no byte of a request has come since [`requests_ended`](Self::requests_ended).
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

    /// All that hyper had to write is gone.
    fn has_flushed(&self) {
        self.flushed.store(true, Relaxed);
        if !self.busy.load(Relaxed) {
            self.quiet.store(true, Relaxed);
        }
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
    /// Goes out before anything else of hyper's.
    aside: Bytes,
    /// Whether the parser's answers name their reason.
    reasons: bool,
}

impl<S> Watched<S> {
    pub(super) fn http1(stream: S, activity: Arc<Activity>, reasons: bool) -> Self {
        Self { stream, activity, framing: Some(Framing::default()), aside: Bytes::new(), reasons }
    }

    pub(super) fn http2(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity, framing: None, aside: Bytes::new(), reasons: false }
    }

    /// Takes an answer of the parser's for ours, which has words.
    fn refuse(&mut self, slices: &[io::IoSlice<'_>]) -> Option<usize> {
        if self.framing.is_none() || !self.activity.quiet.load(Relaxed) {
            return None;
        }
        let refusal: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let (status, words) = in_words(&refusal, self.reasons)?;
        self.activity.refused.store(status.as_u16(), Relaxed);
        self.aside = words;
        Some(refusal.len())
    }
}

impl<S: AsyncWrite + Unpin> Watched<S> {
    fn poll_aside(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.aside.is_empty() {
                let Some(early) = self.activity.take_early() else { return Poll::Ready(Ok(())) };
                self.aside = early.into();
            }
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.aside))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.activity.carried(false);
            self.aside.advance(written);
        }
    }

    fn poll_out(
        &mut self,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_aside(context))?;
        if let Some(taken) = self.refuse(slices) {
            return Poll::Ready(Ok(taken));
        }
        self.activity.flushed.store(false, Relaxed);
        let result = ready!(write(Pin::new(&mut self.stream), context));
        self.activity.carried(false);
        Poll::Ready(result)
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
        self.poll_out(context, &[io::IoSlice::new(bytes)], |stream, context| {
            stream.poll_write(context, bytes)
        })
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_out(context, slices, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_aside(context))?;
        let result = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.activity.has_flushed();
        Poll::Ready(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_aside(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use http::header;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const REFUSAL: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";

    fn watched(room: usize) -> (Watched<DuplexStream>, Arc<Activity>, DuplexStream) {
        let (near, far) = tokio::io::duplex(room);
        let activity = Activity::new();
        (Watched::http1(near, Arc::clone(&activity), true), activity, far)
    }

    fn hint(activity: &Activity) {
        activity.answer_early(StatusCode::EARLY_HINTS, &HeaderMap::new());
    }

    /// All that comes out, with what `write` puts in.
    async fn out(
        mut watched: Watched<DuplexStream>,
        mut far: DuplexStream,
        write: impl AsyncFnOnce(&mut Watched<DuplexStream>),
    ) -> String {
        let mut text = String::new();
        let reading = far.read_to_string(&mut text);
        let writing = async {
            write(&mut watched).await;
            watched.shutdown().await.unwrap();
        };
        tokio::join!(reading, writing).0.unwrap();
        text
    }

    #[tokio::test]
    async fn what_comes_early_goes_out_at_once_or_before_the_answer() {
        let (watched, activity, far) = watched(16);
        activity.request_began();
        let text = out(watched, far, async |watched| {
            hint(&activity);
            watched.flush().await.unwrap();
            hint(&activity);
            watched.write_all(b"answer").await.unwrap();
        });
        assert_eq!(text.await, format!("{0}{0}answer", "HTTP/1.1 103 Early Hints\r\n\r\n"));
    }

    #[tokio::test]
    async fn nothing_comes_between_what_is_on_its_way() {
        let (mut watched, activity, far) = watched(4);
        activity.request_began();
        assert_eq!(watched.write(b"answer").await.unwrap(), 4);
        hint(&activity);
        let text = out(watched, far, async |watched| {
            watched.write_all(b"er").await.unwrap();
            hint(&activity);
            watched.flush().await.unwrap();
        });
        assert_eq!(text.await, "answer");
    }

    #[tokio::test]
    async fn the_parser_answers_when_no_request_is_under_way() {
        let (watched, activity, far) = watched(1024);
        let text = out(watched, far, async |watched| {
            activity.request_began();
            watched.write_all(REFUSAL).await.unwrap();
            activity.requests_ended();
            // Nothing says that this is not more of the answer.
            watched.write_all(REFUSAL).await.unwrap();
            watched.flush().await.unwrap();
            watched.write_all(REFUSAL).await.unwrap();
        });
        let text = text.await;
        let (bare, worded) = text.split_at(REFUSAL.len() * 2);
        assert_eq!(bare.as_bytes(), REFUSAL.repeat(2));
        assert!(
            worded.contains(header::CONTENT_TYPE.as_str()) && worded.contains("cannot be read"),
            "{worded}"
        );
        assert_eq!(activity.refused(), Some(400));
    }
}
