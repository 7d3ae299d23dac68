//! Which listener takes a connection, and with which certificate.

mod support;

use support::*;
use tidegate_plan::*;

#[test]
fn nobody_answers_where_there_is_no_listener() {
    let tables = tables([tcp("tcp", 9000), tcp_route("r", "tcp")]);
    assert_eq!(admitted(&tables, &bytes(9000, Transport::Tcp)), "tcp -> r");
    assert_eq!(admitted(&tables, &bytes(9001, Transport::Tcp)), "no_listener");
    assert_eq!(admitted(&tables, &bytes(9000, Transport::Udp)), "no_listener");
}

#[test]
fn tcp_and_udp_share_a_port_number() {
    let tables = tables([tcp("t", 53), udp("u", 53), tcp_route("over-tcp", "t"), udp_route("over-udp", "u")]);
    assert_eq!(admitted(&tables, &bytes(53, Transport::Tcp)), "t -> over-tcp");
    assert_eq!(admitted(&tables, &bytes(53, Transport::Udp)), "u -> over-udp");
}

#[test]
fn the_most_specific_hostname_wins_over_all_tls_listeners_of_the_port() {
    let tables = tables([
        https("any", ""),
        terminate("wide", "*.example.com"),
        passthrough("narrow", "*.b.example.com"),
        https("exact", "a.b.example.com"),
        tls_route("w", "wide", &["*.example.com"]),
        tls_route("n", "narrow", &["*.example.com"]),
    ]);
    for (sni, taken_by) in [
        (Some("a.b.example.com"), "exact"),
        (Some("x.b.example.com"), "narrow -> n"),
        (Some("x.y.b.example.com"), "narrow -> n"),
        (Some("b.example.com"), "wide -> w"),
        (Some("x.y.example.com"), "wide -> w"),
        (Some("example.com"), "any"),
        (Some("other.org"), "any"),
        (None, "any"),
    ] {
        assert_eq!(admitted(&tables, &hello(sni)), taken_by, "{sni:?}");
    }
}

#[test]
fn no_other_listener_steps_in_for_the_chosen_one() {
    let tables = tables([
        passthrough("wide", "*.example.com"),
        passthrough("exact", "a.example.com"),
        tls_route("r", "wide", &["*.example.com"]),
    ]);
    assert_eq!(admitted(&tables, &hello(Some("a.example.com"))), "no_route");
    assert_eq!(admitted(&tables, &hello(Some("b.example.com"))), "wide -> r");
}

#[test]
fn without_a_listener_for_the_name_the_reason_says_whether_there_was_a_name() {
    let tables = tables([https("a", "a.example.com")]);
    assert_eq!(admitted(&tables, &hello(None)), "no_sni");
    assert_eq!(admitted(&tables, &hello(Some("b.example.com"))), "no_listener_for_sni");
    assert_eq!(admitted(&tables, &hello(Some("10.0.0.1"))), "no_listener_for_sni");
    assert_eq!(admitted(&tables, &bytes(443, Transport::Tcp)), "not_tls");
}

#[test]
fn an_sni_is_read_in_any_case_and_with_a_trailing_dot() {
    let tables = tables([https("any", ""), https("exact", "a.example.com"), https("wild", "*.example.com")]);
    for sni in ["a.example.com", "A.EXAMPLE.com", "a.example.com.", "A.Example.Com."] {
        assert_eq!(admitted(&tables, &hello(Some(sni))), "exact", "{sni}");
    }
    assert_eq!(admitted(&tables, &hello(Some("B.EXAMPLE.COM."))), "wild");
    // No hostname at all: only the listener that asks for none.
    for sni in ["a..example.com", ".example.com", "a.example.com..", "[::1]", "a b.example.com"] {
        assert_eq!(admitted(&tables, &hello(Some(sni))), "any", "{sni}");
    }
}

#[test]
fn a_listener_that_refuses_keeps_its_names() {
    let tables = tables([
        https("any", ""),
        https("checked", "a.example.com").refuse(Reason::NoClientCa),
        http("plain", "a.example.com").refuse(Reason::ListenerInvalid),
        http("others", ""),
        http_route("r", "others", &[], &[&[prefix("/")]]),
    ]);
    assert_eq!(admitted(&tables, &hello(Some("a.example.com"))), "no_client_ca");
    assert_eq!(admitted(&tables, &hello(Some("b.example.com"))), "any");
    assert_eq!(plain(&tables, &get("a.example.com", "/")), "500 listener_invalid");
    assert_eq!(plain(&tables, &get("b.example.com", "/")), "others -> r/0/0");
}

