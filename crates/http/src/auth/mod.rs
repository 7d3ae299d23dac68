//! External auth: a server is asked whether a request may pass, over HTTP or gRPC. Here is what it is sent and what its
//! answer means; an answer that cannot be understood lets nothing pass.

mod changes;
mod grpc;
mod http;
mod messages;

use std::net::SocketAddr;

use ::http::Response;
use ::http::header::HeaderMap;
use ::http::request::Parts;
use bytes::Bytes;
use tidegate_plan::ExternalAuth;

pub use self::changes::{Changes, HeaderAction};
pub use self::grpc::{CHECK_PATH, grpc_request, grpc_verdict};
pub use self::http::{http_request, http_verdict};

/// What the server said.
#[derive(Debug)]
pub enum Decision {
    /// The request goes on, with these changes.
    Allow(Changes),
    /// The client gets this.
    Deny(Response<Bytes>),
    /// There was no answer that means anything: the request does not go on.
    Failed(AuthFailure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFailure {
    #[error("the auth server answered {0}")]
    Status(u16),
    #[error("the auth server failed with gRPC status {0}")]
    Grpc(u16),
    #[error("the auth server's answer is not the message that was expected")]
    Message,
    #[error("the auth server asks for a header that cannot be")]
    Header,
}

/// What is known of a request beside itself.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    pub client: SocketAddr,
    pub local: SocketAddr,
    pub https: bool,
    /// The server name of the connection.
    pub sni: Option<&'a str>,
    /// When the request came, in seconds and nanoseconds since the epoch.
    pub time: (i64, i32),
}

/// Whether a body of this length may be shown to the server, all of it. A longer one is refused with 413: what the
/// server has not seen it has not allowed. Where nothing is shown any length will do.
#[must_use]
pub fn body_fits(auth: &ExternalAuth, length: u64) -> bool {
    auth.body_limit == 0 || length <= u64::from(auth.body_limit)
}

/// The response's headers without those that describe how it was sent.
fn without_framing(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    crate::hop::strip_response(&mut kept);
    kept.remove(::http::header::CONTENT_LENGTH);
    kept
}

/// Host, path and query of the settled request.
fn host_of(parts: &Parts) -> &str {
    crate::request::host_text(&parts.headers).unwrap_or_default()
}

#[cfg(test)]
mod tests;
