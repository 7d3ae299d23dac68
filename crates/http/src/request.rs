//! A request as it came, made into the one that is decided about and forwarded: its path in normal form and nothing
//! but a path, its host in the Host header and nowhere else. What could be read in two ways is refused here.

use std::borrow::Cow;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme};
use http::{Method, StatusCode, Uri, Version};
use tidegate_plan::{Headers, PathError, Request, normal_path};

use crate::forwarded::Announced;
use crate::hop;
use crate::host::Host;

/// Why a request is not even looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    #[error("the head of the request cannot be read")]
    Head,
    #[error("the request names no host")]
    NoHost,
    #[error("the request has more than one Host")]
    SeveralHosts,
    #[error("the Host is no host")]
    InvalidHost,
    #[error("the Host is not the host that the request is sent to")]
    HostsDisagree,
    #[error("{0}")]
    Path(#[from] PathError),
    #[error("the target * is for OPTIONS alone")]
    Asterisk,
    #[error("the request has more than one Content-Length")]
    SeveralLengths,
    #[error("both Content-Length and Transfer-Encoding are there")]
    TwoLengths,
    #[error("the Transfer-Encoding is not chunked and nothing else")]
    TransferEncoding,
    #[error("the body is not what its head says")]
    Body,
    #[error("HTTP/2 has no header of this kind")]
    ConnectionHeader,
    #[error("tunnels by CONNECT are not offered")]
    Connect,
}

impl BadRequest {
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Connect => StatusCode::METHOD_NOT_ALLOWED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Checks a request and brings it into the form that everything after works on: the URI is the path in normal form
/// with its query as it came (or `*`), and the Host header is the host, also for HTTP/2. Requests that are so already
/// cost no allocation.
pub fn settle(parts: &mut Parts) -> Result<(), BadRequest> {
    let protocol = parts.extensions.get::<h2::ext::Protocol>();
    let tunnel = protocol.is_some_and(|protocol| is_protocol(protocol.as_str().as_bytes()));
    if parts.method == Method::CONNECT && !tunnel {
        return Err(BadRequest::Connect);
    }
    if parts.version >= Version::HTTP_2 {
        settle_framing(parts)?;
        settle_cookies(&mut parts.headers);
    }
    settle_host(parts)?;
    settle_target(parts)
}

/// Whether it is one name of a protocol, and one that may be gone on with: a backend over HTTP/1.1 gets it in a header.
fn is_protocol(name: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(byte);
    !name.is_empty() && name.iter().all(is_of_name) && !is_http2(name)
}

/// Whether a protocol to go on with is HTTP/2, whose requests nobody would see.
pub(crate) fn is_http2(protocol: &[u8]) -> bool {
    protocol.eq_ignore_ascii_case(b"h2c") || protocol.eq_ignore_ascii_case(b"h2")
}

/// What would say to an HTTP/1.1 backend something else than HTTP/2 said to us. Line breaks and NUL are no part of a
/// [`HeaderValue`] or a [`Uri`].
fn settle_framing(parts: &Parts) -> Result<(), BadRequest> {
    let te = |name: &HeaderName| *name == header::TE;
    let connection = parts.headers.keys().any(|name| hop::is_of_connection(name) && !te(name));
    let te = parts.headers.get_all(header::TE).iter().any(|te| te != "trailers");
    if parts.headers.get_all(header::CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(BadRequest::SeveralLengths);
    }
    if connection || te { Err(BadRequest::ConnectionHeader) } else { Ok(()) }
}

/// HTTP/2 may have them in several lines, of which HTTP/1.1 backends would take one.
fn settle_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(header::COOKIE).iter();
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return };
    let mut all = first.as_bytes().to_vec();
    for line in std::iter::once(second).chain(lines) {
        all.extend_from_slice(b"; ");
        all.extend_from_slice(line.as_bytes());
    }
    if let Ok(line) = HeaderValue::try_from(all) {
        headers.insert(header::COOKIE, line);
    }
}