#[test]
fn listeners_with_addresses_answer_there_and_the_others_everywhere() {
    let tables = tables([
        https("own", "a.example.com").at("10.0.0.1").at("fd00::1"),
        https("everywhere", "b.example.com"),
    ]);
    let at = |address, sni| admitted(&tables, &hello_to(local(address, 443), Some(sni)));
    for address in ["10.0.0.1", "fd00::1", "::ffff:10.0.0.1"] {
        assert_eq!(at(address, "a.example.com"), "own", "{address}");
        assert_eq!(at(address, "b.example.com"), "everywhere", "{address}");
    }
    assert_eq!(at("10.0.0.2", "a.example.com"), "no_listener_for_sni");
    assert_eq!(at("10.0.0.2", "b.example.com"), "everywhere");
}

#[test]
fn on_an_address_the_hostname_decides_first_and_then_who_asked_for_the_address() {
    let tables = tables([
        https("own-any", "").at("10.0.0.1"),
        https("own", "a.example.com").at("10.0.0.1"),
        https("everywhere", "a.example.com"),
        https("everywhere-b", "b.example.com"),
    ]);
    let at = |address, sni| admitted(&tables, &hello_to(local(address, 443), Some(sni)));
    assert_eq!(at("10.0.0.1", "a.example.com"), "own");
    assert_eq!(at("10.0.0.2", "a.example.com"), "everywhere");
    assert_eq!(at("10.0.0.1", "b.example.com"), "everywhere-b");
    assert_eq!(at("10.0.0.1", "c.example.com"), "own-any");
}

#[test]
fn who_asked_for_the_address_decides_what_is_done_with_a_connection() {
    let tables =
        tables([tcp("own", 443).at("10.0.0.1"), tcp_route("r", "own"), https("everywhere", "a.example.com")]);
    assert_eq!(admitted(&tables, &hello(Some("a.example.com"))), "own -> r");
    assert_eq!(admitted(&tables, &hello_to(local("10.0.0.2", 443), Some("a.example.com"))), "everywhere");
    assert_eq!(tables.expects(local("10.0.0.1", 443), Transport::Tcp), Some(Expects::Bytes));
    assert_eq!(tables.expects(local("10.0.0.2", 443), Transport::Tcp), Some(Expects::Hello));
    assert_eq!(tables.expects(local("10.0.0.2", 80), Transport::Tcp), None);
}

#[test]
fn sockets_are_one_for_each_address_and_port() {
    let tables = tables([
        https("a", "a.example.com"),
        https("b", "b.example.com"),
        https("c", "c.example.com").at("10.0.0.1"),
        http("plain", ""),
        udp("dns", 53),
    ]);
    let mut sockets: Vec<_> = tables.sockets().collect();
    sockets.sort();
    let own = Some("10.0.0.1".parse().unwrap());
    let expected = [
        (None, 53, Transport::Udp),
        (None, 80, Transport::Tcp),
        (None, 443, Transport::Tcp),
        (own, 443, Transport::Tcp),
    ];
    assert_eq!(sockets, expected);
}

