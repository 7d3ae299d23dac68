//! A name server behind one port number, over UDP and TCP.

use std::process::Command;

use tempfile::TempDir;

use crate::support::manifest::{file, gateway, route, service, tcp, udp};
use crate::support::port;
use crate::support::process::{Finished, Process};
use crate::support::tidegate::Tidegate;

/// `dnsmasq` with a few names, one of which has an answer that is too long for a datagram.
struct NameServer {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

/// Each fits into a datagram, all of them do not.
const LONG: usize = 40;

impl NameServer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (port, user) = (port::free(), Process::run(Command::new("id").arg("-un")).expect_success());
        let mut command = Command::new("dnsmasq");
        command.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file=",
            "--no-resolv",
            "--no-hosts",
        ]);
        command.args(["--listen-address=127.0.0.1", "--bind-interfaces", "--log-facility=-"]);
        // As root it would become somebody else and could be stopped by nobody else.
        command.args([format!("--port={port}"), format!("--user={}", user.stdout.trim())]);
        command.args(["--host-record=www.dns.test,192.0.2.7", "--edns-packet-max=4096"]);
        for number in 0..LONG {
            command.arg(format!("--txt-record=long.dns.test,{number}-{}", "x".repeat(100)));
        }
        let mut process = Process::start(&mut command);
        port::wait_until_open(port, &mut process);
        Self { port, _process: process, _folder: folder }
    }
}

fn dig(port: u16, words: &[&str]) -> Finished {
    let mut command = Command::new("dig");
    command.args(["@127.0.0.1", "-p", &port.to_string(), "+tries=5", "+time=5"]);
    Process::run(command.args(words)).expect_success()
}

#[test]
fn names_are_answered_over_udp_and_tcp_on_one_port() {
    let (port, server) = (port::free(), NameServer::start());
    let manifests = file([
        gateway([udp("dns-udp", port), tcp("dns-tcp", port)]),
        route("UDPRoute", "dns-udp", "dns-udp", "dns"),
        route("TCPRoute", "dns-tcp", "dns-tcp", "dns"),
        service("dns", server.port),
    ]);
    let tidegate = Tidegate::serving_with(&manifests, &["--udp-idle-time=2s"]);
    for transport in ["+notcp", "+tcp"] {
        let answer = dig(port, &["www.dns.test", "+short", transport]);
        assert_eq!(answer.stdout.trim(), "192.0.2.7", "{transport}");
    }
    // What is too long for a datagram is asked for again over TCP, at the same port.
    let answer = dig(port, &["long.dns.test", "TXT", "+bufsize=512"]);
    let answer = answer.expect("Truncated, retrying in TCP mode").expect("(TCP)");
    assert_eq!(answer.stdout.matches("-xxxx").count(), LONG);
    for (protocol, route, ending) in
        [("TCP", "TCPRoute default/dns-tcp", "done"), ("UDP", "UDPRoute default/dns-udp", "flow_idle")]
    {
        let line = tidegate.line("protocol", protocol);
        assert_eq!((&line["route"], &line["ending"]), (&route.into(), &ending.into()), "{line}");
        assert_eq!(line["endpoint"], format!("127.0.0.1:{}", server.port));
    }
}
