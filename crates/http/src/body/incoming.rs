//! A body as it comes in, over either version of HTTP.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Method, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use tidegate_proxy::{PipePool, Piped};
use tokio::time::timeout;

use super::Polled;
use crate::client::{Http1, Http2Reply};
use crate::h1::BadBody;
use crate::upstream::Checkout;
use crate::wire::Wire;

/// How long a request waits for the first of a body that it does not need.
const LOOK: Duration = Duration::from_millis(100);

/// How long the end of a stream is waited for whose last byte was there.
const LINGER: Duration = Duration::from_secs(5);

pub(crate) enum Incoming {
    Empty,
    /// Of a client over HTTP/1.1.
    Client(Rc<Http1>),
    /// Of a backend over HTTP/1.1.
    Backend(Checkout),
    Http2(Box<Stream>),
}

/// Why there is no more of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IncomingError {
    /// What a backend is answering broke off, and nobody waits for the answer any more.
    #[error("the request broke off")]
    Request,
    #[error(transparent)]
    Http1(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] BadBody),
    #[error(transparent)]
    Http2(#[from] h2::Error),
}

/// A stream of HTTP/2.
pub(crate) struct Stream {
    frames: RecvStream,
    /// What was looked at before anybody took it.
    first: Option<Frame<Bytes>>,
    /// What is to come, if that was said.
    left: Option<u64>,
    has_data: bool,
    /// Who is to be told that its body is wanted.
    expects: Option<Rc<Http2Reply>>,
}

impl Incoming {
    /// The body of a message with these headers.
    pub(crate) fn http2(frames: RecvStream, headers: &HeaderMap) -> Self {
        let left = length(headers);
        Self::Http2(Box::new(Stream { frames, first: None, left, has_data: true, expects: None }))
    }

    /// The client waits to be told that this is wanted.
    pub(crate) fn waits_for(&mut self, reply: &Rc<Http2Reply>) {
        if let Self::Http2(stream) = self
            && !stream.frames.is_end_stream()
        {
            stream.expects = Some(Rc::clone(reply));
        }
    }

    /// Whether all was taken that was announced, though its end may come by itself.
    pub(crate) fn is_all(&self) -> bool {
        match self {
            Self::Http2(stream) => stream.first.is_none() && stream.left == Some(0),
            Self::Empty | Self::Client(_) | Self::Backend(_) => self.is_end_stream(),
        }
    }

    /// Nobody wants more of it. A stream whose end is still to come is not broken off for that.
    pub(crate) fn let_end(self, context: &mut Context<'_>) {
        let Self::Http2(mut stream) = self else { return };
        if stream.poll_end(context).is_pending() {
            tokio::task::spawn_local(timeout(LINGER, async move {
                poll_fn(|context| stream.poll_end(context)).await;
            }));
        }
    }

    /// Whether there is most likely no body, and its end is still to come.
    pub(crate) fn should_be_empty(&self, method: &Method) -> bool {
        let Self::Http2(stream) = self else { return false };
        let should = match stream.left {
            Some(left) => left == 0,
            None => matches!(*method, Method::GET | Method::HEAD),
        };
        should && !stream.frames.is_end_stream()
    }

    /// Waits a moment for the end of a body that should be empty. Many clients of HTTP/2 say it in a frame of its
    /// own; a backend over HTTP/1.1 would be told of a body, and one that reads none closes the connection on it, with
    /// its answer. And a request whose length is nothing would be whole to a backend before its body shows it wrong.
    pub(crate) async fn look(&mut self) -> Result<(), IncomingError> {
        let Self::Http2(stream) = self else { return Ok(()) };
        let first = async {
            loop {
                match poll_fn(|context| stream.poll(context)).await {
                    Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
                    first => return first,
                }
            }
        };
        match timeout(LOOK, first).await {
            Ok(Some(first)) => stream.first = Some(first?),
            Ok(None) => *self = Self::Empty,
            Err(_) => {}
        }
        Ok(())
    }

    /// The stream of a tunnel.
    pub(crate) fn into_stream(self) -> Option<RecvStream> {
        match self {
            Self::Http2(stream) => Some(stream.frames),
            Self::Empty | Self::Client(_) | Self::Backend(_) => None,
        }
    }

    /// The connection of a backend's answer, which is all a tunnel now.
    pub(crate) fn into_wire(self) -> Option<Wire> {
        match self {
            Self::Backend(line) => line.into_wire(),
            Self::Empty | Self::Client(_) | Self::Http2(_) => None,
        }
    }

