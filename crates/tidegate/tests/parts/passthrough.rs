//! Passthrough: client and backend shake hands with each other, and Tidegate only reads the first message.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use crate::CURL;
use crate::openssl::{Client, Server};
use crate::support::certificate::Authority;
use crate::support::manifest::{file, gateway, passthrough, service, tls_route};
use crate::support::process::Process;
use crate::support::tidegate::Tidegate;
use crate::support::{PATIENCE, backend, port};

const NAME: &str = "vault.example.com";

/// One name, carried to a port of loopback.
fn carrying(port: u16, backend: u16) -> Tidegate {
    Tidegate::serving(&file([
        gateway([passthrough("vault", port, NAME)]),
        tls_route(NAME, "vault", "vault", "vault"),
        service("vault", backend),
    ]))
}

#[test]
fn the_client_sees_the_certificate_of_the_backend() {
    let (port, authority) = (port::free(), Authority::new("CA of the backend"));
    let server = Server::reversing(&authority.issue(&[NAME]));
    let tidegate = carrying(port, server.port);
    for version in ["-tls1_2", "-tls1_3"] {
        let seen = Client::to(port, NAME, &authority).with(&[version]).ask("stressed", "desserts");
        seen.expect_success().expect("CN = vault.example.com").expect("CN = CA of the backend");
    }
    for line in tidegate.first_lines(2) {
        assert_eq!(line["sni"], NAME);
        assert_eq!(line["protocol"], "TLS passthrough");
        assert_eq!(line["listener"], "default/gate/vault");
        assert_eq!(line["route"], "TLSRoute default/vault");
        assert_eq!(line["endpoint"], format!("127.0.0.1:{}", server.port));
        assert_eq!(line["ending"], "done");
    }
}

#[test]
fn names_are_the_same_in_capitals_and_with_a_dot() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let server = Server::reversing(&authority.issue(&[NAME]));
    let tidegate = carrying(port, server.port);
    for name in ["VAULT.Example.COM", "vault.example.com."] {
        Client::to(port, name, &authority).ask("level up", "pu level").expect_success();
    }
    assert!(tidegate.first_lines(2).iter().all(|line| line["sni"] == NAME));
}

#[test]
fn a_client_that_is_not_carried_is_closed_and_the_log_tells_why() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let tidegate = carrying(port, backend::echo());
    let closed = "unexpected eof while reading";
    Client::to(port, "other.example.com", &authority).look().expect_failure().expect(closed);
    Client::without_name(port, &authority).with(&["-noservername"]).look().expect_failure().expect(closed);
    assert_eq!(tidegate.line("sni", "other.example.com")["ending"], "no_listener_for_sni");
    assert_eq!(tidegate.line("ending", "no_sni")["sni"], serde_json::Value::Null);
    Process::run(Command::new("curl").args(CURL).arg(format!("http://127.0.0.1:{port}/"))).expect_failure();
    let line = tidegate.line("ending", "hello_invalid");
    assert_eq!(line["detail"], "the client speaks HTTP without TLS");
    let (_, journal) = tidegate.get("/refused");
    for word in ["other.example.com", "no_sni", "hello_invalid"] {
        assert!(journal.contains(word), "{journal}");
    }
}

/// A backend that asks clients for certificates itself sees them.
#[test]
fn the_backend_sees_the_certificate_of_the_client() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let folder = tempfile::tempdir().unwrap();
    authority.write(folder.path());
    let demanding = ["-rev", "-Verify", "1", "-verify_return_error", "-CAfile", "ca.crt"];
    let server = Server::start_in(folder.path(), &authority.issue(&[NAME]), &demanding);
    let _tidegate = carrying(port, server.port);
    let client = || Client::to(port, NAME, &authority);
    client().with_identity(&authority.issue(&["device-1"])).ask("live on", "no evil").expect_success();
    client().listen().expect_failure().expect("alert certificate required");
}

/// With `-quiet` OpenSSL goes on listening after its input has ended, until the server has closed.
#[test]
fn a_client_hears_all_until_the_server_closes() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let server = Server::start_in(Path::new("/"), &authority.issue(&[NAME]), &["-www"]);
    let _tidegate = carrying(port, server.port);
    let heard = Client::to(port, NAME, &authority).with(&["-quiet"]).tell("GET / HTTP/1.0\r\n\r\n");
    heard.expect("HTTP/1.0 200 ok").expect("</pre></BODY></HTML>");
}

/// OpenSSL splits its hello into TLS records, and two hundred protocols make it long enough for a number of them.
#[test]
fn a_hello_may_come_in_many_records() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let server = Server::reversing(&authority.issue(&[NAME]));
    let _tidegate = carrying(port, server.port);
    let protocols = (0..200).map(|number| format!("protocol-{number}")).collect::<Vec<_>>().join(",");
    let client = Client::to(port, NAME, &authority).with(&["-max_send_frag", "512", "-alpn", &protocols]);
    client.ask("drawer", "reward").expect_success();
}

/// A real hello, a byte at a time, then a half-close: the backend gets the very bytes, and the client all that comes
/// after it has ended its half.
#[test]
fn bytes_are_unchanged_and_a_half_close_is_carried_over() {
    let port = port::free();
    let tidegate = carrying(port, backend::backwards());
    let hello = hello_of_openssl();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in &hello {
        stream.write_all(&[*byte]).unwrap();
    }
    let more: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    stream.write_all(&more).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer.reverse();
    assert!(answer == [hello, more].concat(), "other bytes came back, {} of them", answer.len());
    let line = tidegate.line("ending", "done");
    assert_eq!(line["bytes_up"], answer.len());
    assert_eq!(line["bytes_down"], answer.len());
}

/// What `openssl s_client` says first.
fn hello_of_openssl() -> Vec<u8> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let _client =
        Process::start(Command::new("openssl").args(["s_client", "-connect", &address, "-servername", NAME]));
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut hello = vec![0; 5];
    stream.read_exact(&mut hello).unwrap();
    hello.resize(5 + usize::from(u16::from_be_bytes([hello[3], hello[4]])), 0);
    stream.read_exact(&mut hello[5..]).unwrap();
    hello
}

#[test]
fn curl_fetches_a_large_file_from_a_server_with_its_own_tls() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(folder.path().join("numbers"), &content).unwrap();
    let server = Server::start_in(folder.path(), &authority.issue(&[NAME]), &["-WWW"]);
    let tidegate = carrying(port, server.port);
    let bundle = authority.write(folder.path());
    for version in ["1.2", "1.3"] {
        let fetched = folder.path().join(version);
        let mut curl = Command::new("curl");
        curl.args(CURL).args(["--http1.1", "--tls-max", version, "--tlsv1.2"]);
        curl.args(["--resolve", &format!("{NAME}:{port}:127.0.0.1")]);
        curl.arg("--cacert").arg(&bundle).arg("--output").arg(&fetched);
        Process::run(curl.arg(format!("https://{NAME}:{port}/numbers"))).expect_success();
        assert!(fs::read(&fetched).unwrap() == content, "the file is another with TLS {version}");
    }
    assert!(tidegate.first_lines(2).iter().all(|line| line["protocol"] == "TLS passthrough"));
}
