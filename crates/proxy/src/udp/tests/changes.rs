//! What becomes of flows when the plan changes.

use tidegate_plan::Reason;

use super::*;

fn without_route(snapshot: &Snapshot) -> Snapshot {
    let gone = plan::Change::Remove(plan::FragmentId::Route(route_id()));
    Snapshot { tables: snapshot.tables.updated([gone]), ..snapshot.clone() }
}

fn without_listener(snapshot: &Snapshot) -> Snapshot {
    let gone = plan::Change::Remove(plan::FragmentId::Listener(listener_id()));
    Snapshot { tables: snapshot.tables.updated([gone]), ..snapshot.clone() }
}

fn drain(time: u64) -> Bounds {
    Bounds { drain_time: Duration::from_secs(time), ..bounds(10_000) }
}

/// The socket goes with the last listener of its port, and stays for as long as its flows.
#[test]
fn flows_of_what_was_removed_have_a_while() {
    for (remove, closes) in [(without_route as fn(&Snapshot) -> Snapshot, false), (without_listener, true)] {
        let mut echo = Echo::new("");
        let mut worker = Worker::new(&drain(10), to(&[&echo]));
        let address = worker.listen("127.0.0.1");
        let client = Client::new(address);
        client.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
        if closes {
            worker.with(|udp, ctx| udp.leave(0, ctx));
        }
        worker.replan(remove(&worker.snapshot));
        assert_eq!(client.ask("still", &mut worker, &mut [&mut echo]).unwrap(), "still");
        let late = Client::new(address);
        assert_eq!(late.ask("hello", &mut worker, &mut [&mut echo]), None, "nothing new begins");
        assert!(matches!(worker.told.refused[..], [Ending::Refused(Reason::NoRoute | Reason::NoListener)]));
        worker.tick(Duration::from_secs(9));
        assert!(client.ask("still", &mut worker, &mut [&mut echo]).is_some());
        worker.tick(Duration::from_secs(1));
        assert_eq!(worker.endings(), [Ending::Drained]);
        assert_eq!(worker.udp.inlets[0].is_none(), closes);
        assert!(closes || client.ask("hello", &mut worker, &mut [&mut echo]).is_none());
    }
}

#[test]
fn a_socket_that_nobody_needs_goes_with_its_last_flow() {
    let mut echo = Echo::new("");
    let bounds = Bounds { udp_idle_time: Duration::from_secs(5), ..drain(60) };
    let mut worker = Worker::new(&bounds, to(&[&echo]));
    let (used, unused) = (worker.listen("127.0.0.1"), worker.listen("127.0.0.1"));
    let client = Client::new(used);
    client.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
    for number in 0..2 {
        worker.with(|udp, ctx| udp.leave(number, ctx));
    }
    assert!(UdpSocket::bind(unused).is_ok(), "it has no flows");
    worker.tick(Duration::from_secs(4));
    assert!(client.ask("still", &mut worker, &mut [&mut echo]).is_some());
    worker.tick(Duration::from_secs(5));
    assert_eq!(worker.endings(), [Ending::FlowIdle]);
    assert!(UdpSocket::bind(used).is_ok());
}

/// The port is opened again before its flows have ended: they go on, through the new socket.
#[test]
fn a_socket_that_comes_back_takes_the_flows_over() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&drain(10), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let client = Client::new(address);
    client.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
    worker.with(|udp, ctx| udp.leave(0, ctx));
    let socket = worker.udp.inlets[0].as_ref().unwrap().socket.try_clone().unwrap();
    assert_eq!(worker.udp.listen(worker.epoll.as_fd(), socket, address, PORT).unwrap(), 1);
    worker.tick(Duration::ZERO);
    assert!(worker.udp.inlets[0].is_none());
    echo.socket.send_to(b"unasked", echo.heard[0]).unwrap();
    worker.turn();
    assert_eq!(client.heard().unwrap(), b"unasked");
    worker.tick(Duration::from_secs(20));
    assert!(client.ask("still", &mut worker, &mut [&mut echo]).is_some());
    assert_eq!((worker.udp.flows(), worker.told.ended.len()), (1, 0), "the same flow");
}

