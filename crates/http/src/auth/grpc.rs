//! External auth over gRPC: `envoy.service.auth.v3.Authorization/Check`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri, Version};
use prost::Message;
use tidegate_plan::ExternalAuth;

use super::changes::{header, is_ours};
use super::messages::{
    Address, AttributeContext, CheckRequest, CheckResponse, DeniedHttpResponse, HeaderValueOption,
    HttpRequest, HttpResponse, OkHttpResponse, Peer, RequestAttributes, SocketAddress, Timestamp, TlsSession,
};
use super::{AuthFailure, Changes, Circumstances, Decision, HeaderAction, host_of};

pub const CHECK_PATH: &str = "/envoy.service.auth.v3.Authorization/Check";

/// The call: a POST over HTTP/2 with one message. The scheme and the authority are for whoever knows the server.
#[must_use]
pub fn grpc_request(
    auth: &ExternalAuth,
    parts: &Parts,
    body: &Bytes,
    circumstances: &Circumstances<'_>,
) -> Request<Bytes> {
    let message = CheckRequest { attributes: Some(attributes(auth, parts, body, circumstances)) };
    let mut request = Request::new(framed(&message));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static(CHECK_PATH);
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    request
}

/// What the call came to. `trailers` are those of the response, or `None` if it had none: then its headers say how the
/// call ended.
#[must_use]
pub fn grpc_verdict(headers: &HeaderMap, body: &Bytes, trailers: Option<&HeaderMap>) -> Decision {
    decide(headers, body, trailers).unwrap_or_else(Decision::Failed)
}

fn decide(headers: &HeaderMap, body: &Bytes, trailers: Option<&HeaderMap>) -> Result<Decision, AuthFailure> {
    let status =
        trailers.and_then(|trailers| trailers.get("grpc-status")).or_else(|| headers.get("grpc-status"));
    let status = status.and_then(|status| status.to_str().ok()?.parse::<u16>().ok());
    match status.ok_or(AuthFailure::Message)? {
        0 => {}
        failed => return Err(AuthFailure::Grpc(failed)),
    }
    let response = CheckResponse::decode(unframed(body)?).map_err(|_| AuthFailure::Message)?;
    // Without a status there is none that says no, but none that says yes either.
    let allowed = response.status.ok_or(AuthFailure::Message)?.code == 0;
    match (allowed, response.http_response) {
        (true, None) => Ok(Decision::Allow(Changes::default())),
        (true, Some(HttpResponse::Ok(ok))) => Ok(Decision::Allow(changes(ok)?)),
        (_, Some(HttpResponse::Error(_))) => Err(AuthFailure::Message),
        (_, Some(HttpResponse::Denied(denied))) => Ok(Decision::Deny(denial(denied)?)),
        (false, _) => Ok(Decision::Deny(denial(DeniedHttpResponse::default())?)),
    }
}

fn attributes(
    auth: &ExternalAuth,
    parts: &Parts,
    body: &Bytes,
    circumstances: &Circumstances<'_>,
) -> AttributeContext {
    let size = parts.headers.get(header::CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse().ok());
    // A body that is no text goes as bytes, since the field for text cannot have it.
    let (text, raw) = match std::str::from_utf8(body) {
        Ok(text) => (text.to_owned(), Bytes::new()),
        Err(_) => (String::new(), body.clone()),
    };
    let http = HttpRequest {
        id: one(&parts.headers, "x-request-id"),
        method: parts.method.as_str().to_owned(),
        headers: shown(auth, &parts.headers),
        path: parts.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        host: host_of(parts).to_owned(),
        scheme: if circumstances.https { "https" } else { "http" }.to_owned(),
        size: size.unwrap_or(-1),
        protocol: protocol(parts.version).to_owned(),
        body: text,
        raw_body: raw,
    };
    let (seconds, nanos) = circumstances.time;
    AttributeContext {
        source: Some(peer(circumstances.client)),
        destination: Some(peer(circumstances.local)),
        request: Some(RequestAttributes { time: Some(Timestamp { seconds, nanos }), http: Some(http) }),
        tls_session: circumstances.sni.map(|sni| TlsSession { sni: sni.to_owned() }),
    }
}

