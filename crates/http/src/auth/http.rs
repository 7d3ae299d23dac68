//! External auth over HTTP: the request is shown to the server with its method and path, and 200 means yes.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode, response};
use tidegate_plan::{ExternalAuth, PathError, normal_path};

use super::changes::is_ours;
use super::{AuthFailure, Changes, Decision, HeaderAction, without_framing};
use crate::filters::is_framing;
use crate::request::with_query;

/// The request to the server: method, Host, path and query as the client's, the path after the filter's own; of the
/// headers `Authorization` and those that the filter lists. `body` is empty unless the filter asks for it.
pub fn http_request(auth: &ExternalAuth, parts: &Parts, body: Bytes) -> Result<Request<Bytes>, PathError> {
    let path = format!("{}{}", auth.path.trim_end_matches('/'), parts.uri.path());
    let rooted = if path.starts_with('/') { path } else { format!("/{path}") };
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = with_query(normal_path(&rooted)?.into_owned(), parts.uri.query())?.into();
    let listed = auth.request_headers.iter().filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok());
    for name in listed.chain([header::HOST, header::AUTHORIZATION]).filter(|name| !is_framing(name)) {
        request.headers_mut().remove(&name);
        for value in parts.headers.get_all(&name) {
            request.headers_mut().append(&name, value.clone());
        }
    }
    let length = HeaderValue::from(request.body().len());
    request.headers_mut().insert(header::CONTENT_LENGTH, length);
    Ok(request)
}

/// What its response means: 200 is yes, a failure of the server's is none, and all else is what the client gets, with
/// its headers and body, so that a login page or a challenge works.
#[must_use]
pub fn http_verdict(auth: &ExternalAuth, response: &response::Parts, body: Bytes) -> Decision {
    match response.status {
        StatusCode::OK => Decision::Allow(Changes { request: copied(auth, response), ..Changes::default() }),
        status if status.is_server_error() || status.is_informational() => {
            Decision::Failed(AuthFailure::Status(status.as_u16()))
        }
        // A success that is not 200 is no yes, and as an answer it would look like one.
        status if status.is_success() => Decision::Failed(AuthFailure::Status(status.as_u16())),
        status => {
            let mut denial = Response::new(body);
            *denial.status_mut() = status;
            *denial.headers_mut() = without_framing(&response.headers);
            Decision::Deny(denial)
        }
    }
}

/// The headers that go on to the backend: those listed, or all but what belongs to the response itself. What the
/// client sent under their names is replaced.
fn copied(auth: &ExternalAuth, response: &response::Parts) -> Vec<(HeaderName, HeaderValue, HeaderAction)> {
    let is_listed = |name: &HeaderName| match auth.response_headers.as_slice() {
        [] => !is_of_response(name),
        listed => listed.iter().any(|listed| listed == name.as_str()),
    };
    let headers = without_framing(&response.headers);
    let mut copied = Vec::new();
    for name in headers.keys().filter(|name| is_listed(name) && !is_ours(name)) {
        for (nth, value) in headers.get_all(name).iter().enumerate() {
            let action = if nth == 0 { HeaderAction::Set } else { HeaderAction::Append };
            copied.push((name.clone(), value.clone(), action));
        }
    }
    copied
}

/// Headers about the auth server's own response and its body, which would say wrong things about the request. They go
/// on where they are listed.
fn is_of_response(name: &HeaderName) -> bool {
    name.as_str().starts_with("content-")
        || [header::DATE, header::SERVER, header::ETAG, header::LAST_MODIFIED, header::VARY].contains(name)
}
