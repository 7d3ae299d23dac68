//! Hellos of real clients, sent while the test runs: rustls in memory, OpenSSL, curl and Go to a listener on
//! loopback. Debian's `openssl` and `curl` must be installed; Go is asked where it is there.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use rustls::client::{EchConfig, EchGreaseConfig, EchMode};
use rustls::crypto::aws_lc_rs::hpke::ALL_SUPPORTED_SUITES;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::{EchConfigListBytes, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tidegate_hello::{HelloError, Limits};

use crate::build::{PATIENT, Said, long, read_at_once, read_dripped, records, short};
use crate::oracle;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Captured {
    client: &'static str,
    pub(crate) wire: Vec<u8>,
    said: Said,
}

/// Those of every client. Made once, since mutating them asks for them thousands of times.
pub(crate) fn real() -> &'static [&'static Captured] {
    static ALL: LazyLock<Vec<&'static Captured>> = LazyLock::new(|| {
        [&RUSTLS, &OPENSSL, &CURL, &GO].into_iter().flat_map(|hellos| hellos.iter()).collect()
    });
    &ALL
}

static RUSTLS: LazyLock<Vec<Captured>> = LazyLock::new(rustls_hellos);
static OPENSSL: LazyLock<Vec<Captured>> = LazyLock::new(openssl_hellos);
static CURL: LazyLock<Vec<Captured>> = LazyLock::new(curl_hellos);
static GO: LazyLock<Vec<Captured>> = LazyLock::new(go_hellos);

#[test]
fn rustls_clients() {
    RUSTLS.iter().for_each(check);
    let largest = RUSTLS.iter().map(|captured| captured.wire.len()).max().unwrap();
    assert!(largest > 1_216, "no hello holds an ML-KEM-768 share: {largest} bytes at most");
}

#[test]
fn openssl_clients() {
    OPENSSL.iter().for_each(check);
    let small = OPENSSL.iter().find(|captured| captured.client == SMALL_RECORDS).expect("there is one");
    assert_eq!(small.wire[3..5], 512_u16.to_be_bytes(), "openssl did not split its hello");
}

#[test]
fn curl_clients() {
    CURL.iter().for_each(check);
    let plain = curl("http://127.0.0.1:PORT/", &[]);
    assert_eq!(read_at_once(&plain, Limits::default()), Err(HelloError::LooksLikeHttp));
}

#[test]
fn go_clients() {
    GO.iter().for_each(check);
}

