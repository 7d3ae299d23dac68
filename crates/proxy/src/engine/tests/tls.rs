//! Sessions that read a hello, terminate TLS, or speak it to their backend; the peers are codecs of their own.

use std::sync::Arc;
use std::time::Duration;

use tidegate_plan::{BackendTls, Handling, Reason, ServerTls, TlsVersion};

use super::play::{NAME, Play};
use super::stage::Stage;
use crate::Ending;
use crate::tls::TlsError;
use crate::tls::tests::support::{Authority, End, World, listener, protocols, tls_of};

/// The first words of a client that asks for a name.
fn hello(name: &str) -> Vec<u8> {
    let (_, client) = World::new().pair(TlsVersion::V1_3);
    let mut end = End::client(client.config(None), name);
    end.read(&[]).unwrap();
    end.wire
}

fn passthrough() -> Stage {
    Stage::of(&Play { handling: Handling::Passthrough, ..Play::default() }, &[1])
}

/// A listener that terminates TLS, and a client that trusts it.
fn terminate(endpoints: &[u8]) -> (Stage, End) {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let certificates = vec![world.certificate(&authority.issue(&[NAME]))];
    let tls = world.server(&listener("db", certificates.clone())).unwrap();
    let policy = world.policy(NAME, &authority);
    let client = world.client(&policy).unwrap();
    let handling = Handling::Terminate(ServerTls { certificates, ..ServerTls::default() });
    let mut client = End::of(&client, None);
    client.read(&[]).unwrap();
    (Stage::of(&Play { handling, tls: Some(tls), upstream: None }, endpoints), client)
}

/// A TCP listener whose backend is spoken to in TLS, and what makes endpoints that it trusts, or does not.
fn reencrypt(endpoints: &[u8]) -> (Stage, impl Fn(bool) -> End) {
    let mut world = World::new();
    let (good, bad) = (Authority::new("CA"), Authority::new("of nobody"));
    let [good_config, bad_config] = [&good, &bad].map(|authority| {
        let certificate = world.certificate(&authority.issue(&[NAME]));
        world.server(&listener("backend", vec![certificate])).unwrap()
    });
    let policy = world.policy(NAME, &good);
    let client = Arc::new(world.client(&policy).unwrap());
    let stage = Stage::of(&Play { upstream: Some((policy, client)), ..Play::default() }, endpoints);
    (stage, move |trusted| End::server(if trusted { &good_config } else { &bad_config }))
}

/// A listener that terminates TLS and takes these protocols, a client that offers those, and a backend of a policy,
/// which takes any of both.
fn end_to_end(taken: &[&str], offered: &[&str]) -> (Stage, End, End) {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let certificates = vec![world.certificate(&authority.issue(&[NAME]))];
    let mut front = listener("db", certificates);
    let policy = world.policy(NAME, &authority);
    let client = world.client(&BackendTls { alpn: protocols(offered), ..policy.clone() }).unwrap();
    let upstream = Arc::new(world.client(&policy).unwrap());
    tls_of(&mut front).alpn = protocols(&[offered, taken].concat());
    let backend = End::server(&world.server(&front).unwrap());
    tls_of(&mut front).alpn = protocols(taken);
    let tls = Some(world.server(&front).unwrap());
    let mut client = End::of(&client, None);
    client.read(&[]).unwrap();
    let play = Play { handling: front.handling, tls, upstream: Some((policy, upstream)) };
    (Stage::of(&play, &[1]), client, backend)
}

/// Carries words between the session and its client until neither has more.
fn talk_to_client(stage: &mut Stage, client: &mut End) {
    loop {
        let said = std::mem::take(&mut client.wire);
        if !said.is_empty() {
            stage.client_says(&said);
        }
        let heard = stage.client_hears();
        if said.is_empty() && heard.is_empty() {
            return;
        }
        client.read(&heard).unwrap();
    }
}

/// The same with the backend; what that thinks of the session is its own concern.
fn talk_to_backend(stage: &mut Stage, backend: &mut End) {
    loop {
        let heard = stage.backend_hears();
        let _ = backend.read(&heard);
        let said = std::mem::take(&mut backend.wire);
        if said.is_empty() && heard.is_empty() {
            return;
        }
        stage.backend_says(&said);
    }
}

