//! One line of the access log, for a connection, a flow or a request.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use tidegate_plan::{BackendId, ListenerId, RouteId, TlsVersion};

use super::fields::{Fields, field};
use crate::Ending;

/// How lines of the access log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
}

/// A connection or flow that has ended, as far as it came.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) start: SystemTime,
    /// The listener's handling as users call it, or the transport where no listener was found.
    pub(crate) protocol: &'static str,
    pub(crate) client: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) sni: Option<&'a str>,
    /// Where TLS was terminated.
    pub(crate) tls: Option<Tls<'a>>,
    pub(crate) listener: Option<&'a ListenerId>,
    pub(crate) route: Option<&'a RouteId>,
    pub(crate) backend: Option<&'a BackendId>,
    pub(crate) endpoint: Option<SocketAddr>,
    pub(crate) up: u64,
    pub(crate) down: u64,
    pub(crate) duration: Duration,
    pub(crate) ending: Ending,
    /// What more there is to say of the ending: an error's text.
    pub(crate) detail: Option<&'a dyn Display>,
    /// Of a request, what connections do not have.
    pub(crate) request: Option<&'a RequestRecord<'a>>,
}

/// A request that is over.
#[derive(Clone, Copy)]
pub struct RequestRecord<'a> {
    pub start: SystemTime,
    /// The listener's handling as users call it.
    pub protocol: &'static str,
    pub client: SocketAddr,
    pub local: SocketAddr,
    pub sni: Option<&'a str>,
    pub listener: Option<&'a ListenerId>,
    pub route: Option<&'a RouteId>,
    pub backend: Option<&'a BackendId>,
    pub endpoint: Option<SocketAddr>,
    /// `HTTP/1.1`, `HTTP/2`.
    pub version: &'static str,
    pub method: &'a str,
    pub host: Option<&'a str>,
    pub path: &'a str,
    /// What the client was told; 0: it was told nothing.
    pub status: u16,
    /// Bytes of the bodies.
    pub up: u64,
    pub down: u64,
    pub duration: Duration,
    /// From the request to the head of the backend's answer.
    pub upstream: Option<Duration>,
    /// How often a backend was asked again.
    pub retries: u32,
    /// The trace that the request is part of, as its `traceparent` has it.
    pub trace: Option<&'a str>,
    pub ending: Ending,
    pub detail: Option<&'a dyn Display>,
}

/// What was agreed with the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tls<'a> {
    pub(crate) version: TlsVersion,
    pub(crate) alpn: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    pub(crate) fn of_request(request: &'a RequestRecord<'a>) -> Self {
        Self {
            start: request.start,
            protocol: request.protocol,
            client: request.client,
            local: request.local,
            sni: request.sni,
            tls: None,
            listener: request.listener,
            route: request.route,
            backend: request.backend,
            endpoint: request.endpoint,
            up: request.up,
            down: request.down,
            duration: request.duration,
            ending: request.ending,
            detail: request.detail,
            request: Some(request),
        }
    }

    pub(super) fn write(&self, format: Format, out: &mut Vec<u8>) {
        match format {
            Format::Text => self.write_fields(Fields::<false>(out)),
            Format::Json => self.write_fields(Fields::<true>(out)),
        }
    }

    fn write_fields<const JSON: bool>(&self, mut fields: Fields<'_, JSON>) {
        fields.begin(self.start);
        field!(fields, "protocol").text(self.protocol.as_bytes());
        field!(fields, "client").address(self.client);
        field!(fields, "local").address(self.local);
        if let Some(sni) = self.sni {
            field!(fields, "sni").text(sni.as_bytes());
        }
        if let Some(tls) = &self.tls {
            field!(fields, "tls").shown(&tls.version);
            tls.alpn.inspect(|alpn| field!(fields, "alpn").text(alpn));
        }
        self.listener.inspect(|listener| field!(fields, "listener").listener(listener));
        self.route.inspect(|route| field!(fields, "route").route(route));
        self.backend.inspect(|backend| field!(fields, "backend").backend(backend));
        self.endpoint.inspect(|endpoint| field!(fields, "endpoint").address(*endpoint));
        if let Some(request) = self.request {
            field!(fields, "version").text(request.version.as_bytes());
            field!(fields, "method").text(request.method.as_bytes());
            request.host.inspect(|host| field!(fields, "host").text(host.as_bytes()));
            field!(fields, "path").text(request.path.as_bytes());
            field!(fields, "status").number(request.status.into());
        }
        field!(fields, "bytes_up").number(self.up);
        field!(fields, "bytes_down").number(self.down);
        field!(fields, "seconds").seconds(self.duration);
        if let Some(request) = self.request {
            request.upstream.inspect(|time| field!(fields, "upstream_seconds").seconds(*time));
            if request.retries > 0 {
                field!(fields, "retries").number(request.retries.into());
            }
            request.trace.inspect(|trace| field!(fields, "trace").text(trace.as_bytes()));
        }
        field!(fields, "ending").text(self.ending.as_str().as_bytes());
        self.detail.inspect(|detail| field!(fields, "detail").shown(detail));
        fields.end();
    }
}

impl fmt::Debug for RequestRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Record::of_request(self).fmt(f)
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Vec::new();
        self.write(Format::Text, &mut line);
        f.write_str(String::from_utf8_lossy(line.trim_ascii_end()).as_ref())
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
pub(super) mod tests;
