//! The changes: of everything beside what the live connections go by, and of that in every way that must not end
//! them.

use std::net::SocketAddr;

use tokio::runtime::Runtime;

use crate::connections::echoes;
use crate::loopback::Tidegate;
use crate::loopback::manifests::{
    gateway, passthrough, secret, service, tcp, tcp_route, terminate, tls_route,
};
use crate::support::certificate::Authority;

pub(crate) const TCP_PORT: u16 = 20_001;
pub(crate) const TLS_PORT: u16 = 20_443;
/// Ports that come and go.
const OTHER_PORTS: u16 = 21_000;
pub(crate) const PASSED: &str = "stays.passed.test";
pub(crate) const TERMINATED: &str = "stays.terminated.test";

pub(crate) struct Changes {
    pub(crate) authority: Authority,
    backends: [SocketAddr; 4],
    _runtime: Runtime,
}

impl Changes {
    pub(crate) fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { authority: Authority::new("CA"), backends: echoes(&runtime), _runtime: runtime }
    }

    /// What there is at the beginning.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let files = [
            ("edge.yaml", self.edge(&[])),
            ("certificate.yaml", self.certificate()),
            ("tcp.yaml", tcp_route("tcp", "tcp", &[("a", 1)])),
            ("passed.yaml", self.passed(5)),
            ("terminated.yaml", tls_route("terminated", "terminated", TERMINATED, &[("b", 1)])),
            ("services.yaml", self.services(0)),
        ];
        files.map(|(name, text)| (name.to_owned(), text)).to_vec()
    }

    /// One of eight kinds in turn, with another state in each turn.
    pub(crate) fn make(&self, number: usize, tidegate: &Tidegate) {
        let turn = number / 8;
        let extra = format!("extra-{turn}");
        match number % 8 {
            0 => tidegate.write(
                "extra.yaml",
                &tls_route(&extra, "passed", &format!("{extra}.passed.test"), &[("a", 1), ("b", 2)]),
            ),
            1 => tidegate.write("passed.yaml", &self.passed(1 + turn % 9)),
            2 => tidegate.write("certificate.yaml", &self.certificate()),
            3 => tidegate.write("services.yaml", &self.services(1 + turn)),
            4 => tidegate.write("edge.yaml", &self.edge(&[passthrough(&extra, TLS_PORT, "other.test")])),
            5 => tidegate.write(
                "edge.yaml",
                &self.edge(&[tcp(&extra, OTHER_PORTS + (turn % 100) as u16), tcp("also", OTHER_PORTS - 1)]),
            ),
            6 => tidegate.write("edge.yaml", &self.edge(&[])),
            _ => tidegate.remove("extra.yaml"),
        }
    }

    fn edge(&self, more: &[String]) -> String {
        let own = [
            tcp("tcp", TCP_PORT),
            passthrough("passed", TLS_PORT, "*.passed.test"),
            terminate("terminated", TLS_PORT, "*.terminated.test", &["certificate"]),
        ];
        gateway(&[&own[..], more].concat())
    }

    /// A new one each time.
    fn certificate(&self) -> String {
        secret("certificate", &self.authority.issue(&[TERMINATED]))
    }

    fn passed(&self, weight: usize) -> String {
        let weight = weight as u32;
        tls_route("passed", "passed", "*.passed.test", &[("a", weight), ("b", 10 - weight)])
    }

    /// Endpoints that come and go; there is always one.
    fn services(&self, turn: usize) -> String {
        let of = |at: usize| {
            let first = self.backends[(turn + at) % 4];
            let second = self.backends[(turn + at + 1) % 4];
            if turn.is_multiple_of(2) { vec![first, second] } else { vec![first] }
        };
        service("a", &of(0)) + &service("b", &of(2))
    }
}