fn openssl_hellos() -> Vec<Captured> {
    let long_alpn = (0..200).map(|n| format!("protocol-{n}")).collect::<Vec<_>>();
    let cases: [(&'static str, Vec<&str>, Said); 5] = [
        (
            "openssl",
            vec!["-min_protocol", "TLSv1.2", "-servername", "WWW.Example.com", "-alpn", "h2,http/1.1"],
            said(Some("www.example.com"), &["h2", "http/1.1"], &[0x0304, 0x0303]),
        ),
        (
            "openssl without a name",
            vec!["-min_protocol", "TLSv1.2", "-noservername"],
            said(None, &[], &[0x0304, 0x0303]),
        ),
        (
            "openssl with TLS 1.2 alone",
            vec!["-servername", "a.example.", "-tls1_2"],
            said(Some("a.example"), &[], &[0x0303]),
        ),
        (
            "openssl with TLS 1.0 alone",
            vec!["-servername", "old.example", "-tls1", "-cipher", "ALL:@SECLEVEL=0"],
            said(Some("old.example"), &[], &[0x0301]),
        ),
        (
            SMALL_RECORDS,
            vec!["-tls1_3", "-servername", "small.example", "-max_send_frag", "512", "-alpn", LONG_ALPN],
            Said {
                alpn: long_alpn.iter().map(|name| name.clone().into_bytes()).collect(),
                ..said(Some("small.example"), &[], &[0x0304])
            },
        ),
    ];
    let long_alpn = long_alpn.join(",");
    let hellos = cases.into_iter().map(|(client, arguments, said)| {
        let wire = capture(|port| {
            let mut command = Command::new("openssl");
            command.args(["s_client", "-connect", &format!("127.0.0.1:{port}")]);
            command.args(
                arguments.iter().map(|&argument| if argument == LONG_ALPN { &long_alpn } else { argument }),
            );
            command
        });
        Captured { client, wire, said }
    });
    hellos.collect()
}

const SMALL_RECORDS: &str = "openssl with small records";
const LONG_ALPN: &str = "(two hundred protocols)";

fn curl(url: &str, more: &[&str]) -> Vec<u8> {
    capture(|port| {
        let mut command = Command::new("curl");
        command.args(["--disable", "--silent", "--tlsv1.2", "--noproxy", "*"]);
        command.args(["--resolve", &format!("*:{port}:127.0.0.1")]);
        command.args(more).arg(url.replace("PORT", &port.to_string()));
        command
    })
}

fn curl_hellos() -> Vec<Captured> {
    let both = [0x0304, 0x0303];
    vec![
        Captured {
            client: "curl",
            wire: curl("https://Curl.Example:PORT/", &[]),
            said: said(Some("curl.example"), &["h2", "http/1.1"], &both),
        },
        Captured {
            client: "curl with HTTP/1.1 alone",
            wire: curl("https://curl.example:PORT/", &["--http1.1"]),
            said: said(Some("curl.example"), &["http/1.1"], &both),
        },
        Captured {
            client: "curl to an address",
            wire: curl("https://127.0.0.1:PORT/", &[]),
            said: said(None, &["h2", "http/1.1"], &both),
        },
    ]
}

/// They are post-quantum by default, with extensions in an order of their own. None where there is no Go.
fn go_hellos() -> Vec<Captured> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("client");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hello/client.go");
    let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(source).output();
    let Ok(built) = built else {
        eprintln!("left out: there is no Go on this machine, and its hellos are not read");
        return Vec::new();
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let go = |arguments: &[&str]| {
        capture(|port| {
            let mut command = Command::new(&program);
            command.arg(format!("127.0.0.1:{port}")).args(arguments);
            command
        })
    };
    vec![
        Captured {
            client: "Go",
            wire: go(&["Go.Example", "1.3", "h2", "http/1.1"]),
            said: said(Some("go.example"), &["h2", "http/1.1"], &[0x0304, 0x0303]),
        },
        Captured {
            client: "Go with TLS 1.2 alone",
            wire: go(&["go.example.", "1.2"]),
            said: said(Some("go.example"), &[], &[0x0303]),
        },
        Captured {
            client: "Go to an address",
            wire: go(&["192.0.2.1", "1.3", "mqtt"]),
            said: said(None, &["mqtt"], &[0x0304, 0x0303]),
        },
    ]
}

fn said(name: Option<&str>, alpn: &[&str], versions: &[u16]) -> Said {
    Said {
        server_name: name.map(str::to_owned),
        alpn: alpn.iter().map(|name| name.as_bytes().to_vec()).collect(),
        versions: versions.to_vec(),
        ech: false,
        early_data: false,
    }
}

/// The hello says what it should: as it came, byte by byte, and in records of other sizes.
fn check(captured: &Captured) {
    let Captured { client, wire, said } = captured;
    let expected = Ok(Some(said.clone()));
    assert_eq!(read_at_once(wire, Limits::default()), expected, "{client}");
    let (taken, dripped) = read_dripped(wire, Limits::default());
    assert_eq!(dripped, expected, "{client}, byte by byte");
    let message = without_record_headers(&wire[..taken]);
    for size in [1, 2, 5, 100, 500] {
        let wire = records(&message, size);
        assert_eq!(
            read_dripped(&wire, PATIENT),
            (wire.len(), expected.clone()),
            "{client}, records of {size}"
        );
    }
    oracle::check(wire);
}

fn without_record_headers(mut wire: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    while let [22, 3, _, high, low, rest @ ..] = wire {
        let (payload, later) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        message.extend_from_slice(payload);
        wire = later;
    }
    message
}

/// What a client sends first to a listener that never answers.
fn capture(client: impl FnOnce(u16) -> Command) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let port = listener.local_addr().expect("a bound listener has an address").port();
    let mut command = client(port);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let wire = accept(&listener).map(read_first_flight);
    child.kill().expect("a client that was not waited for can be killed");
    child.wait().expect("a killed client can be waited for");
    wire.unwrap_or_else(|| panic!("{command:?} did not connect"))
}

