//! Asking another server whether a request may go on. Without a clear yes it does not.

use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, Request, Response, response};
use http_body_util::BodyExt;
use tidegate_plan::{ExternalAuth, ListenerHandle, Reason};
use tidegate_proxy::Ending;
use tokio::time::timeout;

use super::Exchange;
use super::failure::Failure;
use crate::auth::{
    AuthFailure, Changes, Circumstances, Decision, grpc_request, grpc_verdict, http_request, http_verdict,
};
use crate::body::{Source, Upload};
use crate::upstream::{Destination, Speaks, reach_any};

/// For the question and its answer together.
const TIME: Duration = Duration::from_secs(10);
/// Of an answer; a page for a login is shorter.
const MOST: usize = 256 * 1024;

/// What the server said.
pub(super) enum Permission {
    /// The request is changed already; the rest is for the answer to it.
    Granted(Changes),
    Denied(Response<Bytes>),
}

pub(super) async fn ask(
    exchange: &Rc<Exchange>,
    listener: &ListenerHandle,
    auth: &ExternalAuth,
    parts: &mut Parts,
    source: Option<&Rc<Source>>,
) -> Result<Permission, Failure> {
    let body = shown(auth, source).await?;
    let decision = timeout(TIME, put(exchange, listener, auth, parts, body)).await;
    match decision.map_err(|_| Failure::from(Ending::AuthFailed))?? {
        Decision::Allow(changes) => {
            changes.on_request(parts)?;
            Ok(Permission::Granted(changes))
        }
        Decision::Deny(response) => Ok(Permission::Denied(response)),
        Decision::Failed(failure) => Err(failure.into()),
    }
}

/// The body, where the server wants to see it. It stays to be sent to the backend.
async fn shown(auth: &ExternalAuth, source: Option<&Rc<Source>>) -> Result<Bytes, Failure> {
    let (limit, Some(source)) = (auth.body_limit as usize, source) else { return Ok(Bytes::new()) };
    if limit == 0 {
        return Ok(Bytes::new());
    }
    source.keep_at_least(limit);
    let body = source.peek(limit).await.map_err(|_| Failure::from(Ending::ClientReset))?;
    body.ok_or_else(Failure::body_too_large)
}

async fn put(
    exchange: &Exchange,
    listener: &ListenerHandle,
    auth: &ExternalAuth,
    parts: &Parts,
    body: Bytes,
) -> Result<Decision, Failure> {
    let to = destination(exchange, listener, auth)?;
    let request = if auth.grpc {
        let since = exchange.start.duration_since(UNIX_EPOCH).unwrap_or_default();
        let circumstances = Circumstances {
            client: exchange.tie.client,
            local: exchange.tie.local,
            https: exchange.tie.is_https(),
            sni: exchange.tie.server_name.as_deref(),
            time: (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos().cast_signed()),
        };
        grpc_request(auth, parts, &body, &circumstances)
    } else {
        http_request(auth, parts, body).map_err(|_| Failure::from(Reason::FilterInvalid))?
    };
    let (head, body, trailers) = call(exchange, &to, request).await?;
    Ok(if auth.grpc {
        grpc_verdict(&head.headers, &body, trailers.as_ref())
    } else {
        http_verdict(auth, &head, body)
    })
}

fn destination(
    exchange: &Exchange,
    listener: &ListenerHandle,
    auth: &ExternalAuth,
) -> Result<Destination, Failure> {
    let snapshot = exchange.home.kit.snapshot();
    let backend = snapshot.target(&auth.target)?;
    let gateway = listener.id.gateway.clone();
    let tls = snapshot.tls_to(backend, &gateway)?;
    Ok(Destination { backend: backend.clone(), tls, gateway, speaks: Speaks::to(backend, auth.grpc) })
}

async fn call(
    exchange: &Exchange,
    to: &Destination,
    request: Request<Bytes>,
) -> Result<(response::Parts, Bytes, Option<HeaderMap>), Failure> {
    let unreachable = |detail: Box<str>| Failure::new(Ending::AuthFailed, Some(detail));
    let reached = reach_any(&exchange.home, to, exchange.tie.client.ip()).await;
    let reached = reached.map_err(|unsent| unreachable(unsent.detail))?;
    let (parts, body) = request.into_parts();
    let upload = if body.is_empty() { Upload::Empty } else { Upload::Bytes(body) };
    let sent = reached.line.send((&parts).into(), to, reached.lease.address, upload, |_, _| ()).await;
    let (response, _hold) = sent.map_err(|unsent| unreachable(unsent.detail))?;
    let (head, mut incoming) = response.into_parts();
    let (mut all, mut trailers) = (BytesMut::new(), None);
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|_| AuthFailure::Message)?;
        match frame.into_data() {
            Ok(data) if all.len() + data.len() > MOST => return Err(AuthFailure::Message.into()),
            Ok(data) => all.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    incoming.release();
    Ok((head, all.freeze(), trailers))
}
