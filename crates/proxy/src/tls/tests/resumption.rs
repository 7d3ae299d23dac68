//! Sessions are resumed where they may be, and nowhere else.

use std::sync::Arc;

use rustls::ServerConfig;
use tidegate_plan::{ClientCertificates, Listener, ObjectName, TlsVersion};

use super::support::{Authority, End, World, converse, listener, only, tls_of};
use crate::tls::{Client, Identity, TicketSecret};

const EPOCH: u64 = 4 * 3600;

/// Whether a conversation, which must succeed, resumed an earlier one.
fn resumed(client: &Client, identity: Option<&Identity>, server: &Arc<ServerConfig>) -> bool {
    let (mut client, mut server) = (End::of(client, identity), End::server(server));
    converse(&mut client, &mut server).unwrap();
    assert_eq!(client.codec.agreed().resumed, server.codec.agreed().resumed);
    server.codec.agreed().resumed
}

/// A listener with a certificate for two names, and who issued it.
fn site(world: &mut World, name: &str) -> (Listener, Authority) {
    let authority = Authority::new("CA");
    let certificate = world.certificate(&authority.issue(&["a.example.com", "b.example.com"]));
    (listener(name, vec![certificate]), authority)
}

#[test]
fn a_session_is_resumed_in_both_versions_at_any_worker_or_replica() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let mut world = World::new();
        let (listener, authority) = site(&mut world, "tls");
        let policy = world.policy("a.example.com", &authority);
        let client = world.client(&policy).unwrap();
        let here = only(&world.server(&listener).unwrap(), version);
        // A configuration made anew of the same secret is what another replica has.
        let there = only(&world.server(&listener).unwrap(), version);
        assert!(!resumed(&client, None, &here));
        assert!(resumed(&client, None, &here), "{version}");
        assert!(resumed(&client, None, &there), "{version}");
    }
}

#[test]
fn no_session_crosses_listeners() {
    let mut world = World::new();
    let (one, authority) = site(&mut world, "one");
    let mut others = vec![Listener { id: one.id.clone(), ..one.clone() }; 4];
    others[0].id.name = "two".into();
    others[1].id.gateway = ObjectName::new("default", "other");
    others[2].id.listener_set = Some(ObjectName::new("default", "gateway"));
    // The parts of an id are not just put one behind the other.
    others[3].id.gateway = ObjectName::new("defaultg", "ateway");
    let policy = world.policy("a.example.com", &authority);
    let first = world.server(&one).unwrap();
    for other in &others {
        let client = world.client(&policy).unwrap();
        let other = world.server(other).unwrap();
        assert!(!resumed(&client, None, &first));
        assert!(!resumed(&client, None, &other));
        assert!(resumed(&client, None, &other));
    }
}

#[test]
fn no_session_crosses_secrets() {
    let mut world = World::new();
    let (listener, authority) = site(&mut world, "tls");
    let policy = world.policy("a.example.com", &authority);
    let client = world.client(&policy).unwrap();
    let first = world.server(&listener).unwrap();
    assert!(!resumed(&client, None, &first));
    world.secret = TicketSecret::random().unwrap();
    let other = world.server(&listener).unwrap();
    assert!(!resumed(&client, None, &other));
}

#[test]
fn replicas_that_are_told_one_secret_take_each_others_sessions() {
    let mut world = World::new();
    let (listener, authority) = site(&mut world, "tls");
    let policy = world.policy("a.example.com", &authority);
    let client = world.client(&policy).unwrap();
    let secrets = [TicketSecret::random().unwrap(), TicketSecret::random().unwrap()];
    let replicas = secrets.each_ref().map(|secret| {
        world.secret = secret.clone();
        world.server(&listener).unwrap()
    });
    assert!(!resumed(&client, None, &replicas[0]));
    assert!(!resumed(&client, None, &replicas[1]));
    for secret in &secrets {
        secret.set(&[9; 32]);
    }
    assert!(!resumed(&client, None, &replicas[0]), "what the secret before sealed is no good any more");
    assert!(resumed(&client, None, &replicas[1]));
    assert!(resumed(&client, None, &replicas[0]));
}

#[test]
fn no_session_crosses_rules_for_client_certificates() {
    let mut world = World::new();
    let (open, authority) = site(&mut world, "tls");
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let trusting_ours = world.trusting(&ours);
    let trusting_both = ClientCertificates {
        trust: [trusting_ours.trust.clone(), world.trusting(&theirs).trust].concat(),
        ..trusting_ours.clone()
    };
    let lenient = ClientCertificates { allow_insecure: true, ..trusting_ours.clone() };
    let rules = [None, Some(trusting_ours), Some(trusting_both), Some(lenient)];
    let configs: Vec<_> = rules
        .into_iter()
        .map(|rule| {
            let mut listener = open.clone();
            tls_of(&mut listener).client_certificates = rule;
            world.server(&listener).unwrap()
        })
        .collect();
    let identity = world.identity(&ours.issue(&["client.example.com"]));
    let policy = world.policy("a.example.com", &authority);
    for (from, before) in configs.iter().enumerate() {
        for (to, after) in configs.iter().enumerate() {
            let client = world.client(&policy).unwrap();
            assert!(!resumed(&client, Some(&identity), before));
            assert_eq!(resumed(&client, Some(&identity), after), from == to, "from {from} to {to}");
        }
    }
}

