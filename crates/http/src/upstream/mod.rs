//! Connections to backends: made when there is none, kept while they may be used again, and ended when the plan
//! would no longer make them as they were made.

mod connect;
mod h1;
mod h2;
mod pools;

use std::net::SocketAddr;
use std::sync::Arc;

use ::h2::SendStream;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use tidegate_plan::{ObjectName, Protocol};
use tidegate_proxy::{Backend, Ending, Lease, TlsTo};

pub(crate) use self::connect::{reach, reach_any};
pub(crate) use self::h1::Checkout;
pub(crate) use self::pools::Pools;
use crate::body::{Incoming, Upload};
use crate::request::Outgoing;

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
    Http1(Checkout),
    Http2(h2::Stream),
}

/// What must be held while an answer is read.
pub(crate) struct Hold(h2::Stream);

/// An answer, and what must be held while it is read.
pub(crate) type Answered = (Response<Incoming>, Option<Hold>);

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) ending: Ending,
    pub(crate) detail: Box<str>,
    /// Nothing of the request was sent.
    pub(crate) is_whole: bool,
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

    /// Sends a request to the endpoint and waits for its answer. `early` is told what comes before that.
    pub(crate) async fn send(
        self,
        request: Outgoing<'_>,
        to: &Destination,
        endpoint: SocketAddr,
        upload: Upload,
        early: impl FnMut(StatusCode, HeaderMap),
    ) -> Result<Answered, Unsent> {
        let was_used = self.was_used();
        match self {
            Self::Http1(mut line) => match line.send(request, endpoint, upload, early).await {
                Ok(parts) if parts.status == StatusCode::SWITCHING_PROTOCOLS && !asks_upgrade(request) => {
                    let (ending, detail) =
                        (Ending::BackendInvalid, "an upgrade that nobody asked for".into());
                    Err(Unsent { ending, detail, is_whole: false, was_used, rejected: false })
                }
                Ok(parts) => Ok((Response::from_parts(parts, Incoming::Backend(line)), None)),
                Err(error) => {
                    let ending =
                        if error.is_invalid() { Ending::BackendInvalid } else { Ending::BackendReset };
                    let (detail, is_whole) = (error.to_string().into(), !line.has_begun());
                    Err(Unsent { ending, detail, is_whole, was_used, rejected: false })
                }
            },
            Self::Http2(mut line) => match Box::pin(line.send(request, to, endpoint, upload, early)).await {
                Ok(response) => Ok((response, Some(Hold(line)))),
                Err(h2::Unanswered { error, is_whole }) => {
                    let (detail, rejected) = (cause(&error).into(), is_rejection(&error));
                    Err(Unsent { ending: Ending::BackendReset, detail, is_whole, was_used, rejected })
                }
            },
        }
    }
}

/// Whether another protocol may be the answer. What comes behind it would be the client's to read, past all rules.
fn asks_upgrade(request: Outgoing<'_>) -> bool {
    request.head.headers.contains_key(header::UPGRADE)
}

impl Hold {
    /// The way out of a tunnel that is a stream among others.
    pub(crate) fn take_out(&mut self) -> Option<SendStream<Bytes>> {
        self.0.take_out()
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
