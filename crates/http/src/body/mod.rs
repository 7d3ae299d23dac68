//! Bodies on their way: up to backends and down to clients, frame by frame, counted and timed, never gathered.

mod download;
mod incoming;
mod pipe;
mod source;
mod upload;

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tidegate_proxy::{PipePool, Piped};

pub(crate) use self::download::Download;
pub(crate) use self::incoming::{Incoming, IncomingError};
pub(crate) use self::pipe::pipe;
pub(crate) use self::source::Source;
pub(crate) use self::upload::Upload;

/// Why a body ends before its end. The other side must not take what it got for the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the client did not send all of its body")]
    Client,
    #[error("the client sent nothing of its body for too long")]
    ClientTimeout,
    #[error("the backend did not send all of its body")]
    Backend,
    #[error("the time of the request was over")]
    Timeout,
}

/// What a client gets.
#[derive(Debug)]
pub(crate) enum Body {
    Empty,
    /// An answer of our own.
    Bytes(Bytes),
    /// A backend's.
    Download(Box<Download>),
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::Empty } else { Self::Bytes(bytes) }
    }
}

/// What there is of a body at a time.
pub(crate) enum Portion {
    Frame(Frame<Bytes>),
    Piped(Piped),
}

pub(crate) type Polled<T, E> = Poll<Option<Result<T, E>>>;

/// What a body does for the other side beside giving it frames.
pub(crate) trait Outbound: http_body::Body<Data = Bytes, Error = BodyError> {
    /// What comes next in a pipe, where nobody needs to see it. Outer `None`: it comes as a frame.
    fn poll_piped(&mut self, _: &PipePool, _: &mut Context<'_>) -> Option<Polled<Piped, BodyError>> {
        None
    }

    /// What comes next, in a pipe where that can be and the other side takes it so.
    fn poll_portion(
        &mut self,
        pipes: Option<&PipePool>,
        context: &mut Context<'_>,
    ) -> Polled<Portion, BodyError>
    where
        Self: Unpin,
    {
        match pipes.and_then(|pipes| self.poll_piped(pipes, context)) {
            Some(polled) => polled.map_ok(Portion::Piped),
            None => Pin::new(self).poll_frame(context).map_ok(Portion::Frame),
        }
    }

    /// Carries on what else depends on it. `Err` when it is not worth waiting any more.
    fn go_on(&mut self, _: &mut Context<'_>) -> Result<(), BodyError> {
        Ok(())
    }

    /// It has waited for too long.
    fn stalls(&self) {}
}

impl Outbound for Upload {
    fn poll_piped(
        &mut self,
        pipes: &PipePool,
        context: &mut Context<'_>,
    ) -> Option<Polled<Piped, BodyError>> {
        match self {
            Self::Client { source, at } => source.poll_piped(at, pipes, context),
            Self::Empty | Self::Bytes(_) | Self::Copy { .. } => None,
        }
    }
}

impl Outbound for Body {
    fn poll_piped(
        &mut self,
        pipes: &PipePool,
        context: &mut Context<'_>,
    ) -> Option<Polled<Piped, BodyError>> {
        match self {
            Self::Download(download) => download.poll_piped(pipes, context),
            Self::Empty | Self::Bytes(_) => None,
        }
    }

    fn go_on(&mut self, context: &mut Context<'_>) -> Result<(), BodyError> {
        match self {
            Self::Download(download) => download.go_on(context),
            Self::Empty | Self::Bytes(_) => Ok(()),
        }
    }

    fn stalls(&self) {
        if let Self::Download(download) = self {
            download.stalls();
        }
    }
}

impl Body {
    /// The client has all that it was told of, or wants no more.
    pub(crate) fn suffices(&mut self, context: &mut Context<'_>) {
        if let Self::Download(download) = self {
            download.suffices(context);
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Self::Download(download) => download.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Bytes(_) => false,
            Self::Download(download) => download.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Download(download) => download.size_hint(),
        }
    }
}