#[test]
fn at_the_end_flows_have_a_while_and_nothing_begins() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&drain(60), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let (busy, quiet) = (Client::new(address), Client::new(address));
    for client in [&busy, &quiet] {
        client.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
    }
    worker.with(|udp, ctx| udp.drain(Duration::from_secs(10), ctx));
    worker.udp.bound_by(&drain(60));
    assert_eq!(Client::new(address).ask("me too", &mut worker, &mut [&mut echo]), None);
    assert_eq!(worker.told.refused, [Ending::Shutdown]);
    for _ in 0..2 {
        worker.tick(Duration::from_secs(4));
        assert!(busy.ask("still", &mut worker, &mut [&mut echo]).is_some());
    }
    assert_eq!(worker.endings(), [Ending::FlowIdle], "nobody waits for the quiet one");
    worker.tick(Duration::from_secs(2));
    assert_eq!(worker.endings(), [Ending::FlowIdle, Ending::Shutdown]);
    assert!(UdpSocket::bind(address).is_ok());
}

#[test]
fn what_comes_back_in_time_keeps_its_flows() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&drain(10), to(&[&echo]));
    let client = Client::new(worker.listen("127.0.0.1"));
    client.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
    let whole = worker.snapshot.clone();
    worker.replan(without_route(&whole));
    worker.tick(Duration::from_secs(5));
    worker.replan(whole.clone());
    worker.tick(Duration::from_secs(6));
    assert_eq!(worker.udp.flows(), 1);
    worker.replan(without_route(&whole));
    worker.tick(Duration::from_secs(9));
    assert_eq!(worker.udp.flows(), 1, "the time starts again");
    worker.tick(Duration::from_secs(1));
    assert_eq!(worker.endings(), [Ending::Drained]);
}

#[test]
fn a_backend_that_the_route_no_longer_names_is_left() {
    let mut echo = Echo::new("");
    let mut other = Echo::new("other:");
    let mut worker = Worker::new(&drain(10), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let client = Client::new(address);
    client.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
    worker.replan(snapshot([(1, backend("other", &[other.address]))]));
    assert_eq!(client.ask("hello", &mut worker, &mut [&mut echo, &mut other]).unwrap(), "hello");
    let new = Client::new(address);
    assert_eq!(new.ask("hello", &mut worker, &mut [&mut echo, &mut other]).unwrap(), "other:hello");
    worker.tick(Duration::from_secs(10));
    assert_eq!(worker.endings(), [Ending::Drained]);
    assert_eq!(client.ask("hello", &mut worker, &mut [&mut echo, &mut other]).unwrap(), "other:hello");
}

#[test]
fn an_endpoint_that_is_gone_gives_its_flows_to_another() {
    let (mut old, mut new) = (Echo::new("old"), Echo::new("new"));
    let mut worker = Worker::new(&bounds(10), to(&[&old]));
    let client = Client::new(worker.listen("127.0.0.1"));
    assert_eq!(client.ask("", &mut worker, &mut [&mut old, &mut new]).unwrap(), "old");
    worker.replan(to(&[&new]));
    // What the old one still says is let through until the client speaks.
    old.socket.send_to(b"last words", old.heard[0]).unwrap();
    worker.turn();
    assert_eq!(client.heard().unwrap(), b"last words");
    assert_eq!(client.ask("", &mut worker, &mut [&mut old, &mut new]).unwrap(), "new");
    assert_eq!((worker.udp.flows(), worker.told.ended.len()), (1, 0), "the same flow");
    let _ = old.socket.send_to(b"too late", old.heard[0]);
    worker.turn();
    assert_eq!(client.heard(), None);
}

#[test]
fn many_flows_are_looked_at_in_steps() {
    let echo = Echo::new("");
    let mut worker = Worker::new(&drain(0), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    for _ in 0..300 {
        Client::new(address).send("hello");
        worker.turn();
    }
    // A port that one client left may be the next one's, and then the flow is too.
    let there = worker.udp.flows();
    worker.replan(without_route(&worker.snapshot));
    assert_eq!(worker.udp.flows(), there - ENDS, "one tick ends so many");
    worker.tick(Duration::ZERO);
    assert_eq!(worker.udp.flows(), 0);
}

/// What waits at a socket that is closed was taken by the machine, and is carried.
#[test]
fn a_socket_is_read_to_its_end_before_it_closes() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let clients = [Client::new(address), Client::new(address)];
    clients.iter().for_each(|client| client.send("last"));
    worker.with(|udp, ctx| udp.leave(0, ctx));
    echo.answer();
    assert_eq!(echo.heard.len(), 2);
    worker.tick(Duration::from_secs(30));
    assert_eq!(worker.endings(), [Ending::Drained; 2]);
    worker.turn();
    let again = worker.listen("127.0.0.1");
    assert!(Client::new(again).ask("hello", &mut worker, &mut [&mut echo]).is_some());
}
