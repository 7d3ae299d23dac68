//! Requests that go wrong, and what their clients are told.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use tidegate_plan::Reason;
use tidegate_proxy::Ending;

use super::Exchange;
use crate::body::Body;
use crate::request::BadRequest;

/// Why a request has no answer of a backend.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) ending: Ending,
    status: StatusCode,
    detail: Option<Box<str>>,
}

impl Failure {
    pub(super) fn new(ending: Ending, detail: Option<Box<str>>) -> Self {
        Self { ending, status: status(ending), detail }
    }

    /// The answer. It also notes how the exchange ends.
    pub(super) fn answer(self, exchange: &Exchange) -> Response<Body> {
        // A client that broke off in the middle, or took too long, is the reason for all that follows.
        let ending = exchange.ending().unwrap_or(self.ending);
        let status = if ending == self.ending { self.status } else { status(ending) };
        exchange.ends(ending, self.detail);
        let mut response = if exchange.is_grpc { grpc(ending) } else { plain(status, ending) };
        if exchange.home.options.reasons {
            let reason = HeaderValue::from_static(ending.as_str());
            response.headers_mut().insert("x-tidegate-reason", reason);
        }
        response
    }
}

impl From<Ending> for Failure {
    fn from(ending: Ending) -> Self {
        Self::new(ending, None)
    }
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        Self::new(reason.into(), None)
    }
}

impl From<BadRequest> for Failure {
    fn from(bad: BadRequest) -> Self {
        Self { ending: Ending::RequestInvalid, status: bad.status(), detail: Some(bad.to_string().into()) }
    }
}

fn status(ending: Ending) -> StatusCode {
    match ending {
        Ending::Refused(reason) => {
            StatusCode::from_u16(reason.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
        }
        Ending::RequestInvalid | Ending::ClientReset | Ending::ClientGone => StatusCode::BAD_REQUEST,
        Ending::RequestTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Ending::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
        Ending::RequestTimeout | Ending::BackendTimeout | Ending::ConnectTimeout => {
            StatusCode::GATEWAY_TIMEOUT
        }
        Ending::OutOfResources | Ending::Shutdown | Ending::Drained => StatusCode::SERVICE_UNAVAILABLE,
        Ending::Denied => StatusCode::FORBIDDEN,
        Ending::AuthFailed => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_GATEWAY,
    }
}

fn grpc_status(ending: Ending) -> u8 {
    match ending {
        Ending::Refused(reason) => reason.grpc_status(),
        Ending::RequestInvalid | Ending::RequestTooLarge => 13,
        Ending::RequestTimeout | Ending::BackendTimeout => 4,
        Ending::Denied => 7,
        _ => 14,
    }
}

fn plain(status: StatusCode, ending: Ending) -> Response<Body> {
    let text = Bytes::from(format!("{}\n", ending.text()));
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// All in the head: there is no message that trailers could follow.
fn grpc(ending: Ending) -> Response<Body> {
    let mut response = Response::new(Body::Empty);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(u16::from(grpc_status(ending))));
    headers.insert("grpc-message", HeaderValue::from_static(ending.text()));
    response
}
