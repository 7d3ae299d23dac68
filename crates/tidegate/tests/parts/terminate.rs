//! Terminated TLS: the handshake is with Tidegate, the backend gets plain bytes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;

use crate::CURL;
use crate::openssl::{Client, Server};
use crate::support::certificate::Authority;
use crate::support::manifest::{
    backend_tls, config_map, file, gateway, https, offering, passthrough, route, secret, service, tcp,
    terminate, terminate_for, tls_route,
};
use crate::support::process::Process;
use crate::support::tidegate::Tidegate;
use crate::support::{backend, port};

const NAME: &str = "mqtt.example.com";

#[test]
fn the_client_sees_the_certificate_of_the_listener() {
    let (port, authority) = (port::free(), Authority::new("CA of the gate"));
    let tidegate = Tidegate::serving(&file([
        gateway([terminate("mqtt", port, NAME, &["cert"])]),
        tls_route(NAME, "mqtt", "mqtt", "echo"),
        service("echo", backend::echo()),
        secret("cert", &authority.issue(&[NAME])),
    ]));
    for (version, told) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let client = Client::to(port, NAME, &authority).with(&[version]);
        client.ask("hello there", "hello there").expect_success().expect("CN = CA of the gate").expect(told);
    }
    Client::to(port, "MQTT.example.com.", &authority).ask("once more", "once more").expect_success();
    for line in tidegate.first_lines(3) {
        assert_eq!((&line["protocol"], &line["ending"]), (&"TLS terminate".into(), &"done".into()));
        assert_eq!(line["sni"], NAME);
    }
    // Of plain bytes, not of records.
    let line = tidegate.line("tls", "1.2");
    assert_eq!((&line["bytes_up"], &line["bytes_down"]), (&12.into(), &12.into()));
}

#[test]
fn the_client_decides_which_kind_of_key_it_is_shown() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let kinds = [&rcgen::PKCS_RSA_SHA256, &rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519];
    let [rsa, ecdsa, ed25519] = kinds.map(|kind| authority.issue_as(&[NAME], kind));
    let _tidegate = Tidegate::serving(&file([
        gateway([terminate("mqtt", port, NAME, &["rsa", "ecdsa", "ed25519"])]),
        tls_route(NAME, "mqtt", "mqtt", "echo"),
        service("echo", backend::echo()),
        secret("rsa", &rsa),
        secret("ecdsa", &ecdsa),
        secret("ed25519", &ed25519),
    ]));
    for version in ["-tls1_2", "-tls1_3"] {
        for (algorithm, shown) in [
            ("RSA-PSS+SHA256", "PKEY: rsaEncryption"),
            ("ECDSA+SHA256", "PKEY: id-ecPublicKey"),
            ("ed25519", "PKEY: ED25519"),
        ] {
            let client = Client::to(port, NAME, &authority).with(&[version, "-sigalgs", algorithm]);
            client.ask("which one?", "which one?").expect_success().expect(shown);
        }
    }
}

/// With a ticket, and never from one listener to another even where both show one certificate.
#[test]
fn sessions_are_resumed_on_their_own_listener() {
    let [here, there] = [port::free(), port::free()];
    let authority = Authority::new("CA");
    let _tidegate = Tidegate::serving(&file([
        gateway([terminate("here", here, NAME, &["cert"]), terminate("there", there, NAME, &["cert"])]),
        tls_route(NAME, "here", "here", "echo"),
        tls_route(NAME, "there", "there", "echo"),
        service("echo", backend::echo()),
        secret("cert", &authority.issue(&[NAME])),
    ]));
    let folder = tempfile::tempdir().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let session = folder.path().join(version);
        let client = |port| Client::to(port, NAME, &authority).with(&[version]);
        let first = client(here).with_file("-sess_out", &session).ask("first tide", "first tide");
        first.expect_success().expect("New, ");
        let resumed = |port| {
            client(port).with_file("-sess_in", &session).ask("next tide", "next tide").expect_success()
        };
        resumed(there).expect("New, ");
        // Whichever worker it comes to.
        for _ in 0..6 {
            resumed(here).expect("Reused, ");
        }
    }
}

/// One ClientHello decides between a backend's own TLS, terminated TLS and a web site.
#[test]
fn one_port_serves_all_kinds() {
    let port = port::free();
    let [own, gate] = ["CA of the backend", "CA of the gate"].map(Authority::new);
    let vault = Server::reversing(&own.issue(&["vault.example.com"]));
    let site_port = backend::site();
    let tidegate = Tidegate::serving(&file([
        gateway([
            passthrough("vault", port, "vault.example.com"),
            terminate("mqtt", port, NAME, &["mqtt"]),
            https("www", port, "www.example.com", &["www"]),
        ]),
        tls_route("vault.example.com", "vault", "vault", "vault"),
        tls_route(NAME, "mqtt", "mqtt", "echo"),
        route("HTTPRoute", "www", "www", "site"),
        service("vault", vault.port),
        service("echo", backend::echo()),
        service("site", site_port),
        secret("mqtt", &gate.issue(&[NAME])),
        secret("www", &gate.issue(&["www.example.com"])),
    ]));
    Client::to(port, "vault.example.com", &own).ask("parts", "strap").expect_success();
    Client::to(port, NAME, &gate).ask("parts", "parts").expect_success();
    let folder = tempfile::tempdir().unwrap();
    let site = Process::run(
        Command::new("curl")
            .args(CURL)
            .arg("--include")
            .args(["--resolve", &format!("www.example.com:{port}:127.0.0.1")])
            .arg("--cacert")
            .arg(gate.write(folder.path()))
            .arg(format!("https://www.example.com:{port}/a?b")),
    );
    site.expect_success().expect("HTTP/2 200").expect("GET /a?b HTTP/1.1");
    for (name, protocol) in
        [("vault.example.com", "TLS passthrough"), (NAME, "TLS terminate"), ("www.example.com", "HTTPS")]
    {
        assert_eq!(tidegate.line("sni", name)["protocol"], protocol);
    }
    assert_eq!(tidegate.line("sni", "www.example.com")["status"], 200);
}

