use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use tidegate_plan::{BackendKind, ObjectName, Transport};

use super::*;

fn addresses(written: &[&str]) -> Vec<IpAddr> {
    written.iter().map(|address| address.parse().unwrap()).collect()
}

#[test]
fn an_answer_counts_for_its_time_to_live_within_bounds() {
    let now = Instant::now();
    let mut known = Known::default();
    for (ttl, pause) in [(0, 1), (1, 1), (30, 30), (300, 300), (86_400, 300)] {
        let v4 = Some((addresses(&["10.0.0.1"]), now + Duration::from_secs(ttl)));
        let none = Some((vec![], now));
        assert_eq!(known.take(v4, none, now).1, Duration::from_secs(pause), "{ttl}");
    }
}

#[test]
fn failures_keep_the_last_answer_and_are_asked_about_less_and_less() {
    let now = Instant::now();
    let mut known = Known::default();
    let good = || Some((addresses(&["10.0.0.2", "10.0.0.1", "10.0.0.1"]), now + Duration::from_secs(60)));
    assert!(known.take(good(), Some((vec![], now)), now).0);
    let pauses: Vec<u64> = (0..7).map(|_| known.take(None, None, now).1.as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32]);
    assert_eq!(known.addresses(), addresses(&["10.0.0.1", "10.0.0.2"]));
    let empty = known.take(Some((vec![], now)), Some((vec![], now)), now);
    assert_eq!(empty, (false, LONGEST_AFTER_FAILURE), "a name without addresses is one that failed");
    assert!(!known.take(good(), None, now).0, "the same as before");
    assert_eq!(known.take(None, None, now).1, SHORTEST, "an answer ends the row of failures");
}

#[test]
fn a_family_that_cannot_be_had_keeps_its_addresses_and_one_that_is_gone_loses_them() {
    let now = Instant::now();
    let mut known = Known::default();
    let v4 = |address| Some((addresses(&[address]), now));
    known.take(v4("10.0.0.1"), Some((addresses(&["2001:db8::1"]), now)), now);
    assert!(known.take(v4("10.0.0.2"), None, now).0);
    assert_eq!(known.addresses(), addresses(&["10.0.0.2", "2001:db8::1"]));
    assert!(known.take(v4("10.0.0.2"), Some((vec![], now)), now).0);
    assert_eq!(known.addresses(), addresses(&["10.0.0.2"]));
}

/// A DNS server on loopback that knows IPv4 addresses with a time to live of 1 s. A name that it does not know does
/// not exist; one without addresses fails.
struct Server {
    address: SocketAddr,
    zone: Arc<Mutex<HashMap<&'static str, Vec<Ipv4Addr>>>>,
    asked: Receiver<String>,
}

