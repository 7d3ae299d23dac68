//! One line of the access log, for a connection, a flow or a request, as text and as JSON, written into a buffer that is there already. Whatever a peer had
//! a hand in is escaped, so that it can neither end a line nor pretend to be a field of one.

use std::fmt::{self, Display, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use tidegate_plan::{BackendId, ListenerId, ObjectName, RouteId, TlsVersion};

use super::time::rfc3339;
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

/// Of one value no more than this is written.
const LONGEST: usize = 512;

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
        let mut fields = Fields { format, out };
        fields.begin(self.start);
        fields.text("protocol", self.protocol.as_bytes());
        fields.address("client", self.client);
        fields.address("local", self.local);
        if let Some(sni) = self.sni {
            fields.text("sni", sni.as_bytes());
        }
        if let Some(tls) = &self.tls {
            fields.shown("tls", &tls.version);
            tls.alpn.inspect(|alpn| fields.text("alpn", alpn));
        }
        self.listener.inspect(|listener| fields.listener(listener));
        self.route.inspect(|route| fields.route(route));
        self.backend.inspect(|backend| fields.backend(backend));
        self.endpoint.inspect(|endpoint| fields.address("endpoint", *endpoint));
        if let Some(request) = self.request {
            fields.text("version", request.version.as_bytes());
            fields.text("method", request.method.as_bytes());
            request.host.inspect(|host| fields.text("host", host.as_bytes()));
            fields.text("path", request.path.as_bytes());
            fields.number("status", request.status.into());
        }
        fields.number("bytes_up", self.up);
        fields.number("bytes_down", self.down);
        fields.seconds("seconds", self.duration);
        if let Some(request) = self.request {
            request.upstream.inspect(|time| fields.seconds("upstream_seconds", *time));
            if request.retries > 0 {
                fields.number("retries", request.retries.into());
            }
            request.trace.inspect(|trace| fields.text("trace", trace.as_bytes()));
        }
        fields.text("ending", self.ending.as_str().as_bytes());
        self.detail.inspect(|detail| fields.shown("detail", detail));
        fields.end();
    }
}

/// Fields of a line in the one format or the other.
struct Fields<'o> {
    format: Format,
    out: &'o mut Vec<u8>,
}

impl Fields<'_> {
    fn begin(&mut self, start: SystemTime) {
        if self.format == Format::Json {
            self.out.extend_from_slice(b"{\"start\":\"");
        }
        self.out.extend_from_slice(&rfc3339(start));
        if self.format == Format::Json {
            self.out.push(b'"');
        }
    }

    fn end(&mut self) {
        self.out.extend_from_slice(if self.format == Format::Json { b"}\n" } else { b"\n" });
    }

    fn name(&mut self, name: &str) {
        let (before, after) = match self.format {
            Format::Text => (&b" "[..], &b"="[..]),
            Format::Json => (&b",\""[..], &b"\":"[..]),
        };
        self.out.extend_from_slice(before);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(after);
    }

    fn text(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        self.out.push(b'"');
        escape(&value[..value.len().min(LONGEST)], self.format, self.out);
        self.out.push(b'"');
    }

    fn shown(&mut self, name: &str, value: &dyn Display) {
        self.name(name);
        self.out.push(b'"');
        let mut escaping = Escaping { format: self.format, out: self.out, left: LONGEST };
        // It fails only to stop a value that is too long.
        let _ = write!(escaping, "{value}");
        self.out.push(b'"');
    }

    /// These three as they show themselves, in parts: that takes a third of the time.
    fn listener(&mut self, id: &ListenerId) {
        if id.listener_set.is_some() {
            return self.shown("listener", id);
        }
        self.name("listener");
        self.object(&["\""], &id.gateway);
        self.out.push(b'/');
        escape(id.name.as_bytes(), self.format, self.out);
        self.out.push(b'"');
    }

    fn route(&mut self, id: &RouteId) {
        self.name("route");
        self.object(&["\"", id.kind.as_str(), " "], &id.object);
        self.out.push(b'"');
    }

    fn backend(&mut self, id: &BackendId) {
        if !id.transport.is_tcp() {
            return self.shown("backend", id);
        }
        self.name("backend");
        self.object(&["\"", id.kind.as_str(), " "], &id.object);
        self.out.push(b':');
        decimal(id.port.into(), self.out);
        self.out.push(b'"');
    }

    fn object(&mut self, before: &[&str], id: &ObjectName) {
        before.iter().for_each(|part| self.out.extend_from_slice(part.as_bytes()));
        escape(id.namespace.as_bytes(), self.format, self.out);
        self.out.push(b'/');
        escape(id.name.as_bytes(), self.format, self.out);
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        decimal(value, self.out);
    }

    fn seconds(&mut self, name: &str, value: Duration) {
        self.name(name);
        decimal(value.as_secs(), self.out);
        self.out.push(b'.');
        let mut digits = [b'0'; 6];
        let mut left = value.subsec_micros();
        for digit in digits.iter_mut().rev() {
            *digit += (left % 10) as u8;
            left /= 10;
        }
        self.out.extend_from_slice(&digits);
    }

    fn address(&mut self, name: &str, value: SocketAddr) {
        self.name(name);
        let quote = if self.format == Format::Json { &b"\""[..] } else { b"" };
        self.out.extend_from_slice(quote);
        match value.ip().to_canonical() {
            IpAddr::V4(v4) => {
                for (index, octet) in v4.octets().into_iter().enumerate() {
                    if index > 0 {
                        self.out.push(b'.');
                    }
                    decimal(octet.into(), self.out);
                }
            }
            IpAddr::V6(v6) => {
                // A vector takes all that it is given.
                let _ = std::io::Write::write_fmt(self.out, format_args!("[{v6}]"));
            }
        }
        self.out.push(b':');
        decimal(value.port().into(), self.out);
        self.out.extend_from_slice(quote);
    }
}

/// The core library's way takes a third of the time of a line.
fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Printable ASCII stays as it is. Any other byte is written as its number: in JSON as the character of that number,
/// which keeps lines valid whatever the bytes are.
fn escape(bytes: &[u8], format: Format, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if bytes.iter().all(is_plain) {
        out.extend_from_slice(bytes);
        return;
    }
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => {
                out.extend_from_slice(if format == Format::Json { b"\\u00" } else { b"\\x" });
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
}

/// Escapes what is displayed, up to a length.
struct Escaping<'o> {
    format: Format,
    out: &'o mut Vec<u8>,
    left: usize,
}

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let bytes = &text.as_bytes()[..text.len().min(self.left)];
        self.left -= bytes.len();
        escape(bytes, self.format, self.out);
        if bytes.len() < text.len() { Err(fmt::Error) } else { Ok(()) }
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