/// All headers, or those that the filter lists; several lines of one are one value.
fn shown(auth: &ExternalAuth, headers: &HeaderMap) -> BTreeMap<String, String> {
    let listed = &auth.request_headers;
    let is_shown =
        |name: &&HeaderName| listed.is_empty() || listed.iter().any(|listed| listed == name.as_str());
    let names = headers.keys().filter(is_shown);
    names.map(|name| (name.as_str().to_owned(), one(headers, name.as_str()))).collect()
}

fn one(headers: &HeaderMap, name: &str) -> String {
    let separator = if name == "cookie" { "; " } else { "," };
    let lines = headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes()));
    lines.collect::<Vec<_>>().join(separator)
}

fn peer(address: SocketAddr) -> Peer {
    let socket_address =
        SocketAddress { address: address.ip().to_canonical().to_string(), port_value: address.port().into() };
    Peer { address: Some(Address { socket_address: Some(socket_address) }) }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        _ => "HTTP/1.1",
    }
}

fn changes(ok: OkHttpResponse) -> Result<Changes, AuthFailure> {
    let removed = ok.headers_to_remove.iter().filter(|name| !name.starts_with(':'));
    let removed =
        removed.map(|name| HeaderName::from_bytes(name.as_bytes()).map_err(|_| AuthFailure::Header));
    let removed = removed.collect::<Result<Vec<_>, _>>()?;
    Ok(Changes {
        request: edits(&ok.headers)?,
        remove: removed.into_iter().filter(|name| !is_ours(name)).collect(),
        set_query: ok.query_parameters_to_set.into_iter().map(|set| (set.key, set.value)).collect(),
        remove_query: ok.query_parameters_to_remove,
        response: edits(&ok.response_headers_to_add)?,
    })
}

fn denial(denied: DeniedHttpResponse) -> Result<Response<Bytes>, AuthFailure> {
    let code = denied.status.map_or(0, |status| status.code);
    let status = match u16::try_from(code).ok().and_then(|code| StatusCode::from_u16(code).ok()) {
        None if code == 0 => StatusCode::FORBIDDEN,
        // To say no with a success would look like a yes.
        Some(status) if !status.is_informational() && !status.is_success() => status,
        _ => return Err(AuthFailure::Message),
    };
    let mut response = Response::new(Bytes::from(denied.body));
    *response.status_mut() = status;
    let changes = Changes { response: edits(&denied.headers)?, ..Changes::default() };
    changes.on_response(response.headers_mut());
    Ok(response)
}

fn edits(options: &[HeaderValueOption]) -> Result<Vec<(HeaderName, HeaderValue, HeaderAction)>, AuthFailure> {
    let mut edits = Vec::new();
    for option in options {
        let line = option.header.as_ref().ok_or(AuthFailure::Header)?;
        let value = if line.raw_value.is_empty() { line.value.as_bytes() } else { &line.raw_value };
        let action = match (&option.append, option.append_action) {
            (Some(append), _) if append.value => HeaderAction::Append,
            (_, 1) => HeaderAction::AddIfAbsent,
            (_, 3) => HeaderAction::SetIfPresent,
            // In these messages nothing said means that what is there is replaced.
            _ => HeaderAction::Set,
        };
        edits.extend(header(&line.key, value)?.map(|(name, value)| (name, value, action)));
    }
    Ok(edits)
}

/// A message as gRPC sends it: whether it is compressed, its length, itself.
fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(5 + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    frame.put(message.encode_to_vec().as_slice());
    frame.freeze()
}

/// The one message of a body.
fn unframed(body: &Bytes) -> Result<Bytes, AuthFailure> {
    match body.get(..5) {
        Some(&[0, a, b, c, d]) if body.len() - 5 == u32::from_be_bytes([a, b, c, d]) as usize => {
            Ok(body.slice(5..))
        }
        _ => Err(AuthFailure::Message),
    }
}