impl Server {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let zone: Arc<Mutex<HashMap<&'static str, Vec<Ipv4Addr>>>> = Arc::default();
        let (tell, asked) = channel();
        let known = Arc::clone(&zone);
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            loop {
                let (length, client) = socket.recv_from(&mut buffer).unwrap();
                let (name, reply) = reply(&buffer[..length], &known.lock().unwrap());
                // The test that asked is over.
                if tell.send(name).is_err() {
                    return;
                }
                socket.send_to(&reply, client).unwrap();
            }
        });
        Self { address, zone, asked }
    }

    fn set(&self, name: &'static str, addresses: &[[u8; 4]]) {
        let addresses = addresses.iter().copied().map(Ipv4Addr::from).collect();
        self.zone.lock().unwrap().insert(name, addresses);
    }

    fn next_question(&self) -> String {
        self.asked.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

/// The name that a query asks for, and what RFC 1035 has a server say to it.
fn reply(query: &[u8], zone: &HashMap<&str, Vec<Ipv4Addr>>) -> (String, Vec<u8>) {
    let mut name = String::new();
    let mut at = 12;
    while query[at] != 0 {
        let label = &query[at + 1..at + 1 + usize::from(query[at])];
        name.push_str(&String::from_utf8_lossy(label).to_lowercase());
        name.push('.');
        at += 1 + label.len();
    }
    let (kind, question) = (query[at + 2], &query[12..at + 5]);
    let (code, found) = match zone.get(name.as_str()) {
        None => (3, &[][..]),
        Some(none) if none.is_empty() => (2, &[][..]),
        Some(addresses) if kind == 1 => (0, &addresses[..]),
        Some(_) => (0, &[][..]),
    };
    let mut reply = vec![query[0], query[1], 0x81, 0x80 | code, 0, 1, 0, found.len() as u8, 0, 0, 0, 0];
    reply.extend_from_slice(question);
    for address in found {
        reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        reply.extend_from_slice(&address.octets());
    }
    (name, reply)
}

fn backend(name: &str) -> BackendId {
    let object = ObjectName::new("default", name);
    BackendId { kind: BackendKind::Service, object, port: 80, transport: Transport::Tcp }
}

fn hostname(text: &str) -> Hostname {
    Hostname::parse(text).unwrap()
}

/// A runtime of its own thread, as the control side has one.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn names_are_asked_for_at_once_and_again_until_they_are_forgotten() {
    let server = Server::start();
    server.set("db.example.com.", &[[10, 0, 0, 2], [10, 0, 0, 1]]);
    let runtime = runtime();
    let (tell, answers) = channel();
    let resolver = Resolver::at(server.address).unwrap();
    let mut names = Names::new(runtime.handle().clone(), resolver, move |answer| {
        let _ = tell.send(answer);
    });
    let next = || answers.recv_timeout(Duration::from_secs(20)).unwrap();
    let (db, name) = (backend("db"), hostname("db.example.com"));
    names.follow(&db, &name);
    let answer = |written: &[&str]| Answer {
        backend: backend("db"),
        hostname: hostname("db.example.com"),
        addresses: addresses(written),
    };
    assert_eq!(next(), answer(&["10.0.0.1", "10.0.0.2"]));

    server.set("db.example.com.", &[[10, 0, 0, 3]]);
    assert_eq!(next(), answer(&["10.0.0.3"]));

    server.set("db.example.com.", &[]);
    (0..4).for_each(|_| assert_eq!(server.next_question(), "db.example.com."));
    server.set("db.example.com.", &[[10, 0, 0, 4]]);
    assert_eq!(next(), answer(&["10.0.0.4"]), "no answer in between: failures are not told");

    server.set("other.example.com.", &[[10, 0, 0, 5]]);
    names.follow(&db, &hostname("other.example.com"));
    assert_eq!(next().hostname, hostname("other.example.com"));

    names.forget(&db);
    drop(names);
    // Only what held a sender is gone now: the tasks have ended, not just paused.
    let ended = answers.recv_timeout(Duration::from_secs(20));
    assert_eq!(ended, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn a_name_that_comes_into_being_is_found() {
    let server = Server::start();
    let runtime = runtime();
    let (tell, answers) = channel();
    let resolver = Resolver::at(server.address).unwrap();
    let mut names = Names::new(runtime.handle().clone(), resolver, move |answer: Answer| {
        let _ = tell.send(answer.addresses);
    });
    names.follow(&backend("new"), &hostname("new.example.com"));
    server.next_question();
    assert!(answers.try_recv().is_err());
    server.set("new.example.com.", &[[10, 0, 0, 1]]);
    assert_eq!(answers.recv_timeout(Duration::from_secs(20)).unwrap(), addresses(&["10.0.0.1"]));
}

#[test]
fn the_systems_resolver_knows_localhost() {
    let runtime = runtime();
    let Ok(resolver) = Resolver::system() else { return };
    let found = runtime.block_on(resolver.addresses("localhost.", RecordType::A));
    assert_eq!(found.unwrap().0, addresses(&["127.0.0.1"]));
}
