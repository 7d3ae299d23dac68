//! The changes: of routes, weights, filters, endpoints, certificates and listeners, all of them beside what the
//! traffic needs, or so that it must not notice.

use std::net::SocketAddr;

use crate::loopback::Tidegate;
use crate::loopback::manifests::{gateway, http, http_route, https, secret, service, tcp};
use crate::support::certificate::Authority;
use crate::support::web::{Version, web};

pub(super) const PLAIN_PORT: u16 = 20_080;
pub(super) const TLS_PORT: u16 = 20_443;
/// Ports that come and go.
const OTHER_PORTS: u16 = 21_000;
pub(super) const NAME: &str = "stays.test";
const KINDS: usize = 9;

pub(super) struct Changes {
    pub(super) authority: Authority,
    backends: [SocketAddr; 4],
    http2: [SocketAddr; 2],
}

impl Changes {
    pub(super) fn new() -> Self {
        Self {
            authority: Authority::new("CA"),
            backends: ["a", "b", "c", "d"].map(|name| web(name, Version::Http1)),
            http2: ["e", "f"].map(|name| web(name, Version::Http2)),
        }
    }

    /// What there is at the beginning.
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let files = [
            ("edge.yaml", self.edge(&[])),
            ("certificate.yaml", self.certificate()),
            ("routes.yaml", self.routes(5, "")),
            ("services.yaml", self.services(0)),
        ];
        files.map(|(name, text)| (name.to_owned(), text)).to_vec()
    }

    /// One kind after the other, with another state in each turn.
    pub(super) fn make(&self, number: usize, tidegate: &Tidegate) {
        let turn = number / KINDS;
        let extra = format!("extra-{turn}");
        match number % KINDS {
            0 => tidegate.write(
                "extra.yaml",
                &http_route(&extra, "plain", &[&format!("{extra}.test")], "/", &[("a", 1), ("b", 2)]),
            ),
            1 => tidegate.write("routes.yaml", &self.routes(1 + turn % 9, "")),
            2 => tidegate.write("certificate.yaml", &self.certificate()),
            3 => tidegate.write("services.yaml", &self.services(1 + turn)),
            4 => tidegate.write("edge.yaml", &self.edge(&[http_for(&extra, "other.test")])),
            5 => {
                let port = OTHER_PORTS + (turn % 100) as u16;
                tidegate.write("edge.yaml", &self.edge(&[tcp(&extra, port), http("also", OTHER_PORTS - 1)]));
            }
            6 => tidegate.write("edge.yaml", &self.edge(&[])),
            7 => {
                let filter = format!(
                    "    filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: x-turn, value: \"{turn}\"}}]}}}}]\n"
                );
                tidegate.write("routes.yaml", &self.routes(1 + turn % 9, &filter));
            }
            _ => tidegate.remove("extra.yaml"),
        }
    }

    fn edge(&self, more: &[String]) -> String {
        let own = [http("plain", PLAIN_PORT), https("secure", TLS_PORT, NAME, &["certificate"])];
        gateway(&[&own[..], more].concat())
    }

    /// A new one each time.
    fn certificate(&self) -> String {
        secret("certificate", &self.authority.issue(&[NAME]))
    }

    /// `/` to HTTP/1.1 backends by weight, `/h2` to those that speak HTTP/2.
    fn routes(&self, weight: usize, filter: &str) -> String {
        let weight = weight as u32;
        let mut all = String::new();
        for listener in ["plain", "secure"] {
            let backends = [("a", weight), ("b", 10 - weight)];
            all += &http_route(listener, listener, &[NAME], "/", &backends);
            all += &http_route(&format!("{listener}-h2"), listener, &[NAME], "/h2", &[("h2", 1)]);
        }
        all.replace("    backendRefs:\n", &format!("{filter}    backendRefs:\n"))
    }

    /// Endpoints that come and go; there is always one.
    fn services(&self, turn: usize) -> String {
        let of = |at: usize| {
            let first = self.backends[(turn + at) % 4];
            let second = self.backends[(turn + at + 1) % 4];
            if turn.is_multiple_of(2) { vec![first, second] } else { vec![first] }
        };
        let http2 = if turn.is_multiple_of(3) { &self.http2[..] } else { &self.http2[turn % 2..=turn % 2] };
        let http2 = service("h2", http2).replace("{port: 80}", "{port: 80, appProtocol: kubernetes.io/h2c}");
        service("a", &of(0)) + &service("b", &of(2)) + &http2
    }
}

/// Another listener of the same port.
fn http_for(name: &str, hostname: &str) -> String {
    format!("  - {{name: {name}, port: {PLAIN_PORT}, protocol: HTTP, hostname: {hostname}}}\n")
}
