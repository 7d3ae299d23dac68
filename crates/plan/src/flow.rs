//! What is known of traffic when it must be decided: borrowed from whoever read it, nothing copied.

use std::fmt;
use std::net::SocketAddr;

use crate::{ListenerId, Transport};

/// Everything about one connection or datagram flow and, where it carries HTTP, one request on it.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    pub connection: Connection<'a>,
    pub request: Option<Request<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// The address the client connected to.
    pub local: SocketAddr,
    pub transport: Transport,
    /// `None`: the client does not speak TLS, or nobody looked.
    pub hello: Option<Hello<'a>>,
}

/// What a ClientHello says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hello<'a> {
    /// As it stands in the hello.
    pub sni: Option<&'a str>,
    /// The protocols offered, in the client's order; empty: it did not say.
    pub alpn: &'a [&'a [u8]],
}

/// The connection a request came on. It may be older than the tables that are asked: requests take the newest.
#[derive(Clone, Copy, Debug)]
pub struct Inbound<'a> {
    pub local: SocketAddr,
    /// The HTTPS listener that took the connection; `None`: plain HTTP.
    pub https: Option<&'a ListenerId>,
}

#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The Host header or the authority, as it stands there.
    pub host: Option<&'a str>,
    pub method: &'a str,
    /// Without the query, as it would be forwarded: whoever removes dot segments does it before.
    pub path: &'a str,
    /// What follows the `?`, as it stands there.
    pub query: Option<&'a str>,
    pub headers: &'a dyn Headers,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, method, path, query, headers: _ } = self;
        f.debug_struct("Request")
            .field("host", host)
            .field("method", method)
            .field("path", path)
            .field("query", query)
            .finish_non_exhaustive()
    }
}

/// The headers of a request, in whatever type the HTTP engine keeps them.
pub trait Headers {
    /// The value of the `nth` header line (from 0) with this name, which is in lower case.
    fn value(&self, name: &str, nth: usize) -> Option<&[u8]>;
}

/// No headers at all.
impl Headers for () {
    fn value(&self, _: &str, _: usize) -> Option<&[u8]> {
        None
    }
}

/// Names in any case with their values.
impl Headers for &[(&str, &str)] {
    fn value(&self, name: &str, nth: usize) -> Option<&[u8]> {
        let mut lines = self.iter().filter(|(line, _)| line.eq_ignore_ascii_case(name));
        lines.nth(nth).map(|(_, value)| value.as_bytes())
    }
}

impl<const N: usize> Headers for [(&str, &str); N] {
    fn value(&self, name: &str, nth: usize) -> Option<&[u8]> {
        let mut lines = self.iter().filter(|(line, _)| line.eq_ignore_ascii_case(name));
        lines.nth(nth).map(|(_, value)| value.as_bytes())
    }
}

impl Headers for Vec<(String, String)> {
    fn value(&self, name: &str, nth: usize) -> Option<&[u8]> {
        let mut lines = self.iter().filter(|(line, _)| line.eq_ignore_ascii_case(name));
        lines.nth(nth).map(|(_, value)| value.as_bytes())
    }
}