#[test]
fn a_hello_is_passed_through_as_it_came() {
    let hello = hello(NAME);
    for pieces in [hello.len(), 100, 1] {
        let mut stage = passthrough();
        let mut heard = Vec::new();
        for piece in hello.chunks(pieces) {
            stage.client_says(piece);
        }
        assert_eq!(stage.dialed(), [(1, true)]);
        loop {
            let some = stage.backend_hears();
            if some.is_empty() {
                break;
            }
            heard.extend(some);
        }
        assert_eq!(heard, hello);
        stage.backend_says(b"server hello");
        assert_eq!(stage.client_hears(), b"server hello");
    }
}

#[test]
fn a_hello_for_nobody_is_refused() {
    let mut stage = passthrough();
    stage.client_says(&hello("b.example.com"));
    assert_eq!(stage.ended, Some(Ending::Refused(Reason::NoRoute)));

    let mut stage = passthrough();
    stage.client_says(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(stage.ended, Some(Ending::HelloInvalid));

    let mut stage = passthrough();
    stage.bounds.hello_size = 100;
    stage.client_says(&hello(NAME));
    assert_eq!(stage.ended, Some(Ending::HelloInvalid));
}

#[test]
fn a_hello_has_its_time() {
    let mut stage = passthrough();
    stage.pass(Duration::from_secs(5));
    stage.client_says(&hello(NAME)[..50]);
    stage.pass(Duration::from_secs(4));
    assert_eq!(stage.ended, None);
    stage.pass(Duration::from_secs(2));
    assert_eq!(stage.ended, Some(Ending::HelloTimeout), "it counts from the beginning");

    let mut stage = passthrough();
    stage.client_says_and_ends(&hello(NAME)[..50]);
    assert_eq!(stage.ended, Some(Ending::ClientGone));
}

#[test]
fn what_is_terminated_comes_out_as_plain_bytes() {
    let (mut stage, mut client) = terminate(&[2]);
    talk_to_client(&mut stage, &mut client);
    client.send(b"ping");
    talk_to_client(&mut stage, &mut client);
    stage.backend_answers();
    assert_eq!(stage.backend_hears(), b"ping");
    stage.backend_says(b"pong");
    talk_to_client(&mut stage, &mut client);
    assert_eq!(client.plain, b"pong");
    stage.backend_ends();
    talk_to_client(&mut stage, &mut client);
    assert!(client.codec.peer_has_closed(), "the end is told in TLS");
    client.codec.close(&mut client.wire);
    talk_to_client(&mut stage, &mut client);
    assert_eq!(stage.ended, Some(Ending::Done));
}

#[test]
fn a_handshake_with_the_client_that_fails() {
    let (mut stage, client) = terminate(&[1]);
    stage.client_says(&client.wire);
    stage.pass(Duration::from_secs(9));
    assert_eq!(stage.ended, None);
    stage.pass(Duration::from_secs(2));
    assert_eq!(stage.ended, Some(Ending::HandshakeTimeout));

    let (mut stage, client) = terminate(&[1]);
    stage.client_says(&client.wire);
    stage.client_says(b"\x17\x03\x03\x00\x20 this is no record of that key, not at all");
    assert_eq!(stage.ended, Some(Ending::HandshakeFailed));

    let (mut stage, client) = terminate(&[1]);
    stage.client_says(&client.wire);
    stage.client_resets();
    assert_eq!(stage.ended, Some(Ending::ClientGone));
    assert!(stage.dialed().is_empty());
}

#[test]
fn plain_bytes_go_to_the_backend_in_tls() {
    let (mut stage, endpoint) = reencrypt(&[1]);
    let mut backend = endpoint(true);
    stage.client_says(b"ping");
    talk_to_backend(&mut stage, &mut backend);
    assert_eq!(backend.plain, b"ping");
    backend.send(b"pong");
    let said = std::mem::take(&mut backend.wire);
    stage.backend_says(&said);
    assert_eq!(stage.client_hears(), b"pong");
    assert_eq!(stage.endpoints_seen(), (1, 0));
}

/// What the client said waits until an endpoint has proved itself, and goes to that one whole.
#[test]
fn another_endpoint_is_asked_where_one_fails_in_its_handshake() {
    for fault in ["no TLS", "no trust", "reset", "end", "silence"] {
        let (mut stage, endpoint) = reencrypt(&[2, 4]);
        stage.client_says(b"ping");
        stage.backend_answers();
        match fault {
            "no TLS" => stage.backend_says(b"-ERR this is no TLS\r\n"),
            "no trust" => {
                let mut backend = endpoint(false);
                // Until the session has seen the certificate and turned to the other.
                while stage.dialed().len() == 1 {
                    let heard = stage.backend_hears();
                    let _ = backend.read(&heard);
                    let said = std::mem::take(&mut backend.wire);
                    stage.backend_says(&said);
                }
            }
            "reset" => stage.backend_resets(),
            "end" => stage.backend_hangs_up(),
            _ => stage.pass(Duration::from_secs(2)),
        }
        assert_eq!(stage.dialed().len(), 2, "{fault}");
        assert_ne!(stage.dialed()[0].0, stage.dialed()[1].0, "{fault}");
        assert_eq!(stage.endpoints_seen(), (0, 1), "{fault}");
        assert!(!stage.client_was_reset(), "{fault}");
        stage.backend_answers();
        let mut backend = endpoint(true);
        talk_to_backend(&mut stage, &mut backend);
        assert_eq!(backend.plain, b"ping", "{fault}");
        assert_eq!((stage.endpoints_seen(), stage.session.up.bytes), ((1, 1), 4), "{fault}");
    }
}

#[test]
fn when_no_endpoint_is_left_the_handshake_has_failed() {
    let (mut stage, _) = reencrypt(&[1]);
    stage.client_says(b"ping");
    stage.backend_says(b"-ERR this is no TLS\r\n");
    assert_eq!(stage.ended, Some(Ending::BackendHandshakeFailed));
    assert!(stage.client_was_reset());
    assert!(!stage.session.is_relaying());
    assert_eq!(stage.endpoints_seen(), (0, 1));

    let (mut stage, _) = reencrypt(&[1]);
    stage.client_says(b"ping");
    stage.pass(Duration::from_secs(4));
    assert_eq!(stage.ended, None);
    stage.pass(Duration::from_secs(2));
    assert_eq!(stage.ended, Some(Ending::ConnectTimeout));
    assert_eq!(stage.endpoints_seen(), (0, 1));
}

#[test]
fn a_client_that_resets_during_the_backends_handshake_is_noticed() {
    let (mut stage, _) = reencrypt(&[1]);
    stage.client_says(b"ping");
    stage.client_resets();
    assert_eq!(stage.ended, Some(Ending::ClientReset));
    assert!(stage.backend_was_reset());
    assert_eq!(stage.endpoints_seen(), (0, 0), "the endpoint is not to blame");
}

#[test]
fn what_was_agreed_on_with_the_client_is_offered_to_the_backend() {
    for (taken, offered, agreed) in [
        (&["postgresql"][..], &["pg", "postgresql"][..], Some(&b"postgresql"[..])),
        (&["postgresql"], &[], None),
        (&[], &["postgresql"], None),
    ] {
        let (mut stage, mut client, mut backend) = end_to_end(taken, offered);
        talk_to_client(&mut stage, &mut client);
        assert_eq!(client.codec.agreed().alpn, agreed, "{taken:?} {offered:?}");
        client.send(b"ping");
        talk_to_client(&mut stage, &mut client);
        talk_to_backend(&mut stage, &mut backend);
        assert_eq!(backend.codec.agreed().alpn, agreed, "{taken:?} {offered:?}");
        assert_eq!(backend.plain, b"ping");
    }
}

#[test]
fn a_client_that_offers_only_other_protocols_is_told_so() {
    let (mut stage, mut client, _) = end_to_end(&["postgresql"], &["h2"]);
    stage.client_says(&client.wire);
    assert_eq!(stage.ended, Some(Ending::Refused(Reason::NoCommonProtocol)));
    assert!(stage.dialed().is_empty());
    let told = client.read(&stage.client_hears());
    assert_eq!(told, Err(TlsError::Alert("NoApplicationProtocol")));
}
