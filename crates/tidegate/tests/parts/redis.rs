//! Redis, which speaks TLS from the first byte on a port of its own: every way to carry TLS leads to it.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::support::certificate::{Authority, Identity};
use crate::support::manifest::{
    backend_tls, config_map, file, gateway, gateway_with, passthrough, route, secret, service, tcp,
    terminate, tls_route,
};
use crate::support::port;
use crate::support::process::{Finished, Process};
use crate::support::tidegate::Tidegate;

const NAME: &str = "cache.example.com";
const INSIDE: &str = "redis.internal.example.com";

struct Redis {
    plain: u16,
    tls: u16,
    _process: Process,
    _folder: TempDir,
}

impl Redis {
    /// `clients`: whose certificates it demands.
    fn start(identity: &Identity, clients: Option<&Authority>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = identity.write(folder.path(), "redis");
        let (plain, tls) = (port::free(), port::free());
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &plain.to_string(), "--tls-port", &tls.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--dir"]).arg(folder.path());
        command.arg("--tls-cert-file").arg(files.certificate).arg("--tls-key-file").arg(files.key);
        match clients {
            None => command.args(["--tls-auth-clients", "no"]),
            Some(authority) => command.arg("--tls-ca-cert-file").arg(authority.write(folder.path())),
        };
        let mut process = Process::start(&mut command);
        process.says("Ready to accept connections");
        Self { plain, tls, _process: process, _folder: folder }
    }
}

/// `redis-cli` to Tidegate, with TLS where it knows an authority.
struct Cli {
    port: u16,
    authority: Option<PathBuf>,
    _folder: TempDir,
}

impl Cli {
    fn plain(port: u16) -> Self {
        Self { port, authority: None, _folder: tempfile::tempdir().unwrap() }
    }

    fn tls(port: u16, authority: &Authority) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { port, authority: Some(authority.write(folder.path())), _folder: folder }
    }

    fn run(&self, words: &[&str]) -> Finished {
        let mut command = Command::new("redis-cli");
        command.args(["-e", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        if let Some(authority) = &self.authority {
            command.args(["--tls", "--sni", NAME, "--cacert"]).arg(authority);
        }
        Process::run(command.args(words))
    }

    #[track_caller]
    fn keeps_a_value(&self) {
        let long = "long ".repeat(20_000);
        assert_eq!(self.run(&["SET", "key", &long]).expect_success().stdout.trim(), "OK");
        assert_eq!(self.run(&["GET", "key"]).expect_success().stdout.trim(), long.trim());
    }
}

#[test]
fn passthrough_to_its_tls_port() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let redis = Redis::start(&authority.issue(&[NAME]), None);
    let tidegate = Tidegate::serving(&file([
        gateway([passthrough("cache", port, NAME)]),
        tls_route(NAME, "cache", "cache", "redis"),
        service("redis", redis.tls),
    ]));
    Cli::tls(port, &authority).keeps_a_value();
    assert!(tidegate.first_lines(2).iter().all(|line| line["protocol"] == "TLS passthrough"));
}

#[test]
fn terminated_for_its_plain_port() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let redis = Redis::start(&authority.issue(&[INSIDE]), None);
    let _tidegate = Tidegate::serving(&file([
        gateway([terminate("cache", port, NAME, &["cache"])]),
        tls_route(NAME, "cache", "cache", "redis"),
        service("redis", redis.plain),
        secret("cache", &authority.issue(&[NAME])),
    ]));
    Cli::tls(port, &authority).keeps_a_value();
}

/// A terminating listener and one for clients without TLS, in front of a backend with it.
fn reencrypting(ports: [u16; 2], gate: &Authority, backend: &str, spec: &str) -> String {
    let [tls, plain] = ports;
    file([
        gateway_with(spec, [terminate("cache", tls, NAME, &["cache"]), tcp("plain", plain)]),
        tls_route(NAME, "cache", "cache", "redis"),
        route("TCPRoute", "plain", "plain", "redis"),
        secret("cache", &gate.issue(&[NAME])),
        backend.to_owned(),
    ])
}

#[test]
fn encrypted_again_for_its_tls_port() {
    let [outside, inside] = ["CA of the gate", "CA of the backend"].map(Authority::new);
    let ports = [port::free(), port::free()];
    let redis = Redis::start(&inside.issue(&[INSIDE]), None);
    let backend = file([
        service("redis", redis.tls),
        backend_tls("redis", INSIDE, "inside"),
        config_map("inside", &inside.pem),
    ]);
    let tidegate = Tidegate::serving(&reencrypting(ports, &outside, &backend, ""));
    Cli::tls(ports[0], &outside).keeps_a_value();
    Cli::plain(ports[1]).keeps_a_value();
    assert!(tidegate.first_lines(4).iter().all(|line| line["ending"] == "done"));
}

#[test]
fn a_backend_that_cannot_prove_its_name_gets_nothing() {
    let [outside, inside] = ["CA of the gate", "CA of the backend"].map(Authority::new);
    let redis = Redis::start(&inside.issue(&[INSIDE]), None);
    for (hostname, trusted) in
        [(INSIDE, &Authority::new("another CA")), ("other.internal.example.com", &inside)]
    {
        let ports = [port::free(), port::free()];
        let backend = file([
            service("redis", redis.tls),
            backend_tls("redis", hostname, "inside"),
            config_map("inside", &trusted.pem),
        ]);
        let tidegate = Tidegate::serving(&reencrypting(ports, &outside, &backend, ""));
        Cli::tls(ports[0], &outside).run(&["PING"]).expect_failure();
        Cli::plain(ports[1]).run(&["PING"]).expect_failure();
        for line in tidegate.first_lines(2) {
            assert_eq!(line["ending"], "backend_handshake_failed", "{line}");
            assert!(line["detail"].is_string(), "{line}");
        }
    }
}

#[test]
fn the_gateway_shows_its_own_certificate_where_one_is_demanded() {
    let [outside, inside] = ["CA of the gate", "CA of the backend"].map(Authority::new);
    let redis = Redis::start(&inside.issue(&[INSIDE]), Some(&inside));
    let own = "  tls: {backend: {clientCertificateRef: {name: own}}}\n";
    for (spec, is_let_in) in [(own, true), ("", false)] {
        let ports = [port::free(), port::free()];
        let backend = file([
            service("redis", redis.tls),
            backend_tls("redis", INSIDE, "inside"),
            config_map("inside", &inside.pem),
            secret("own", &inside.issue(&["gate.internal.example.com"])),
        ]);
        let tidegate = Tidegate::serving(&reencrypting(ports, &outside, &backend, spec));
        if is_let_in {
            Cli::tls(ports[0], &outside).keeps_a_value();
            Cli::plain(ports[1]).keeps_a_value();
        } else {
            Cli::tls(ports[0], &outside).run(&["PING"]).expect_failure();
            // TLS 1.3 tells a client late that its certificate is missed: after its first bytes have gone out.
            let line = &tidegate.first_lines(1)[0];
            let ending = line["ending"].as_str().unwrap();
            assert!(["backend_handshake_failed", "backend_tls"].contains(&ending), "{line}");
        }
    }
}
