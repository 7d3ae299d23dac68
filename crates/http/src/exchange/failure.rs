//! Requests that go wrong: how they end for us, and what their clients are told.

use http::header::{self, HeaderValue};
use http::{Response, Version};
use tidegate_plan::Reason;
use tidegate_proxy::Ending;

use super::Exchange;
use crate::answer::{Cause, answer};
use crate::auth::AuthFailure;
use crate::body::Body;
use crate::limits::TooLarge;
use crate::request::BadRequest;
use crate::upstream::Unsent;

/// Why a request has no answer of a backend.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) ending: Ending,
    cause: Cause,
    detail: Option<Box<str>>,
}

impl Failure {
    pub(super) fn new(ending: Ending, detail: Option<Box<str>>) -> Self {
        Self { ending, cause: cause(ending), detail }
    }

    /// More of the body than the server that is asked for permission may be shown.
    pub(super) fn body_too_large() -> Self {
        Self { ending: Ending::RequestTooLarge, cause: Cause::BodyTooLarge, detail: None }
    }

    /// The answer. It also notes how the exchange ends.
    pub(super) fn answer(self, exchange: &Exchange) -> Response<Body> {
        // A client that broke off in the middle, or took too long, is the reason for all that follows.
        let ending = exchange.ending().unwrap_or(self.ending);
        let told = if ending == self.ending { self.cause } else { cause(ending) };
        exchange.ends(ending, self.detail);
        let told =
            if exchange.is_past_deadline() && told == Cause::BackendReset { Cause::Timeout } else { told };
        let reason = exchange.home.options.reasons.then_some(ending.as_str());
        let mut response = answer(told, exchange.is_grpc, reason).map(Body::from);
        if matches!(told, Cause::BadRequest(_)) && exchange.version < Version::HTTP_2 {
            // What else such a client has sent is not worth reading.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
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
        Self { ending: Ending::RequestInvalid, cause: bad.into(), detail: Some(bad.to_string().into()) }
    }
}

impl From<TooLarge> for Failure {
    fn from(large: TooLarge) -> Self {
        Self { ending: Ending::RequestTooLarge, cause: large.into(), detail: Some(large.to_string().into()) }
    }
}

impl From<AuthFailure> for Failure {
    fn from(failure: AuthFailure) -> Self {
        Self { ending: Ending::AuthFailed, cause: failure.into(), detail: Some(failure.to_string().into()) }
    }
}

impl From<Unsent> for Failure {
    fn from(unsent: Unsent) -> Self {
        Self::new(unsent.ending, Some(unsent.detail))
    }
}

fn cause(ending: Ending) -> Cause {
    match ending {
        Ending::Refused(reason) => Cause::Refused(reason),
        Ending::RequestTooLarge => Cause::TooLarge(TooLarge::Headers),
        Ending::BodyTimeout => Cause::RequestTooSlow,
        Ending::RequestInvalid | Ending::ClientReset | Ending::ClientGone => {
            Cause::BadRequest(BadRequest::Body)
        }
        Ending::ConnectFailed => Cause::ConnectFailed,
        Ending::ConnectTimeout => Cause::ConnectTimeout,
        Ending::BackendHandshakeFailed | Ending::BackendTls => Cause::BackendHandshakeFailed,
        Ending::BackendReset => Cause::BackendReset,
        Ending::BackendInvalid => Cause::BackendInvalid,
        Ending::RequestTimeout | Ending::BackendTimeout => Cause::Timeout,
        Ending::AuthFailed | Ending::Denied => Cause::AuthUnreachable,
        Ending::OutOfResources | Ending::Shutdown | Ending::Drained => Cause::Overloaded,
        _ => Cause::Internal,
    }
}
