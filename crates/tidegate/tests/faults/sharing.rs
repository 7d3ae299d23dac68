//! Which addresses are bound, and who shares a socket there.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};

use crate::loopback::manifests::{gateway, passthrough, service, tcp, tcp_route, tls_route};
use crate::loopback::tls::client_hello;
use crate::loopback::traffic::{connect, echo, round_trip};
use crate::loopback::{Tidegate, own_address};

const PORT: u16 = 20_443;

/// The same Gateway for an address of its own.
fn at(address: Ipv4Addr, gateway: &str) -> String {
    let addresses = format!("  addresses: [{{type: IPAddress, value: {address}}}]\n  listeners:\n");
    gateway.replace("  listeners:\n", &addresses)
}

/// Of another Gateway than `edge`.
fn of_other(text: &str) -> String {
    text.replace("name: edge", "name: other")
}

/// Sockets that listen there, as the kernel counts them.
fn sockets(at: SocketAddr) -> usize {
    let SocketAddr::V4(at) = at else { panic!("{at}") };
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(at.ip().octets()), at.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listens = |line: &&str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1) == Some("0A")
    };
    table.lines().filter(listens).count()
}

#[test]
fn over_ipv6() {
    // The port is free a moment later; without IPv6 there is nothing to try.
    let Ok(probe) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) else { return };
    let port = probe.local_addr().unwrap().port();
    drop(probe);
    let text = gateway(&[tcp("tcp", port)])
        + &tcp_route("route", "tcp", &[("backend", 1)])
        + &service("backend", &[echo()]);
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &["--bind=::1"]);
    assert_eq!(tidegate.programmed("tcp").0, "True");
    for to in [SocketAddr::from((Ipv6Addr::LOCALHOST, port)), tidegate.at(port)] {
        let mut stream = connect(to);
        round_trip(&mut stream, b"either").unwrap();
        let client = stream.local_addr().unwrap();
        drop(stream);
        assert_eq!(tidegate.line_of(client)["local"], to.to_string());
    }
}

#[test]
fn the_addresses_of_a_gateway_are_bound_and_no_others() {
    let address = own_address();
    let text = at(address, &gateway(&[tcp("tcp", PORT)]))
        + &tcp_route("route", "tcp", &[("backend", 1)])
        + &service("backend", &[echo()]);
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &[]);
    round_trip(&mut connect((address, PORT).into()), b"here").unwrap();
    assert!(TcpStream::connect(tidegate.at(PORT)).is_err(), "--bind is for those who ask for none");
    let status = tidegate.status("Gateway", "edge");
    assert_eq!(status["status"]["addresses"][0]["value"], address.to_string(), "{status}");
}

#[test]
fn an_address_that_cannot_be_had_takes_no_other_away() {
    let (address, nowhere) = (own_address(), Ipv4Addr::new(192, 0, 2, 1));
    let gateway = at(address, &gateway(&[tcp("tcp", PORT)]));
    let text = gateway
        .replace("addresses: [", &format!("addresses: [{{type: IPAddress, value: {nowhere}}}, "))
        + &tcp_route("route", "tcp", &[("backend", 1)])
        + &service("backend", &[echo()]);
    let tidegate = Tidegate::start(&[("all.yaml", &text)], &[]);
    round_trip(&mut connect((address, PORT).into()), b"here").unwrap();
    let status = &tidegate.status("Gateway", "edge")["status"];
    let addresses: Vec<_> = status["addresses"].as_array().unwrap().iter().map(|one| &one["value"]).collect();
    assert_eq!(addresses, [&address.to_string()]);
    for (kind, reason) in [("Programmed", "AddressNotUsable"), ("AddressesAssigned", "PartiallyAssigned")] {
        let mut conditions = status["conditions"].as_array().unwrap().iter();
        let condition =
            conditions.find(|one| one["type"] == kind).unwrap_or_else(|| panic!("{kind}: {status}"));
        assert_eq!((&condition["status"], &condition["reason"]), (&"False".into(), &reason.into()));
    }
}

/// One asks for no address, the other for the one that is bound anyway: two workers, two sockets.
#[test]
fn gateways_on_one_port_share_its_sockets() {
    let ip = own_address();
    let other = at(ip, &gateway(&[passthrough("tls", PORT, "b.example.com")]));
    let text = gateway(&[passthrough("tls", PORT, "a.example.com")])
        + &tls_route("a", "tls", "a.example.com", &[("backend", 1)])
        + &of_other(&(other + &tls_route("b", "tls", "b.example.com", &[("backend", 1)])))
        + &service("backend", &[echo()]);
    let tidegate = Tidegate::start_on(ip, &[("all.yaml", &text)], &[]);
    assert_eq!(sockets(tidegate.at(PORT)), 2);
    for name in ["edge", "other"] {
        let conditions = tidegate.status("Gateway", name)["status"]["conditions"].clone();
        let programmed = conditions.as_array().unwrap().iter().find(|one| one["type"] == "Programmed");
        assert_eq!(programmed.unwrap()["status"], "True", "{name}: {conditions}");
    }
    for (name, listener) in [("a.example.com", "default/edge/tls"), ("b.example.com", "default/other/tls")] {
        let mut stream = tidegate.connect(PORT);
        round_trip(&mut stream, &client_hello(name)).unwrap();
        let client = stream.local_addr().unwrap();
        drop(stream);
        assert_eq!(tidegate.line_of(client)["listener"], listener);
    }
}
