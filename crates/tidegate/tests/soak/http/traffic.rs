//! One client's conversation: requests whose bodies come back or are known, over either version of HTTP.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Sleep, sleep, timeout};

use crate::support::PATIENCE;

/// A body in pieces with a pause between them, so that changes come in the middle of it.
pub(super) struct Pieces {
    left: VecDeque<Bytes>,
    pause: Duration,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Pieces {
    pub(super) fn new(bytes: &[u8], count: usize, pause: Duration) -> Self {
        let size = bytes.len().div_ceil(count).max(1);
        Self { left: bytes.chunks(size).map(Bytes::copy_from_slice).collect(), pause, wait: None }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
        }
        let piece = self.left.pop_front();
        self.wait = (!self.left.is_empty()).then(|| Box::pin(sleep(self.pause)));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }
}

pub(super) enum Sender {
    Http1(http1::SendRequest<Pieces>),
    Http2(http2::SendRequest<Pieces>),
}

impl Sender {
    pub(super) async fn new<S>(stream: S, is_http2: bool) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (io, said) = (TokioIo::new(stream), |error: hyper::Error| error.to_string());
        if is_http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.map_err(said)?;
            tokio::spawn(connection);
            Ok(Self::Http2(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(said)?;
            tokio::spawn(connection);
            Ok(Self::Http1(sender))
        }
    }

    /// Whether another request can be sent; where not, the server has ended the connection between two.
    pub(super) async fn is_ready(&mut self) -> bool {
        match self {
            Self::Http1(sender) => sender.ready().await.is_ok(),
            Self::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    /// The answer's body, which must come with a 200.
    pub(super) async fn ask(&mut self, request: Request<Pieces>) -> Result<Bytes, String> {
        let answer = async {
            let response = match self {
                Self::Http1(sender) => sender.send_request(request).await,
                Self::Http2(sender) => sender.send_request(request).await,
            };
            let response: Response<Incoming> = response.map_err(|error| format!("no answer: {error:?}"))?;
            let status = response.status();
            let backend = response.headers().get("x-backend").cloned();
            let body = response.into_body().collect().await;
            let body =
                body.map_err(|error| format!("{status} of {backend:?}, and then {error:?}"))?.to_bytes();
            if status == 200 { Ok(body) } else { Err(format!("{status}: {body:?}")) }
        };
        timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }
}