    /// What comes next in a pipe. Outer `None`: it comes as a frame.
    pub(super) fn poll_piped(
        &mut self,
        pipes: &PipePool,
        context: &mut Context<'_>,
    ) -> Option<Polled<Piped, IncomingError>> {
        match self {
            Self::Client(connection) => connection.poll_piped(pipes, context),
            Self::Backend(line) => line.poll_piped(pipes, context),
            Self::Empty | Self::Http2(_) => None,
        }
    }

    /// Carries on what a backend is still to be sent, while nobody asks for more of its answer.
    pub(crate) fn go_on(&mut self, context: &mut Context<'_>) -> Result<(), IncomingError> {
        match self {
            Self::Backend(line) => line.go_on(context),
            Self::Empty | Self::Client(_) | Self::Http2(_) => Ok(()),
        }
    }

    /// It was read to its end: the connection may have another request.
    pub(crate) fn release(&mut self) {
        if let Self::Backend(line) = std::mem::replace(self, Self::Empty) {
            line.release();
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
            return Poll::Ready(Some(Ok(first)));
        }
        if self.has_data {
            let polled = self.frames.poll_data(context);
            if polled.is_pending()
                && let Some(reply) = self.expects.take()
            {
                reply.answer_early(StatusCode::CONTINUE, HeaderMap::new());
            }
            match ready!(polled) {
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

    /// Reads on to the end, or what stands for it.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(Ok(_)) = ready!(self.poll(context)) {}
        Poll::Ready(())
    }
}

/// A stream that was reset without an error was answered before its end (RFC 9113 8.1), and ends.
fn failed<T>(error: h2::Error) -> Option<Result<T, h2::Error>> {
    (error.reason() != Some(Reason::NO_ERROR)).then_some(Err(error))
}

fn hint(left: Option<u64>) -> SizeHint {
    left.map_or_else(SizeHint::default, SizeHint::with_exact)
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming({:?})", self.size_hint())
    }
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
            Self::Client(connection) => connection.poll_frame(context),
            Self::Backend(line) => line.poll_frame(context),
            Self::Http2(stream) => {
                stream.poll(context).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Client(connection) => connection.left() == Some(0),
            Self::Backend(line) => line.left() == Some(0),
            Self::Http2(stream) => stream.first.is_none() && stream.frames.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Client(connection) => hint(connection.left()),
            Self::Backend(line) => hint(line.left()),
            Self::Http2(stream) => hint(stream.left),
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

    /// What the client sends behind its headers, and what is found by then.
    async fn looked_at(
        lengths: &[(&'static str, &'static str)],
        data: &'static [u8],
    ) -> Result<Incoming, IncomingError> {
        let (near, far) = tokio::io::duplex(4096);
        let (mut client, connection) = h2::client::handshake(near).await.unwrap();
        tokio::spawn(connection);
        let mut server = h2::server::handshake(far).await.unwrap();
        let mut request = http::Request::get("http://a.test/").body(()).unwrap();
        *request.headers_mut() = headers(lengths);
        let (_answer, mut body) = client.send_request(request, false).unwrap();

        let (request, _respond) = server.accept().await.unwrap().unwrap();
        tokio::spawn(async move { while server.accept().await.is_some() {} });
        let (parts, frames) = request.into_parts();
        let mut incoming = Incoming::http2(frames, &parts.headers);
        assert!(incoming.should_be_empty(&parts.method));
        let looking = async {
            incoming.look().await?;
            Ok(incoming)
        };
        // The headers were looked at before anything else was there.
        let send = async { body.send_data(Bytes::from_static(data), true) };
        let (looked, sent) = tokio::join!(looking, send);
        sent.unwrap();
        looked
    }

    #[tokio::test]
    async fn bodies_that_should_be_empty() {
        let none = &[("content-length", "0")][..];
        for lengths in [none, &[]] {
            assert!(matches!(looked_at(lengths, b"").await, Ok(Incoming::Empty)));
        }
        assert!(matches!(looked_at(none, b"hello").await, Err(IncomingError::Http2(_))));
        let mut said_nothing = looked_at(&[], b"hello").await.unwrap();
        let first = poll_fn(|context| Pin::new(&mut said_nothing).poll_frame(context)).await;
        assert_eq!(first.unwrap().unwrap().into_data().unwrap(), "hello");
    }
}