fn settle_host(parts: &mut Parts) -> Result<(), BadRequest> {
    let mut lines = parts.headers.get_all(header::HOST).iter();
    let (line, second) = (lines.next(), lines.next());
    if second.is_some() {
        return Err(BadRequest::SeveralHosts);
    }
    let read = |text| Host::parse(text).ok_or(BadRequest::InvalidHost);
    let named =
        line.map(|line| line.to_str().map_err(|_| BadRequest::InvalidHost).and_then(read)).transpose()?;
    match (parts.uri.authority(), named) {
        (None, Some(_)) => Ok(()),
        // Only HTTP/1.0 knows requests without a host; HTTP/1.1 wants the header also beside a whole URL.
        (None, None) if parts.version <= Version::HTTP_10 => Ok(()),
        (None, None) => Err(BadRequest::NoHost),
        (Some(_), None) if parts.version == Version::HTTP_11 => Err(BadRequest::NoHost),
        (Some(authority), None) => {
            read(authority.as_str())?;
            let value = HeaderValue::from_str(authority.as_str()).map_err(|_| BadRequest::InvalidHost)?;
            parts.headers.insert(header::HOST, value);
            Ok(())
        }
        (Some(authority), Some(named)) => {
            let default = if parts.uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
            let same = read(authority.as_str())?.is_same(&named, default);
            if same { Ok(()) } else { Err(BadRequest::HostsDisagree) }
        }
    }
}

fn settle_target(parts: &mut Parts) -> Result<(), BadRequest> {
    if parts.uri.path() == "*" {
        parts.uri = Uri::from_static("*");
        return if parts.method == Method::OPTIONS { Ok(()) } else { Err(BadRequest::Asterisk) };
    }
    let changed = match normal_path(parts.uri.path())? {
        Cow::Borrowed(_) => None,
        Cow::Owned(path) => Some(with_query(path, parts.uri.query())),
    };
    if changed.is_some() || parts.uri.authority().is_some() {
        let kept = std::mem::take(&mut parts.uri).into_parts().path_and_query;
        let mut target = changed.transpose()?.or(kept).unwrap_or(PathAndQuery::from_static("/"));
        // Behind an authority a query may stand alone; in the line of a request it may not.
        if target.as_str().starts_with('?') {
            target = with_query("/".to_owned(), target.query())?;
        }
        parts.uri = target.into();
        // All that there was behind the authority may have been a fragment, which is no part of a target.
        if parts.uri.path().is_empty() {
            parts.uri = Uri::from_static("/");
        }
    }
    Ok(())
}

/// A path in normal form with its query.
pub(crate) fn with_query(mut path: String, query: Option<&str>) -> Result<PathAndQuery, PathError> {
    if let Some(query) = query {
        path.push('?');
        path.push_str(query);
    }
    PathAndQuery::try_from(path).map_err(|_| PathError::BadByte)
}

/// The head of a request on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    pub(crate) head: &'a Parts,
    /// Headers besides.
    pub(crate) announced: Option<&'a Announced>,
}

impl<'a> From<&'a Parts> for Outgoing<'a> {
    fn from(head: &'a Parts) -> Self {
        Self { head, announced: None }
    }
}

/// A settled request as the plan asks for it.
#[derive(Debug)]
pub struct Asked<'a> {
    parts: &'a Parts,
    headers: Lines<'a>,
}

impl<'a> Asked<'a> {
    #[must_use]
    pub fn new(parts: &'a Parts) -> Self {
        Self { parts, headers: Lines(&parts.headers) }
    }

    #[must_use]
    pub fn request(&self) -> Request<'_> {
        Request {
            host: host_text(&self.parts.headers),
            method: self.parts.method.as_str(),
            path: self.parts.uri.path(),
            query: self.parts.uri.query(),
            headers: &self.headers,
        }
    }
}

/// The Host header of a settled request.
pub(crate) fn host_text(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST).and_then(|host| host.to_str().ok())
}

