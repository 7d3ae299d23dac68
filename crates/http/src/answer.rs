//! What a client is told when a request is not carried: a status, a line of text, and for gRPC a status of its own.

use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tidegate_plan::Reason;

use crate::auth::AuthFailure;
use crate::limits::TooLarge;
use crate::request::BadRequest;

/// The header that names the reason, where an operator asks for it.
pub const REASON: HeaderName = HeaderName::from_static("x-tidegate-reason");

/// Why a request has an answer of ours instead of a backend's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The plan says no.
    Refused(Reason),
    BadRequest(BadRequest),
    TooLarge(TooLarge),
    /// The body is more than the auth server may be shown.
    BodyTooLarge,
    /// The client did not send its request in time.
    RequestTooSlow,
    /// No endpoint accepted a connection.
    ConnectFailed,
    ConnectTimeout,
    /// The TLS handshake with the backend failed.
    BackendHandshakeFailed,
    /// The connection ended before there was a response.
    BackendReset,
    /// What came back is no HTTP.
    BackendInvalid,
    /// The time for a request, or for a backend, was over.
    Timeout,
    AuthFailed(AuthFailure),
    /// The auth server could not be asked.
    AuthUnreachable,
    /// Too much is under way.
    Overloaded,
    /// A mistake of our own.
    Internal,
}

impl Cause {
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Refused(reason) => {
                StatusCode::from_u16(reason.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Self::BadRequest(bad) => bad.status(),
            Self::TooLarge(large) => large.status(),
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::RequestTooSlow => StatusCode::REQUEST_TIMEOUT,
            // There is nobody who could answer, or nobody who could be asked.
            Self::ConnectFailed
            | Self::ConnectTimeout
            | Self::AuthFailed(_)
            | Self::AuthUnreachable
            | Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
            // There is somebody, and what it did cannot be passed on.
            Self::BackendHandshakeFailed | Self::BackendReset | Self::BackendInvalid => {
                StatusCode::BAD_GATEWAY
            }
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The number of the gRPC status.
    #[must_use]
    pub const fn grpc_status(self) -> u8 {
        match self {
            Self::Refused(reason) => reason.grpc_status(),
            Self::BadRequest(_) | Self::Internal => GRPC_INTERNAL,
            Self::TooLarge(_) | Self::BodyTooLarge => GRPC_RESOURCE_EXHAUSTED,
            Self::RequestTooSlow | Self::Timeout => GRPC_DEADLINE_EXCEEDED,
            Self::ConnectFailed
            | Self::ConnectTimeout
            | Self::BackendHandshakeFailed
            | Self::BackendReset
            | Self::BackendInvalid
            | Self::AuthFailed(_)
            | Self::AuthUnreachable
            | Self::Overloaded => GRPC_UNAVAILABLE,
        }
    }
}

const GRPC_DEADLINE_EXCEEDED: u8 = 4;
const GRPC_RESOURCE_EXHAUSTED: u8 = 8;
const GRPC_INTERNAL: u8 = 13;
const GRPC_UNAVAILABLE: u8 = 14;

impl From<Reason> for Cause {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

impl From<BadRequest> for Cause {
    fn from(bad: BadRequest) -> Self {
        Self::BadRequest(bad)
    }
}

impl From<TooLarge> for Cause {
    fn from(large: TooLarge) -> Self {
        Self::TooLarge(large)
    }
}

impl From<AuthFailure> for Cause {
    fn from(failure: AuthFailure) -> Self {
        Self::AuthFailed(failure)
    }
}

/// Whether a request speaks gRPC. gRPC-Web does not: it reads a status in the body.
#[must_use]
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|kind| kind.as_bytes().strip_prefix(b"application/grpc"));
    kind.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// How long a gRPC client says that it waits for all of its call.
#[must_use]
pub fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > GRPC_TIMEOUT_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// As many as gRPC allows.
const GRPC_TIMEOUT_DIGITS: usize = 8;

/// The answer to a request. `reason`: what the log has, to be named in a header; the text says no more than the status
/// does, since not everybody is to know how things are arranged here.
#[must_use]
pub fn answer(cause: Cause, grpc: bool, reason: Option<&'static str>) -> Response<Bytes> {
    let mut answer = if grpc { of_grpc(cause) } else { of_http(cause) };
    if let Some(reason) = reason {
        answer.headers_mut().insert(REASON, HeaderValue::from_static(reason));
    }
    answer
}

fn of_http(cause: Cause) -> Response<Bytes> {
    let status = cause.status();
    let text = match cause {
        // The client's own mistake is the one that it can do something about.
        Cause::BadRequest(bad) => format!("{}: {bad}\n", status.as_u16()),
        _ => format!("{} {}\n", status.as_u16(), status.canonical_reason().unwrap_or("error")),
    };
    let mut answer = Response::new(Bytes::from(text));
    *answer.status_mut() = status;
    let length = HeaderValue::from(answer.body().len());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONTENT_LENGTH, length);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        // It must be there, and no method is offered for a tunnel.
        headers.insert(header::ALLOW, HeaderValue::from_static(""));
    }
    answer
}