#[test]
fn no_session_crosses_server_names() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let mut world = World::new();
        let (listener, authority) = site(&mut world, "tls");
        let server = only(&world.server(&listener).unwrap(), version);
        let policy = world.policy("a.example.com", &authority);
        let client = world.client(&policy).unwrap();
        let tickets = Arc::new(Tickets::default());
        let mut config = client.config(None).as_ref().clone();
        config.resumption = rustls::client::Resumption::store(Arc::clone(&tickets) as _);
        let config = Arc::new(config);
        let ask = |name: &str| {
            let (mut client, mut server) = (End::client(Arc::clone(&config), name), End::server(&server));
            // The name that the certificate must have is the policy's, whatever name is asked for.
            converse(&mut client, &mut server).unwrap();
            server.codec.agreed().resumed
        };
        assert!(!ask("a.example.com"));
        assert!(ask("a.example.com"));
        assert!(!ask("b.example.com"), "a ticket for another name was taken");
    }
}

/// Gives a ticket to whoever asks, for whatever name, as no honest client does.
#[derive(Debug, Default)]
struct Tickets(std::sync::Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    tls12: Option<rustls::client::Tls12ClientSessionValue>,
    tls13: Vec<rustls::client::Tls13ClientSessionValue>,
}

impl rustls::client::ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: rustls::pki_types::ServerName<'static>, _: rustls::NamedGroup) {}
    fn kx_hint(&self, _: &rustls::pki_types::ServerName<'_>) -> Option<rustls::NamedGroup> {
        None
    }
    fn set_tls12_session(
        &self,
        _: rustls::pki_types::ServerName<'static>,
        value: rustls::client::Tls12ClientSessionValue,
    ) {
        self.0.lock().unwrap().tls12 = Some(value);
    }
    fn tls12_session(
        &self,
        _: &rustls::pki_types::ServerName<'_>,
    ) -> Option<rustls::client::Tls12ClientSessionValue> {
        self.0.lock().unwrap().tls12.clone()
    }
    fn remove_tls12_session(&self, _: &rustls::pki_types::ServerName<'static>) {}
    fn insert_tls13_ticket(
        &self,
        _: rustls::pki_types::ServerName<'static>,
        value: rustls::client::Tls13ClientSessionValue,
    ) {
        self.0.lock().unwrap().tls13.push(value);
    }
    fn take_tls13_ticket(
        &self,
        _: &rustls::pki_types::ServerName<'static>,
    ) -> Option<rustls::client::Tls13ClientSessionValue> {
        self.0.lock().unwrap().tls13.pop()
    }
}

#[test]
fn a_ticket_lives_for_an_epoch_at_least_and_two_at_most() {
    let mut world = World::new();
    let (listener, authority) = site(&mut world, "tls");
    let server = world.server(&listener).unwrap();
    let clock = Arc::clone(&world.clock);
    let ticket = server.ticketer.encrypt(b"session").unwrap();
    let open = || server.ticketer.decrypt(&ticket);
    assert_eq!(open().as_deref(), Some(&b"session"[..]));
    clock.forward(EPOCH);
    assert_eq!(open().as_deref(), Some(&b"session"[..]));
    clock.forward(EPOCH);
    assert_eq!(open(), None);
    assert_eq!(u64::from(server.ticketer.lifetime()), EPOCH);

    // The clients see the same.
    let policy = world.policy("a.example.com", &authority);
    let client = world.client(&policy).unwrap();
    assert!(!resumed(&client, None, &server));
    clock.forward(EPOCH - 1);
    assert!(resumed(&client, None, &server));
    clock.forward(2 * EPOCH);
    assert!(!resumed(&client, None, &server));
}

#[test]
fn a_ticket_that_was_changed_or_cut_is_none() {
    let mut world = World::new();
    let (listener, _) = site(&mut world, "tls");
    let server = world.server(&listener).unwrap();
    let ticket = server.ticketer.encrypt(b"session").unwrap();
    assert_ne!(ticket, server.ticketer.encrypt(b"session").unwrap(), "a nonce is used once");
    for at in 0..ticket.len() {
        let mut changed = ticket.clone();
        changed[at] ^= 1;
        assert_eq!(server.ticketer.decrypt(&changed), None, "byte {at}");
        assert_eq!(server.ticketer.decrypt(&ticket[..at]), None, "cut at {at}");
    }
}

#[test]
fn no_early_data_is_offered() {
    let mut world = World::new();
    let (server, client) = world.pair(TlsVersion::V1_3);
    assert_eq!(server.max_early_data_size, 0);
    assert!(!client.config(None).enable_early_data && !server.send_half_rtt_data);
}
