//! Against the kernel itself, over loopback. A datagram that was sent there waits at its receiver when the call returns.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use super::*;

const LARGE: usize = 65_536;

fn socket(ip: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((ip.parse::<IpAddr>().unwrap(), 0)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn receive(batch: &mut Batch, socket: &UdpSocket) -> usize {
    let places = batch.places();
    batch.receive(socket.as_fd(), 0, places, Names::Wanted).unwrap()
}

fn send(socket: &UdpSocket, to: SocketAddr, runs: bool, datagrams: &[&[u8]]) -> send::Sent {
    let mut outbox = Outbox::new(runs);
    datagrams.iter().for_each(|bytes| outbox.push(Some(to), None, None, bytes));
    outbox.send(socket.as_fd())
}

#[test]
fn a_batch_in_both_families() {
    for ip in ["127.0.0.1", "::1"] {
        let (server, server_address) = socket(ip);
        let (client, client_address) = socket(ip);
        let sent = send(&client, server_address, false, &[b"one", b"", b"three"]);
        assert_eq!((sent.datagrams, sent.failed), (3, 0));
        let mut batch = Batch::new(8, 2048);
        assert_eq!(receive(&mut batch, &server), 3);
        for (place, bytes) in [&b"one"[..], b"", b"three"].into_iter().enumerate() {
            assert_eq!(batch.bytes(place), bytes);
            let datagram = batch.datagram(place);
            assert_eq!(datagram.peer, Some(client_address));
            assert_eq!((datagram.local, datagram.segment, datagram.cut), (None, None, false));
        }
        assert_eq!(receive(&mut batch, &server), 0, "nothing waits");
    }
}

#[test]
fn places_are_kept_apart() {
    let (server, to) = socket("127.0.0.1");
    let (client, _) = socket("127.0.0.1");
    let mut batch = Batch::new(4, LARGE);
    send(&client, to, false, &[&[1; 65_507]]);
    assert_eq!(batch.receive(server.as_fd(), 0, 1, Names::Wanted).unwrap(), 1);
    send(&client, to, false, &[&[2; 65_507], &[3; 10]]);
    assert_eq!(batch.receive(server.as_fd(), 1, 1, Names::Wanted).unwrap(), 1);
    assert_eq!(batch.receive(server.as_fd(), 3, 9, Names::Wanted).unwrap(), 1);
    assert_eq!(batch.receive(server.as_fd(), 4, 9, Names::Wanted).unwrap(), 0, "no place is left");
    assert!(batch.bytes(0).iter().all(|byte| *byte == 1) && batch.bytes(0).len() == 65_507);
    assert!(batch.bytes(1).iter().all(|byte| *byte == 2) && batch.bytes(1).len() == 65_507);
    assert_eq!(batch.bytes(3), [3; 10]);
}

/// Binds to every address, says which one a client used, and answers from it.
#[test]
fn the_address_a_client_used() {
    let cases: [(IpAddr, IpAddr); 3] = [
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into()),
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(127, 0, 0, 2).into()),
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
    ];
    for (bound, used) in cases {
        let server = UdpSocket::bind((bound, 0)).unwrap();
        tell_local_address(server.as_fd(), server.local_addr().unwrap()).unwrap();
        let used = SocketAddr::new(used, server.local_addr().unwrap().port());
        let (client, client_address) = socket(if used.is_ipv4() { "127.0.0.1" } else { "::1" });
        client.send_to(b"question", used).unwrap();
        let mut batch = Batch::new(1, 2048);
        assert_eq!(receive(&mut batch, &server), 1);
        assert_eq!(batch.datagram(0).local, Some(used.ip()));

        let mut outbox = Outbox::new(true);
        for answer in [&b"answer"[..], b"ANSWER", b"end"] {
            outbox.push(Some(client_address), Some(used.ip()), None, answer);
        }
        let sent = outbox.send(server.as_fd());
        assert_eq!((sent.datagrams, sent.failed, sent.runs_refused), (3, 0, false));
        let mut bytes = [0; 16];
        for answer in [&b"answer"[..], b"ANSWER", b"end"] {
            let (len, from) = client.recv_from(&mut bytes).unwrap();
            assert_eq!((&bytes[..len], from), (answer, used));
        }
    }
}

#[test]
fn a_socket_bound_to_one_address_need_not_tell() {
    let (server, address) = socket("127.0.0.1");
    tell_local_address(server.as_fd(), address).unwrap();
    let (client, _) = socket("127.0.0.1");
    client.send_to(b"question", address).unwrap();
    let mut batch = Batch::new(1, 2048);
    assert_eq!(receive(&mut batch, &server), 1);
    assert_eq!(batch.datagram(0).local, None);
}

