//! A server that speaks first: an SSH server greets before the client has said a word.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::openssl;
use crate::support::certificate::Authority;
use crate::support::manifest::{file, gateway, route, secret, service, tcp, terminate, tls_route};
use crate::support::process::Process;
use crate::support::tidegate::Tidegate;
use crate::support::{PATIENCE, port};

/// `dropbear` with a key of its own.
struct Server {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        let made = Process::run(Command::new("dropbearkey").args(["-t", "ed25519", "-f"]).arg(&key));
        made.expect_success();
        let port = port::free();
        let mut command = Command::new("dropbear");
        command.args(["-F", "-E", "-p", &format!("127.0.0.1:{port}"), "-P", "", "-r"]).arg(&key);
        let mut process = Process::start(&mut command);
        port::wait_until_open(port, &mut process);
        Self { port, _process: process, _folder: folder }
    }
}

/// The greeting and how long it took from connecting on.
fn greeting(port: u16) -> (String, Duration) {
    let start = Instant::now();
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let time = start.elapsed();
    // Until the server has done with this one, for it takes only a few strangers at a time.
    reader.get_ref().shutdown(Shutdown::Write).unwrap();
    let _ = reader.read_to_end(&mut Vec::new());
    (line, time)
}

/// Nothing waits for a first byte of the client or for an acknowledgement that is put off, which would take 40 to 200
/// milliseconds each time. The best of many leaves out what else the machine does.
#[test]
fn the_greeting_comes_at_once() {
    let (port, server) = (port::free(), Server::start());
    let _tidegate = Tidegate::serving(&file([
        gateway([tcp("ssh", port)]),
        route("TCPRoute", "ssh", "ssh", "ssh"),
        service("ssh", server.port),
    ]));
    let (mut direct, mut through) = (Duration::MAX, Duration::MAX);
    for _ in 0..30 {
        let (expected, time) = greeting(server.port);
        direct = direct.min(time);
        let (line, time) = greeting(port);
        through = through.min(time);
        assert!(line.starts_with("SSH-2.0-dropbear"), "{line:?}");
        assert_eq!(line, expected);
    }
    assert!(through < 10 * direct, "{direct:?} without Tidegate, {through:?} with it");
}

/// Behind TLS that Tidegate takes off, too. Most of the time is OpenSSL's own here; with a server of OpenSSL's it only
/// shakes hands.
#[test]
fn the_greeting_comes_at_once_behind_terminated_tls() {
    const NAME: &str = "ssh.example.com";
    let (port, server, authority) = (port::free(), Server::start(), Authority::new("CA"));
    let direct = openssl::Server::reversing(&authority.issue(&[NAME]));
    let _tidegate = Tidegate::serving(&file([
        gateway([terminate("ssh", port, NAME, &["cert"])]),
        tls_route(NAME, "ssh", "ssh", "ssh"),
        service("ssh", server.port),
        secret("cert", &authority.issue(&[NAME])),
    ]));
    let best = |port, words| {
        let once = |_| {
            let start = Instant::now();
            let client = openssl::Client::to(port, NAME, &authority).hear(words);
            let time = start.elapsed();
            drop(client);
            time
        };
        (0..15).map(once).min().unwrap()
    };
    let (direct, through) = (best(direct.port, "Verify return code"), best(port, "SSH-2.0-dropbear"));
    assert!(through < 5 * direct, "{direct:?} for a handshake, {through:?} with the greeting");
}
