//! To a backend and back: the request as that backend is to see it, and its answer as the client is.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, Uri, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use tidegate_proxy::{Ending, Lease};
use tokio::time::{Instant, sleep_until, timeout};

use super::Exchange;
use super::failure::Failure;
use crate::body::{Body, Download, Source, Upload};
use crate::hop;
use crate::rules::Prepared;
use crate::upstream::{Destination, Hold, Reached, Speaks, Unsent, reach};

/// Where a request goes, and what the rule says about how.
pub(super) struct Aim<'a> {
    pub(super) to: Destination,
    pub(super) prepared: &'a Prepared,
}

/// An answer, and what is held while it is read.
pub(super) struct Answered {
    pub(super) response: Response<Incoming>,
    pub(super) hold: Hold,
    pub(super) lease: Lease,
}

/// A connection that was kept may have ended while the request was on its way to it: so often it is tried anew.
const CROSSINGS: u32 = 3;

pub(super) async fn forward(
    exchange: &Rc<Exchange>,
    aim: Aim<'_>,
    parts: Parts,
    source: Option<Rc<Source>>,
) -> Result<Response<Body>, Failure> {
    let answered = ask(exchange, &aim, parts, source.as_ref()).await?;
    exchange.answered();
    let Answered { response, hold, lease } = answered;
    let (mut head, incoming) = response.into_parts();
    head.version = Version::HTTP_11;
    head.extensions.clear();
    hop::strip_response(&mut head.headers);
    let deadline = aim.prepared.request_time.map(|time| exchange.began + time);
    let deadline = deadline.map(|end| Box::pin(sleep_until(Instant::from_std(end))));
    let download = Download::new(incoming, hold, lease, exchange, deadline);
    Ok(Response::from_parts(head, Body::Download(Box::new(download))))
}

async fn ask(
    exchange: &Rc<Exchange>,
    aim: &Aim<'_>,
    parts: Parts,
    source: Option<&Rc<Source>>,
) -> Result<Answered, Failure> {
    let mut tried = Vec::new();
    let mut crossings = 0;
    loop {
        let upload = match source {
            None => Upload::Empty,
            Some(source) => source.upload().ok_or(Ending::BackendReset)?,
        };
        let reached = reach(&exchange.home, &aim.to, exchange.tie.client.ip(), None, &mut tried).await;
        let Reached { lease, line } = reached.map_err(Failure::from)?;
        exchange.endpoint.set(Some(lease.address));
        let request = outgoing(&parts, &aim.to, lease.address, upload);
        let sent = within(aim.prepared.backend_time, line.send(request)).await?;
        match sent {
            Ok((response, hold)) => return Ok(Answered { response, hold, lease }),
            Err(unsent) => {
                let untouched = unsent.request.is_some();
                let repeatable = untouched || parts.method.is_idempotent();
                crossings += 1;
                if !unsent.was_used || !repeatable || crossings > CROSSINGS || exchange.ending().is_some() {
                    return Err(unsent.into());
                }
            }
        }
    }
}

/// The time that the rule gives a backend.
async fn within<T>(time: Option<Duration>, future: impl Future<Output = T>) -> Result<T, Failure> {
    match time {
        None => Ok(future.await),
        Some(time) => timeout(time, future).await.map_err(|_| Ending::BackendTimeout.into()),
    }
}

/// The request in the words of the backend's protocol.
pub(super) fn outgoing(
    parts: &Parts,
    to: &Destination,
    endpoint: SocketAddr,
    upload: Upload,
) -> Request<Upload> {
    let mut request = Request::new(upload);
    *request.method_mut() = parts.method.clone();
    *request.headers_mut() = parts.headers.clone();
    match to.speaks {
        Speaks::Http1 => {
            *request.uri_mut() = parts.uri.clone();
            let headers = request.headers();
            let no_host = !headers.contains_key(header::HOST);
            let unsized_body = !headers.contains_key(header::CONTENT_LENGTH)
                && !request.body().is_end_stream()
                && request.body().size_hint().exact().is_none();
            let headers = request.headers_mut();
            if no_host && let Ok(host) = HeaderValue::try_from(endpoint.to_string()) {
                headers.insert(header::HOST, host);
            }
            if unsized_body {
                // Said here because hyper does not think of a body for some methods.
                headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
        }
        Speaks::Http2 => {
            *request.version_mut() = Version::HTTP_2;
            let host = request.headers_mut().remove(header::HOST);
            let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
            let mut uri = http::uri::Parts::default();
            uri.scheme = Some(if to.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP });
            uri.authority = authority.or_else(|| Authority::try_from(endpoint.to_string()).ok());
            let path = parts.uri.path_and_query().cloned();
            uri.path_and_query = Some(path.unwrap_or(PathAndQuery::from_static("/")));
            *request.uri_mut() = Uri::from_parts(uri).unwrap_or_else(|_| parts.uri.clone());
        }
    }
    request
}

impl From<Unsent> for Failure {
    fn from(unsent: Unsent) -> Self {
        Self::new(unsent.ending, Some(unsent.detail))
    }
}
