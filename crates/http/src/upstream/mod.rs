//! Connections to backends: made when there is none, kept while they may be used again, and ended when the plan
//! would no longer make them as they were made.

mod connect;
mod h1;
mod h2;
mod heard;
mod pools;
mod stream;

use std::sync::Arc;

use ::h2::SendStream;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use tidegate_plan::{ObjectName, Protocol};
use tidegate_proxy::{Backend, Ending, Lease, TlsTo};

pub(crate) use self::connect::{reach, reach_any};
pub(crate) use self::pools::Pools;
use crate::body::{Incoming, Upload};

/// Where a request is to go, apart from which endpoint it is.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) backend: Arc<Backend>,
    pub(crate) tls: Option<TlsTo>,
    /// On whose behalf: it may have a client certificate.
    pub(crate) gateway: ObjectName,
    pub(crate) speaks: Speaks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Speaks {
    Http1,
    Http2,
}

impl Speaks {
    /// As `appProtocol` says, and gRPC always over HTTP/2: there is no other way.
    pub(crate) fn to(backend: &Backend, is_grpc: bool) -> Self {
        if is_grpc || backend.plan.protocol == Protocol::Http2 { Self::Http2 } else { Self::Http1 }
    }
}

/// A connection that takes one request.
pub(crate) enum Line {
    Http1(h1::Checkout),
    Http2(h2::Stream),
}

/// What must be held while an answer is read: the connection is free for another request when it is at its end.
pub(crate) struct Hold(Line);

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) ending: Ending,
    pub(crate) detail: Box<str>,
    /// The request, where nothing of it was sent.
    pub(crate) request: Option<Box<Request<Upload>>>,
    /// The connection was used before: its end may have crossed the request.
    pub(crate) was_used: bool,
    /// The backend said that it has not looked at it.
    pub(crate) rejected: bool,
}

impl Line {
    /// Whether requests went over it before.
    pub(crate) fn was_used(&self) -> bool {
        match self {
            Self::Http1(line) => line.was_used,
            Self::Http2(line) => line.was_used(),
        }
    }

    /// Whether it takes tunnels beside other requests; over HTTP/1.1 a tunnel is an upgrade.
    pub(crate) async fn takes_tunnels(&self) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(line) => line.takes_tunnels().await,
        }
    }

    pub(crate) async fn send(self, request: Request<Upload>) -> Result<(Response<Incoming>, Hold), Unsent> {
        self.send_and_hear(request, None::<fn(StatusCode, HeaderMap)>).await
    }

    /// The same where somebody wants to know what the backend says before its answer.
    pub(crate) async fn send_hearing(
        self,
        request: Request<Upload>,
        early: impl Fn(StatusCode, HeaderMap),
    ) -> Result<(Response<Incoming>, Hold), Unsent> {
        self.send_and_hear(request, Some(early)).await
    }

    async fn send_and_hear(
        self,
        request: Request<Upload>,
        early: Option<impl Fn(StatusCode, HeaderMap)>,
    ) -> Result<(Response<Incoming>, Hold), Unsent> {
        let was_used = self.was_used();
        match self {
            Self::Http1(mut line) => match line.send(request, early).await {
                Ok(response) => Ok((response.map(Incoming::Http1), Hold(Self::Http1(line)))),
                Err(mut error) => {
                    let request = error.take_message().map(Box::new);
                    let error = error.into_error();
                    let is_invalid = error.is_parse() || error.is_parse_too_large();
                    let ending = if is_invalid { Ending::BackendInvalid } else { Ending::BackendReset };
                    let detail = cause(&error).into();
                    Err(Unsent { ending, detail, request, was_used, rejected: false })
                }
            },
            Self::Http2(mut line) => match line.send(request, early).await {
                Ok(response) => Ok((response, Hold(Self::Http2(line)))),
                Err(h2::Unanswered { error, request }) => {
                    let (detail, rejected) = (cause(&error).into(), is_rejection(&error));
                    Err(Unsent { ending: Ending::BackendReset, detail, request, was_used, rejected })
                }
            },
        }
    }
}

impl Hold {
    /// The way out of a tunnel that is a stream among others.
    pub(crate) fn take_out(&mut self) -> Option<SendStream<Bytes>> {
        match &mut self.0 {
            Line::Http1(_) => None,
            Line::Http2(line) => line.take_out(),
        }
    }

    /// The answer was read to its end, and the request sent to its own.
    pub(crate) fn release(self) {
        // A stream of HTTP/2 gives itself back.
        if let Line::Http1(line) = self.0 {
            line.release();
        }
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hold")
    }
}

/// Whether HTTP/2 says that the backend did nothing with the request: it refused the stream, or is going away.
fn is_rejection(error: &::h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(::h2::Reason::REFUSED_STREAM);
    // Streams that a GOAWAY has among those that were taken do not get it for an answer.
    refused || error.is_go_away() && error.is_remote()
}

/// The innermost reason of an error, without a word of the peer.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        words = inner.to_string();
        source = inner.source();
    }
    words
}

/// An endpoint with a connection to it.
pub(crate) struct Reached {
    pub(crate) lease: Lease,
    pub(crate) line: Line,
}