/// Headers only, with the status that would otherwise be in the trailers.
fn of_grpc(cause: Cause) -> Response<Bytes> {
    let text = match cause {
        Cause::BadRequest(bad) => bad.to_string(),
        _ => cause.status().canonical_reason().unwrap_or("error").to_owned(),
    };
    let mut answer = Response::new(Bytes::new());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from(u16::from(cause.grpc_status())));
    if let Ok(message) = HeaderValue::try_from(grpc_message(&text)) {
        headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    answer
}

/// A text as `grpc-message` carries it: what is no printable ASCII is escaped, and the sign of escapes itself.
#[must_use]
pub fn grpc_message(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use tidegate_plan::PathError;

    use super::*;
    use crate::testing::{headers, lines};

    #[test]
    fn a_status_for_each_cause() {
        for (cause, status, grpc) in [
            (Cause::Refused(Reason::NoRoute), 404, 12),
            (Cause::Refused(Reason::NoMatchingRule), 404, 12),
            (Cause::Refused(Reason::Misdirected), 421, 14),
            (Cause::Refused(Reason::NoEndpoints), 503, 14),
            (Cause::Refused(Reason::BackendNotFound), 500, 14),
            (Cause::Refused(Reason::FilterUnsupported), 500, 14),
            (Cause::BadRequest(BadRequest::NoHost), 400, 13),
            (Cause::BadRequest(BadRequest::Connect), 405, 13),
            (Cause::TooLarge(TooLarge::Target), 414, 8),
            (Cause::TooLarge(TooLarge::Headers), 431, 8),
            (Cause::BodyTooLarge, 413, 8),
            (Cause::RequestTooSlow, 408, 4),
            (Cause::ConnectFailed, 503, 14),
            (Cause::BackendHandshakeFailed, 502, 14),
            (Cause::BackendReset, 502, 14),
            (Cause::Timeout, 504, 4),
            (Cause::AuthFailed(AuthFailure::Message), 503, 14),
            (Cause::Overloaded, 503, 14),
            (Cause::Internal, 500, 13),
        ] {
            assert_eq!((cause.status().as_u16(), cause.grpc_status()), (status, grpc), "{cause:?}");
            assert_eq!(answer(cause, false, None).status().as_u16(), status);
            assert_eq!(answer(cause, true, None).status(), 200);
        }
    }

    #[test]
    fn the_text_is_short_and_says_nothing_of_the_inside() {
        let plain = answer(Cause::Refused(Reason::BackendNotPermitted), false, None);
        assert_eq!(plain.body(), "500 Internal Server Error\n");
        let expected = [
            ("content-length", "26"),
            ("content-type", "text/plain; charset=utf-8"),
            ("x-content-type-options", "nosniff"),
        ];
        assert_eq!(lines(plain.headers()), expected);
        let named = answer(Cause::Refused(Reason::BackendNotPermitted), false, Some("as_the_log_says"));
        assert_eq!(named.headers()["x-tidegate-reason"], "as_the_log_says");
        let bad = answer(BadRequest::Path(PathError::BadEscape).into(), false, None);
        assert_eq!(bad.body(), "400: the path has a % that two hexadecimal digits do not follow\n");
    }

    #[test]
    fn times_of_grpc() {
        for (text, expected) in [
            ("1S", Some(Duration::from_secs(1))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3m", Some(Duration::from_millis(3))),
            ("4u", Some(Duration::from_micros(4))),
            ("5n", Some(Duration::from_nanos(5))),
            ("100000000S", None),
            ("S", None),
            ("", None),
            ("+1S", None),
            ("1s", None),
            ("1", None),
        ] {
            assert_eq!(grpc_timeout(&headers(&[("grpc-timeout", text)])), expected, "{text:?}");
        }
        assert_eq!(grpc_timeout(&HeaderMap::new()), None);
    }

    #[test]
    fn grpc_clients_get_a_status_without_a_body() {
        let answer = answer(BadRequest::Path(PathError::BadEscape).into(), true, Some("request_invalid"));
        assert!(answer.body().is_empty());
        let expected = [
            ("content-type", "application/grpc"),
            ("grpc-message", "the path has a %25 that two hexadecimal digits do not follow"),
            ("grpc-status", "13"),
            ("x-tidegate-reason", "request_invalid"),
        ];
        assert_eq!(lines(answer.headers()), expected);
        assert_eq!(grpc_message("ä\n"), "%C3%A4%0A");
    }

    #[test]
    fn who_speaks_grpc() {
        for (kind, grpc) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc; charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(is_grpc(&headers(&[("content-type", kind)])), grpc, "{kind}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