/// The Secret of the certificate that is shown.
fn shown(tables: &Tables, sni: Option<&str>) -> String {
    match tables.admit(&hello(sni), &mut ()) {
        Ok(
            Admission::Https { certificate, .. } | Admission::Stream { certificate: Some(certificate), .. },
        ) => certificate.secret.name.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_certificate_is_the_one_that_names_the_server() {
    let names: &[&[&str]] = &[&["first.example"], &["*.example.com"], &["a.example.com", "*.x.example.com"]];
    let tables = tables([
        https("https", "").change(|listener| listener.handling = Handling::Https(certificates(names))),
        terminate("tls", "*.x.example.com")
            .change(|listener| listener.handling = Handling::Terminate(certificates(names))),
        tls_route("r", "tls", &["*.example.com"]),
    ]);
    for (sni, secret) in [
        (Some("a.example.com"), "cert-2"),
        (Some("A.EXAMPLE.com."), "cert-2"),
        (Some("b.example.com"), "cert-1"),
        (Some("a.x.example.com"), "cert-2"),
        // In a certificate, unlike in a listener, a wildcard stands for one label: the first is all there is.
        (Some("a.b.example.com"), "cert-0"),
        (Some("a.b.x.example.com"), "cert-0"),
        (Some("example.com"), "cert-0"),
        (Some("other.org"), "cert-0"),
        (None, "cert-0"),
    ] {
        assert_eq!(shown(&tables, sni), secret, "{sni:?}");
    }
}

#[test]
fn a_listener_without_certificates_refuses() {
    let tables = tables([
        https("https", "").change(|listener| listener.handling = Handling::Https(ServerTls::default()))
    ]);
    assert_eq!(admitted(&tables, &hello(Some("a.example.com"))), "no_certificate");
}

#[test]
fn alpn_gives_the_version_of_http() {
    let tables = tables([https("https", "")]);
    let version = |alpn: &[&[u8]]| {
        let hello = Some(Hello { sni: None, alpn });
        match tables.admit(&Connection { hello, ..hello_to(local("10.0.0.1", 443), None) }, &mut ()) {
            Ok(Admission::Https { version, .. }) => Ok(version),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.reason),
        }
    };
    assert_eq!(version(&[]), Ok(HttpVersion::Http1));
    assert_eq!(version(&[b"http/1.1", b"h2"]), Ok(HttpVersion::Http2));
    assert_eq!(version(&[b"foo", b"http/1.1"]), Ok(HttpVersion::Http1));
    assert_eq!(version(&[b"foo"]), Err(Reason::NoCommonProtocol));
}

/// What is agreed on with a client that offers these, by a listener that takes those.
fn agreed(taken: &[&str], offered: &[&[u8]]) -> Result<Option<String>, Reason> {
    let tables = tables([
        terminate("tls", "").change(|listener| {
            let alpn = taken.iter().map(|name| protocol(name)).collect();
            listener.handling = Handling::Terminate(ServerTls { alpn, ..certificates(&[&["a.example"]]) });
        }),
        tls_route("r", "tls", &["a.example"]),
    ]);
    let hello = Some(Hello { sni: Some("a.example"), alpn: offered });
    match tables.admit(&Connection { hello, ..hello_to(local("10.0.0.1", 443), None) }, &mut ()) {
        Ok(Admission::Stream { protocol, .. }) => Ok(protocol.map(ToString::to_string)),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal.reason),
    }
}

#[test]
fn what_is_in_terminated_tls_is_for_its_owner_to_say() {
    let some = |name: &str| Ok(Some(name.to_owned()));
    assert_eq!(agreed(&[], &[b"postgresql"]), Ok(None), "nobody said what it is");
    assert_eq!(agreed(&["postgresql"], &[b"postgresql"]), some("postgresql"));
    assert_eq!(agreed(&["h2", "http/1.1"], &[b"http/1.1", b"h2"]), some("h2"), "the listener prefers");
    assert_eq!(agreed(&["h2", "http/1.1"], &[b"spdy/3", b"http/1.1"]), some("http/1.1"));
    assert_eq!(agreed(&["postgresql"], &[]), Ok(None), "a client need not offer any");
    assert_eq!(agreed(&["postgresql"], &[b"h2"]), Err(Reason::NoCommonProtocol));
    assert_eq!(agreed(&["postgresql"], &[b"PostgreSQL"]), Err(Reason::NoCommonProtocol), "by byte");
}

/// An older one would agree on nothing, and let in whoever offers something else.
#[test]
fn a_data_plane_must_know_of_protocols_where_there_are_some() {
    let with = |alpn: Vec<ApplicationProtocol>| {
        let tls = ServerTls { alpn, ..certificates(&[&["a.example"]]) };
        let listener = terminate("tls", "").change(|listener| listener.handling = Handling::Terminate(tls));
        Fragment::new(listener).needs
    };
    assert!(with(vec![protocol("postgresql")]).contains(&Capability::Alpn));
    assert!(!with(vec![]).contains(&Capability::Alpn));
}
