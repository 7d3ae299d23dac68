//! A body as it comes in, over either version of HTTP.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};
use tokio::time::timeout;

/// How long a request waits for the first of a body that it does not need.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) enum Incoming {
    Empty,
    Http1(hyper::body::Incoming),
    Http2(Stream),
}

/// Why there is no more of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IncomingError {
    #[error(transparent)]
    Http1(#[from] hyper::Error),
    #[error(transparent)]
    Http2(#[from] h2::Error),
}

/// A stream of HTTP/2.
#[derive(Debug)]
pub(crate) struct Stream {
    frames: RecvStream,
    /// What was looked at before anybody took it.
    first: Option<Result<Frame<Bytes>, h2::Error>>,
    /// What is to come, if that was said.
    left: Option<u64>,
    has_data: bool,
}

impl Incoming {
    /// The body of a message with these headers.
    pub(crate) fn http2(frames: RecvStream, headers: &HeaderMap) -> Self {
        Self::Http2(Stream { frames, first: None, left: length(headers), has_data: true })
    }

    /// Waits a moment for the end of a body that is most likely empty. Many clients of HTTP/2 say it in a frame of its
    /// own; a backend over HTTP/1.1 would be told of a body, and one that reads none closes the connection on it, with
    /// its answer.
    pub(crate) async fn look(&mut self) {
        let Self::Http2(stream) = self else { return };
        if stream.left.is_some() || stream.frames.is_end_stream() {
            return;
        }
        let first = async {
            loop {
                match poll_fn(|context| stream.poll(context)).await {
                    Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
                    first => return first,
                }
            }
        };
        match timeout(LOOK, first).await {
            Ok(None) => *self = Self::Empty,
            Ok(first) => stream.first = first,
            Err(_) => {}
        }
    }

    /// The stream of a tunnel.
    pub(crate) fn into_stream(self) -> Option<RecvStream> {
        match self {
            Self::Http2(stream) => Some(stream.frames),
            Self::Empty | Self::Http1(_) => None,
        }
    }
}

/// What a message says of its length, if it says it in one way.
fn length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths =
        headers.get_all(header::CONTENT_LENGTH).iter().map(|line| line.to_str().ok()?.parse().ok());
    let first: u64 = lengths.next()??;
    lengths.all(|other| other == Some(first)).then_some(first)
}

impl Stream {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.has_data {
            match ready!(self.frames.poll_data(context)) {
                Some(Ok(data)) => {
                    // There is nothing to be done about a stream that is gone by now: what comes next says so.
                    let _ = self.frames.flow_control().release_capacity(data.len());
                    self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(failed(error)),
                None => self.has_data = false,
            }
        }
        match ready!(self.frames.poll_trailers(context)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) => Poll::Ready(failed(error)),
        }
    }
}

/// A stream that was reset without an error was answered before its end (RFC 9113 8.1), and ends.
fn failed<T>(error: h2::Error) -> Option<Result<T, h2::Error>> {
    (error.reason() != Some(Reason::NO_ERROR)).then_some(Err(error))
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = IncomingError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncomingError>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Http1(incoming) => Pin::new(incoming)
                .poll_frame(context)
                .map(|frame| frame.map(|frame| frame.map_err(Into::into))),
            Self::Http2(stream) => {
                stream.poll(context).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Http1(incoming) => incoming.is_end_stream(),
            Self::Http2(stream) => stream.first.is_none() && stream.frames.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Http1(incoming) => incoming.size_hint(),
            Self::Http2(stream) => stream.left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::headers;

    #[test]
    fn lengths_that_agree() {
        let line = |value| ("content-length", value);
        for (lines, expected) in [
            (&[][..], None),
            (&[line("5")], Some(5)),
            (&[line("5"), line("5")], Some(5)),
            (&[line("5"), line("6")], None),
            (&[line("5"), line("x")], None),
            (&[line("-5")], None),
        ] {
            assert_eq!(length(&headers(lines)), expected, "{lines:?}");
        }
    }
}