#[test]
fn a_hello_may_come_in_many_records() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let _tidegate = Tidegate::serving(&file([
        gateway([terminate("mqtt", port, NAME, &["cert"])]),
        tls_route(NAME, "mqtt", "mqtt", "echo"),
        service("echo", backend::echo()),
        secret("cert", &authority.issue(&[NAME])),
    ]));
    let protocols = (0..200).map(|number| format!("protocol-{number}")).collect::<Vec<_>>().join(",");
    let client = Client::to(port, NAME, &authority).with(&["-max_send_frag", "512", "-alpn", &protocols]);
    client.ask("long hello", "long hello").expect_success();
}

/// By ALPN, as the owner of the listener lists it; without a list nothing is agreed on.
#[test]
fn protocols_are_agreed_on_as_the_listener_lists_them() {
    let [listed, open] = [port::free(), port::free()];
    let authority = Authority::new("CA");
    let tidegate = Tidegate::serving(&file([
        gateway([
            terminate_for("mqtt, x-amzn-mqtt-ca", "listed", listed, NAME, &["cert"]),
            terminate("open", open, NAME, &["cert"]),
        ]),
        tls_route(NAME, "listed", "listed", "echo"),
        tls_route(NAME, "open", "open", "echo"),
        service("echo", backend::echo()),
        secret("cert", &authority.issue(&[NAME])),
    ]));
    let none = "No ALPN negotiated";
    for (port, offered, told) in [
        (listed, "x-amzn-mqtt-ca,mqtt", "ALPN protocol: mqtt\n"),
        (listed, "h2,x-amzn-mqtt-ca", "ALPN protocol: x-amzn-mqtt-ca\n"),
        (open, "mqtt", none),
    ] {
        for version in ["-tls1_2", "-tls1_3"] {
            let client = Client::to(port, NAME, &authority).with(&[version, "-alpn", offered]);
            client.ask("which one?", "which one?").expect_success().expect(told);
        }
    }
    Client::to(listed, NAME, &authority).ask("any?", "any?").expect_success().expect(none);
    Client::to(listed, NAME, &authority)
        .with(&["-alpn", "h2,http/1.1"])
        .look()
        .expect_failure()
        .expect("SSL alert number 120");
    assert_eq!(tidegate.line("ending", "no_common_protocol")["listener"], "default/gate/listed");
    assert_eq!(tidegate.line("alpn", "mqtt")["ending"], "done");
}

/// What the client has agreed on, or what the policy says, over it and where there is nothing to carry over.
#[test]
fn a_backend_is_offered_a_protocol_in_its_turn() {
    const INSIDE: &str = "inside.example.com";
    let ports @ [carried, over, plain] = [port::free(), port::free(), port::free()];
    let [outside, inside] = ["CA of the gate", "CA of the backend"].map(Authority::new);
    // It tells what it was offered when it ends, after so many connections.
    let server = |protocols, connections| {
        let arguments = ["-rev", "-alpn", protocols, "-naccept", connections];
        Server::start_in(Path::new("/"), &inside.issue(&[INSIDE]), &arguments)
    };
    let (mut ours, mut theirs) = (server("mqtt", "1"), server("theirs", "2"));
    let _tidegate = Tidegate::serving(&file([
        gateway([
            terminate_for("mqtt", "carried", carried, NAME, &["cert"]),
            terminate_for("mqtt", "over", over, NAME, &["cert"]),
            tcp("plain", plain),
        ]),
        tls_route(NAME, "carried", "carried", "ours"),
        tls_route(NAME, "over", "over", "theirs"),
        route("TCPRoute", "plain", "plain", "theirs"),
        service("ours", ours.port),
        service("theirs", theirs.port),
        backend_tls("ours", INSIDE, "inside"),
        backend_tls("theirs", INSIDE, "inside") + &offering("theirs"),
        config_map("inside", &inside.pem),
        secret("cert", &outside.issue(&[NAME])),
    ]));
    for port in &ports[..2] {
        let client = Client::to(*port, NAME, &outside).with(&["-alpn", "mqtt"]);
        client.ask("parts", "strap").expect_success().expect("ALPN protocol: mqtt\n");
    }
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, plain)).unwrap();
    stream.write_all(b"parts\n").unwrap();
    let mut answer = [0; 6];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"strap\n");
    drop(stream);
    ours.says("ALPN protocols advertised by the client: mqtt");
    theirs.says("ALPN protocols advertised by the client: theirs");
    assert!(!theirs.said().contains("mqtt"), "{}", theirs.said());
}