/// Headers for the plan to look at.
#[derive(Debug)]
pub struct Lines<'a>(pub &'a HeaderMap);

impl Headers for Lines<'_> {
    fn value(&self, name: &str, nth: usize) -> Option<&[u8]> {
        // Most headers have one line, which is found without a walk.
        if nth == 0 {
            return self.0.get(name).map(HeaderValue::as_bytes);
        }
        self.0.get_all(name).iter().nth(nth).map(HeaderValue::as_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, uri: &str, version: Version, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(uri).version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn settled(
        method: &str,
        uri: &str,
        version: Version,
        headers: &[(&str, &str)],
    ) -> Result<(String, Option<String>), BadRequest> {
        let mut parts = parts(method, uri, version, headers);
        settle(&mut parts)?;
        let asked = Asked::new(&parts);
        assert_eq!(asked.request().path, parts.uri.path());
        assert!(parts.uri.authority().is_none());
        // As it is written: shown as text it may have a slash that is not there.
        let target = parts.uri.path_and_query().unwrap().as_str().to_owned();
        Ok((target, asked.request().host.map(str::to_owned)))
    }

    #[test]
    fn forms_of_targets() {
        let host = [("host", "a.test")];
        for (method, uri, version, headers, expected) in [
            ("GET", "/a?b=//..%zz", Version::HTTP_11, &host[..], Ok("/a?b=//..%zz")),
            ("GET", "/a/../b//c?x", Version::HTTP_11, &host, Ok("/b/c?x")),
            ("GET", "http://a.test/a/./b?x", Version::HTTP_11, &host, Ok("/a/b?x")),
            ("GET", "http://a.test?x", Version::HTTP_11, &host, Ok("/?x")),
            ("GET", "http://a.test#x", Version::HTTP_11, &host, Ok("/")),
            ("GET", "http://A.TEST:80/a", Version::HTTP_11, &host, Ok("/a")),
            ("GET", "https://a.test/a", Version::HTTP_2, &[], Ok("/a")),
            ("OPTIONS", "*", Version::HTTP_11, &host, Ok("*")),
            ("GET", "*", Version::HTTP_11, &host, Err(BadRequest::Asterisk)),
            ("CONNECT", "a.test:443", Version::HTTP_11, &host, Err(BadRequest::Connect)),
            (
                "GET",
                "a.test:443",
                Version::HTTP_11,
                &[("host", "a.test:443")],
                Err(BadRequest::Path(PathError::NotAbsolute)),
            ),
            ("GET", "/%00", Version::HTTP_11, &host, Err(BadRequest::Path(PathError::BadByte))),
            ("GET", "/a%2f..", Version::HTTP_11, &host, Err(BadRequest::Path(PathError::HiddenDots))),
        ] {
            let settled = settled(method, uri, version, headers).map(|(uri, _)| uri);
            assert_eq!(settled.as_deref(), expected.as_ref().copied(), "{method} {uri}");
        }
    }

    #[test]
    fn one_host() {
        let (h1, h2) = (Version::HTTP_11, Version::HTTP_2);
        for (uri, version, headers, expected) in [
            ("/", h1, &[("host", "a.test:8080")][..], Ok(Some("a.test:8080"))),
            ("/", Version::HTTP_10, &[], Ok(None)),
            ("/", h1, &[], Err(BadRequest::NoHost)),
            ("/", h2, &[], Err(BadRequest::NoHost)),
            ("http://a.test/", h1, &[], Err(BadRequest::NoHost)),
            ("https://a.test/", h2, &[], Ok(Some("a.test"))),
            ("https://a.test/", h2, &[("host", "a.test:443")], Ok(Some("a.test:443"))),
            ("https://a.test/", h2, &[("host", "b.test")], Err(BadRequest::HostsDisagree)),
            ("http://a.test/", h1, &[("host", "b.test")], Err(BadRequest::HostsDisagree)),
            ("/", h1, &[("host", "a.test"), ("host", "a.test")], Err(BadRequest::SeveralHosts)),
            ("/", h1, &[("host", "")], Err(BadRequest::InvalidHost)),
            ("/", h1, &[("host", "a.test/x")], Err(BadRequest::InvalidHost)),
            ("/", h1, &[("host", "u@a.test")], Err(BadRequest::InvalidHost)),
            ("https://u@a.test/", h2, &[], Err(BadRequest::InvalidHost)),
        ] {
            let settled = settled("GET", uri, version, headers).map(|(_, host)| host);
            let settled = settled.as_ref().map(|host| host.as_deref()).map_err(|error| *error);
            assert_eq!(settled, expected, "{uri} {headers:?}");
        }
    }

    #[test]
    fn nothing_of_http2_speaks_http1() {
        let settled = |version, headers: &[(&str, &str)]| {
            settled("GET", "https://a.test/", version, headers).map(|_| ())
        };
        for (headers, expected) in [
            (("te", "trailers"), Ok(())),
            (("te", "gzip"), Err(BadRequest::ConnectionHeader)),
            (("connection", "close"), Err(BadRequest::ConnectionHeader)),
            (("transfer-encoding", "chunked"), Err(BadRequest::ConnectionHeader)),
            (("upgrade", "websocket"), Err(BadRequest::ConnectionHeader)),
            (("keep-alive", "1"), Err(BadRequest::ConnectionHeader)),
            (("proxy-connection", "close"), Err(BadRequest::ConnectionHeader)),
        ] {
            assert_eq!(settled(Version::HTTP_2, &[headers]), expected, "{headers:?}");
        }
    }

    #[test]
    fn tunnels_have_one_protocol_that_is_not_http2() {
        for (protocol, expected) in [
            ("websocket", Ok(())),
            ("connect-udp", Ok(())),
            ("a/1.0", Ok(())),
            ("", Err(BadRequest::Connect)),
            ("h2c", Err(BadRequest::Connect)),
            ("H2", Err(BadRequest::Connect)),
            ("websocket, h2c", Err(BadRequest::Connect)),
            ("web socket", Err(BadRequest::Connect)),
            ("x\r\ny: z", Err(BadRequest::Connect)),
        ] {
            let mut parts = parts("CONNECT", "https://a.test/", Version::HTTP_2, &[]);
            parts.extensions.insert(h2::ext::Protocol::from(protocol));
            assert_eq!(settle(&mut parts), expected, "{protocol:?}");
        }
    }

    #[test]
    fn http2_tells_one_length() {
        let five = ("content-length", "5");
        for (headers, expected) in [(&[five][..], Ok(())), (&[five, five], Err(BadRequest::SeveralLengths))] {
            let settled = settled("POST", "https://a.test/", Version::HTTP_2, headers);
            assert_eq!(settled.map(|_| ()), expected, "{headers:?}");
        }
    }

    #[test]
    fn cookies_of_http2_are_one_line() {
        let lines = [("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3")];
        for (version, expected) in
            [(Version::HTTP_2, &["a=1; b=2; c=3"][..]), (Version::HTTP_11, &["a=1", "b=2", "c=3"])]
        {
            let mut parts =
                parts("GET", "https://a.test/", version, &[&[("host", "a.test")], &lines[..]].concat());
            settle(&mut parts).unwrap();
            let cookies: Vec<_> = parts.headers.get_all(header::COOKIE).iter().collect();
            assert_eq!(cookies, expected);
        }
    }

    #[test]
    fn lines_of_headers() {
        let parts = parts("GET", "/", Version::HTTP_11, &[("x-a", "1"), ("X-A", "2"), ("x-b", "3")]);
        let lines = Lines(&parts.headers);
        let all = |name| (0..).map_while(|nth| lines.value(name, nth)).collect::<Vec<_>>();
        assert_eq!(all("x-a"), [b"1", b"2"]);
        assert_eq!(all("x-b"), [b"3"]);
        assert!(all("x-c").is_empty());
    }
}
