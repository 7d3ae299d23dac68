//! Passthrough: client and backend shake hands with each other, and Tidegate only reads the first message.

use crate::openssl::{Client, Server};
use crate::support::certificate::Authority;
use crate::support::manifest::{file, gateway, passthrough, service, tls_route};
use crate::support::port;
use crate::support::tidegate::Tidegate;

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
    let line = tidegate.nth_line(1);
    assert_eq!(line["sni"], NAME);
    assert_eq!(line["protocol"], "TLS passthrough");
    assert_eq!(line["listener"], "default/gate/vault");
    assert_eq!(line["route"], "TLSRoute default/vault");
    assert_eq!(line["endpoint"], format!("127.0.0.1:{}", server.port));
    assert_eq!(line["ending"], "done");
}

#[test]
fn names_are_the_same_in_capitals_and_with_a_dot() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let server = Server::reversing(&authority.issue(&[NAME]));
    let tidegate = carrying(port, server.port);
    for name in ["VAULT.Example.COM", "vault.example.com."] {
        Client::to(port, name, &authority).ask("level up", "pu level").expect_success();
    }
    assert!((0..2).all(|count| tidegate.nth_line(count)["sni"] == NAME));
}
