//! What a client sends reaches the backend, what that answers reaches the client, and nobody else.

use std::collections::HashSet;

use super::*;

#[test]
fn there_and_back() {
    let mut echo = Echo::new("a:");
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let client = Client::new(address);
    for question in ["one", "", "three"] {
        let answer = client.ask(question, &mut worker, &mut [&mut echo]);
        assert_eq!(answer, Some(format!("a:{question}")));
    }
    assert_eq!(worker.udp.flows(), 1);
    assert_eq!(HashSet::<_>::from_iter(echo.heard).len(), 1, "one flow is one sender to the backend");

    worker.now += Duration::from_secs(2);
    worker.with(|udp, ctx| udp.end_all(Ending::Shutdown, ctx));
    let ended = &worker.told.ended[0];
    assert_eq!((ended.client, ended.local), (client.address(), address));
    assert_eq!((ended.route.as_str(), ended.endpoint), ("route", echo.address));
    assert_eq!((ended.up.datagrams, ended.up.bytes), (3, 8));
    assert_eq!((ended.down.datagrams, ended.down.bytes), (3, 14));
    assert_eq!((ended.lasted, ended.ending), (Duration::from_secs(2), Ending::Shutdown));
    assert_eq!((worker.udp.flows(), worker.told.places), (0, 0));
}

#[test]
fn large_ones_and_ipv6() {
    let mut echo = Echo::at("[::1]:0".parse().unwrap(), "");
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let address = worker.listen("::1");
    let client = Client::new(address);
    let large = "x".repeat(65_000);
    assert_eq!(client.ask(&large, &mut worker, &mut [&mut echo]).as_ref(), Some(&large));
}

/// A client of one family can have an endpoint of the other.
#[test]
fn from_one_family_to_the_other() {
    let mut echo = Echo::at("[::1]:0".parse().unwrap(), "six:");
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let client = Client::new(worker.listen("127.0.0.1"));
    assert_eq!(client.ask("hello", &mut worker, &mut [&mut echo]).unwrap(), "six:hello");
}

#[test]
fn two_clients_do_not_hear_each_other() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let clients = [Client::new(address), Client::new(address)];
    for round in 0..3 {
        for (number, client) in clients.iter().enumerate() {
            client.send(format!("{round} of {number}"));
        }
        worker.turn();
        echo.answer();
        worker.turn();
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(client.heard().unwrap(), format!("{round} of {number}").into_bytes());
            assert_eq!(client.heard(), None);
        }
    }
    assert_eq!(worker.udp.flows(), 2);
}

/// A connected client takes answers from the address it sent to, and no other.
#[test]
fn answers_leave_from_the_address_that_was_asked() {
    for (bound, asked) in
        [("0.0.0.0", "127.0.0.1"), ("0.0.0.0", "127.0.0.2"), ("127.0.0.3", "127.0.0.3"), ("::", "::1")]
    {
        let mut echo = Echo::new("");
        let mut worker = Worker::new(&bounds(10), to(&[&echo]));
        let port = worker.listen(bound).port();
        let asked = SocketAddr::new(asked.parse().unwrap(), port);
        let client = Client::new(asked);
        assert_eq!(client.ask("hello", &mut worker, &mut [&mut echo]).as_deref(), Some("hello"), "{asked}");
        worker.with(|udp, ctx| udp.end_all(Ending::Shutdown, ctx));
        assert_eq!(worker.told.ended[0].local, asked);
    }
}

#[test]
fn two_addresses_of_the_machine_are_two_flows_of_one_client() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let port = worker.listen("0.0.0.0").port();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    let asked = ["127.0.0.1", "127.0.0.2"].map(|ip| SocketAddr::new(ip.parse().unwrap(), port));
    for (address, question) in asked.into_iter().zip([b"1", b"2"]) {
        client.send_to(question, address).unwrap();
    }
    worker.turn();
    echo.answer();
    worker.turn();
    let mut answers = HashSet::new();
    let mut bytes = [0; 1];
    for _ in asked {
        let (_, from) = client.recv_from(&mut bytes).unwrap();
        answers.insert((from, bytes[0]));
    }
    assert_eq!(answers, HashSet::from([(asked[0], b'1'), (asked[1], b'2')]));
    assert_eq!(worker.udp.flows(), 2);
}

/// More than one read takes, in sizes that make runs and in sizes that do not, all mixed up.
#[test]
fn bursts_keep_their_order_and_their_bounds() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let clients = [Client::new(address), Client::new(address), Client::new(address)];
    let size = |client: usize, number: usize| match client {
        0 => 64,
        1 => number % 5 * 10,
        _ => {
            if number % 4 == 3 {
                20
            } else {
                60
            }
        }
    };
    let datagram = |client: usize, number: usize| {
        let mut bytes = vec![client as u8; size(client, number)];
        bytes.iter_mut().take(1).for_each(|byte| *byte = number as u8);
        bytes
    };
    for round in 0..3 {
        for number in 0..70 {
            for (client, socket) in clients.iter().enumerate() {
                socket.send(datagram(client, number));
            }
        }
        worker.turn();
        echo.answer();
        worker.turn();
        for (client, socket) in clients.iter().enumerate() {
            for number in 0..70 {
                assert_eq!(socket.heard(), Some(datagram(client, number)), "{round} {client} {number}");
            }
            assert_eq!(socket.heard(), None);
        }
    }
    assert_eq!(worker.udp.mishaps().unsent.get(), 0);
    worker.with(|udp, ctx| udp.end_all(Ending::Shutdown, ctx));
    assert!(worker.told.ended.iter().all(|flow| flow.up.datagrams == 210 && flow.down == flow.up));
}

#[test]
fn a_backend_may_answer_often_or_unasked() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let client = Client::new(worker.listen("127.0.0.1"));
    client.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
    for number in 0..150_u8 {
        echo.socket.send_to(&[number; 30], echo.heard[0]).unwrap();
    }
    worker.turn();
    for number in 0..150_u8 {
        assert_eq!(client.heard(), Some(vec![number; 30]));
    }
}

#[test]
fn weights_hold_per_flow() {
    let mut echoes = [Echo::new("a"), Echo::new("b"), Echo::new("c")];
    let weights = [1, 3, 0];
    let backends = ["a", "b", "c"].iter().zip(&echoes).map(|(name, echo)| backend(name, &[echo.address]));
    let mut worker =
        Worker::new(&bounds(1000), snapshot(weights.into_iter().zip(backends.collect::<Vec<_>>())));
    let address = worker.listen("127.0.0.1");
    let mut to_first = 0;
    for flow in 0..500 {
        let client = Client::new(address);
        let [a, b, c] = &mut echoes;
        let first = client.ask("", &mut worker, &mut [a, b, c]).unwrap();
        let again = client.ask("", &mut worker, &mut [a, b, c]).unwrap();
        assert_eq!(first, again, "a flow stays where it is");
        to_first += u32::from(first == "a");
        if flow % 50 == 49 {
            worker.with(|udp, ctx| udp.end_all(Ending::Shutdown, ctx));
            worker.tick(Duration::from_secs(2));
        }
    }
    assert!((100..=150).contains(&to_first), "{to_first} of 500 are not a quarter");
    assert!(echoes[2].heard.is_empty());
}