fn accept(listener: &TcpListener) -> Option<TcpStream> {
    listener.set_nonblocking(true).expect("a listener can be told not to block");
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match listener.accept() {
            Ok((stream, _)) => return Some(stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("accept: {error}"),
        }
    }
    None
}

fn read_first_flight(mut stream: TcpStream) -> Vec<u8> {
    stream.set_nonblocking(false).expect("a stream can be told to block");
    stream.set_read_timeout(Some(PATIENCE)).expect("a stream takes a timeout");
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while read_at_once(&seen, Limits::default()) == Ok(None) {
        let len = stream.read(&mut buffer).expect("a client that connected sends");
        assert_ne!(len, 0, "the client closed after {} bytes", seen.len());
        seen.extend_from_slice(&buffer[..len]);
    }
    seen
}

fn rustls_hellos() -> Vec<Captured> {
    let classic = || provider(&[kx_group::X25519, kx_group::SECP256R1]);
    let post_quantum = || provider(&[kx_group::X25519MLKEM768, kx_group::X25519]);
    let safe = |provider| {
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions that the provider knows")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth()
    };
    let ech = |mode| {
        ClientConfig::builder_with_provider(post_quantum())
            .with_ech(mode)
            .expect("ECH with TLS 1.3")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth()
    };
    let both = [0x0304, 0x0303];
    let name = Some("www.example.com");
    let outer = said(Some("public.example"), &["h2", "http/1.1"], &[0x0304]);
    let greased = said(name, &["h2", "http/1.1"], &[0x0304]);
    let cases = [
        ("rustls", safe(classic()), "www.example.com", said(name, &["h2", "http/1.1"], &both)),
        (
            "rustls, post-quantum",
            safe(post_quantum()),
            "www.example.com",
            said(name, &["h2", "http/1.1"], &both),
        ),
        ("rustls to an address", safe(classic()), "192.0.2.1", said(None, &["h2", "http/1.1"], &both)),
        ("rustls with GREASE ECH", ech(grease_ech()), "www.example.com", Said { ech: true, ..greased }),
        ("rustls with ECH", ech(real_ech()), "hidden.example", Said { ech: true, ..outer }),
    ];
    cases
        .into_iter()
        .map(|(client, config, name, said)| Captured { client, wire: hello_of(config, name), said })
        .collect()
}

fn hello_of(mut config: ClientConfig, name: &str) -> Vec<u8> {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from(name.to_owned()).expect("a name or an address");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut wire = Vec::new();
    client.write_tls(&mut wire).expect("a vector takes all bytes");
    wire
}

fn provider(groups: &[&'static dyn SupportedKxGroup]) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { kx_groups: groups.to_vec(), ..default_provider() })
}

fn grease_ech() -> EchMode {
    let suite = ALL_SUPPORTED_SUITES[0];
    let (public_key, _) = suite.generate_key_pair().expect("a key pair");
    EchMode::Grease(EchGreaseConfig::new(suite, public_key))
}

/// A configuration as DNS would give it (RFC 9849 4), with the X25519 base point for a key: nobody needs to
/// decrypt.
fn real_ech() -> EchMode {
    let mut public_key = [0; 32];
    public_key[0] = 9;
    let x25519_sha256_aes128 = [&[7, 0, 0x20][..], &long(&public_key), &long(&[0, 1, 0, 1])].concat();
    let contents = [x25519_sha256_aes128, vec![64], short(b"public.example"), long(&[])].concat();
    let config = [&[0xfe, 0x0d][..], &long(&contents)].concat();
    let list = EchConfigListBytes::from(long(&config));
    EchConfig::new(list, ALL_SUPPORTED_SUITES).expect("a usable configuration").into()
}