/// A receiver that did not ask for runs sees single datagrams, one that did sees one message.
#[test]
fn runs_there_and_back() {
    for ip in ["127.0.0.1", "::1"] {
        let (plain, plain_address) = socket(ip);
        let (joined, joined_address) = socket(ip);
        receive_runs(joined.as_fd()).unwrap();
        let (client, _) = socket(ip);
        let datagrams: [&[u8]; 5] = [&[1; 100], &[2; 100], &[3; 40], &[4; 100], b""];
        let mut batch = Batch::new(8, LARGE);

        assert_eq!(send(&client, plain_address, true, &datagrams).datagrams, 5);
        assert_eq!(receive(&mut batch, &plain), 5);
        for (place, bytes) in datagrams.into_iter().enumerate() {
            assert_eq!(batch.bytes(place), bytes);
        }

        assert_eq!(send(&client, joined_address, true, &datagrams).datagrams, 5);
        assert_eq!(receive(&mut batch, &joined), 3);
        assert_eq!(batch.bytes(0), [&[1; 100][..], &[2; 100], &[3; 40]].concat());
        assert_eq!(batch.datagram(0).segment, Some(100));
        assert_eq!((batch.bytes(1), batch.datagram(1).segment), (&[4; 100][..], None));
        assert_eq!((batch.bytes(2), batch.datagram(2).segment), (&b""[..], None));

        let mut outbox = Outbox::new(true);
        outbox.push(Some(plain_address), None, Some(100), batch.bytes(0));
        assert_eq!(outbox.send(client.as_fd()).datagrams, 3, "a run is passed on as it came");
        let mut again = Batch::new(8, LARGE);
        assert_eq!(receive(&mut again, &plain), 3);
        assert_eq!([again.bytes(0), again.bytes(1), again.bytes(2)], datagrams[..3]);
    }
}

#[test]
fn a_run_that_is_refused_goes_apart() {
    let (server, to) = socket("127.0.0.1");
    let (client, _) = socket("127.0.0.1");
    let bytes = vec![7; 60_000];
    let mut outbox = Outbox::new(true);
    outbox.push(Some(to), None, Some(100), &bytes);
    let sent = outbox.send(client.as_fd());
    assert!(sent.runs_refused, "600 segments are more than a message may have");
    assert_eq!(sent.datagrams + sent.failed, 600);
    let mut batch = Batch::new(64, 2048);
    assert_eq!(receive(&mut batch, &server), 64);
    assert!((0..64).all(|place| batch.bytes(place) == [7; 100]));
}

#[test]
fn a_long_batch_of_equals_is_several_runs() {
    let (server, to) = socket("127.0.0.1");
    let (client, _) = socket("127.0.0.1");
    let bytes = vec![9; 1400];
    let mut outbox = Outbox::new(true);
    let mut count = 0;
    while !outbox.is_full() {
        outbox.push(Some(to), None, None, &bytes);
        count += 1;
    }
    assert_eq!(count, BATCH);
    let sent = outbox.send(client.as_fd());
    assert_eq!((sent.datagrams, sent.failed, sent.runs_refused), (64, 0, false));
    assert!(outbox.is_empty());
    let mut batch = Batch::new(64, 2048);
    assert_eq!(receive(&mut batch, &server), 64);
}

#[test]
fn what_does_not_fit_is_cut_and_said_so() {
    let (server, to) = socket("127.0.0.1");
    let (client, _) = socket("127.0.0.1");
    send(&client, to, false, &[&[1; 101], &[2; 100]]);
    let mut batch = Batch::new(2, 100);
    assert_eq!(receive(&mut batch, &server), 2);
    assert!(batch.datagram(0).cut);
    assert!(!batch.datagram(1).cut);
    assert_eq!(batch.bytes(1), [2; 100]);
}

#[test]
fn one_that_cannot_be_sent_does_not_hold_up_the_others() {
    let (server, to) = socket("127.0.0.1");
    let (client, _) = socket("127.0.0.1");
    let nowhere = SocketAddr::new(to.ip(), 0);
    let mut outbox = Outbox::new(true);
    for (to, bytes) in [(to, b"1"), (nowhere, b"2"), (to, b"3"), (nowhere, b"4")] {
        outbox.push(Some(to), None, None, bytes);
    }
    let sent = outbox.send(client.as_fd());
    assert_eq!((sent.datagrams, sent.failed), (2, 2));
    assert_eq!(sent.error.map(|error| error.kind()), Some(io::ErrorKind::InvalidInput));
    let mut batch = Batch::new(4, 100);
    assert_eq!(receive(&mut batch, &server), 2);
    assert_eq!([batch.bytes(0), batch.bytes(1)], [b"1", b"3"]);
}

/// What the kernel learns from the network comes as an error of the next call, once.
#[test]
fn a_refusal_is_an_error_once() {
    let (gone, address) = socket("127.0.0.1");
    drop(gone);
    let (client, _) = socket("127.0.0.1");
    client.connect(address).unwrap();
    client.send(b"anyone?").unwrap();
    let mut batch = Batch::new(4, 100);
    let error = batch.receive(client.as_fd(), 0, 4, Names::Known).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(batch.receive(client.as_fd(), 0, 4, Names::Known).unwrap(), 0);
}
