//! Flows end when nobody speaks, and make room when there are too many.

use super::*;

#[test]
fn a_flow_that_is_idle_ends() {
    let mut echo = Echo::new("");
    let bounds = Bounds { udp_idle_time: Duration::from_secs(60), ..bounds(10) };
    let mut worker = Worker::new(&bounds, to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let (quiet, busy, heard) = (Client::new(address), Client::new(address), Client::new(address));
    for client in [&quiet, &busy, &heard] {
        client.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
    }
    let uplink = echo.heard[2];
    worker.tick(Duration::from_secs(40));
    busy.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
    echo.socket.send_to(b"unasked", uplink).unwrap();
    worker.turn();
    worker.tick(Duration::from_secs(19));
    assert_eq!(worker.udp.flows(), 3);
    worker.tick(Duration::from_secs(1));
    assert_eq!(worker.udp.flows(), 2, "either direction keeps a flow");
    assert_eq!(worker.told.ended[0].client, quiet.address());
    worker.tick(Duration::from_secs(40));
    assert_eq!(worker.endings(), [Ending::FlowIdle; 3]);
    assert_eq!(worker.told.places, 0);
    let seen: Vec<_> = echoes_in_use(&worker);
    assert_eq!(seen, [0], "no endpoint is in use");
    assert_eq!(quiet.ask("again", &mut worker, &mut [&mut echo]).unwrap(), "again");
}

fn echoes_in_use(worker: &Worker) -> Vec<u32> {
    let backend = worker.snapshot.backends.of(&backend_plan("web").id).unwrap();
    backend.endpoints(worker.now).map(|endpoint| endpoint.active).collect()
}

#[test]
fn the_idlest_newcomer_makes_room() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(3), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let clients: Vec<_> = (0..10).map(|_| Client::new(address)).collect();
    for client in &clients {
        assert_eq!(client.ask("hello", &mut worker, &mut [&mut echo]).unwrap(), "hello");
        worker.now += Duration::from_secs(1);
    }
    assert_eq!((worker.udp.flows(), worker.told.places), (3, 3));
    assert_eq!(worker.endings(), [Ending::FlowEvicted; 7]);
    let ended: Vec<_> = worker.told.ended.iter().map(|flow| flow.client).collect();
    assert_eq!(ended, clients[..7].iter().map(Client::address).collect::<Vec<_>>());
    assert!(worker.told.refused.is_empty());
}

/// All of them are read together, and each has sent what it was to send before it makes room for the next.
#[test]
fn more_newcomers_at_once_than_there_is_room_for_are_all_heard() {
    for room in [1, 2, 3, 20] {
        let mut echo = Echo::new("");
        let mut worker = Worker::new(&bounds(room), to(&[&echo]));
        let address = worker.listen("127.0.0.1");
        let clients: Vec<_> = (0..20).map(|_| Client::new(address)).collect();
        clients.iter().for_each(|client| client.send("hello"));
        worker.turn();
        echo.answer();
        let mut heard = echo.heard.clone();
        heard.sort();
        heard.dedup();
        assert_eq!((echo.heard.len(), heard.len()), (20, 20), "room for {room}");
        assert_eq!(worker.udp.flows(), room);
    }
}

#[test]
fn those_who_speak_keep_their_place() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(2), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let regulars = [Client::new(address), Client::new(address)];
    for _ in 0..2 {
        for client in &regulars {
            client.ask("hello", &mut worker, &mut [&mut echo]).unwrap();
        }
    }
    let late = Client::new(address);
    assert_eq!(late.ask("me too", &mut worker, &mut [&mut echo]), None);
    assert_eq!(worker.told.refused, [Ending::TooManyFlows]);
    worker.now += Duration::from_secs(2);
    assert_eq!(late.ask("me too", &mut worker, &mut [&mut echo]).unwrap(), "me too");
    assert_eq!(worker.endings(), [Ending::FlowEvicted]);
}

/// A client that asks once and has its answer leaves a socket that is soon had again: a machine with few descriptors
/// serves many such clients.
#[test]
fn flows_that_were_answered_use_up_few_sockets() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(4), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    for _ in 0..100 {
        assert!(Client::new(address).ask("hello", &mut worker, &mut [&mut echo]).is_some());
        worker.now += Duration::from_millis(20);
    }
    // Four have flows, and as many rest as can make way within a tenth of a second.
    assert!(worker.udp.flows.uplinks.unused() <= 5, "{}", worker.udp.flows.uplinks.unused());
    let mut heard = echo.heard.clone();
    heard.sort();
    heard.dedup();
    assert!(heard.len() > 50, "a socket that is had again has another port: {}", heard.len());

    for _ in 0..20 {
        Client::new(address).send("is anybody there?");
        worker.turn();
        worker.now += Duration::from_millis(20);
    }
    assert!(worker.udp.flows.uplinks.unused() >= 16, "an answer that is owed is waited for longer");
}

/// The socket of a flow that had to go serves another client. What was meant for the first must not come to it.
#[test]
fn a_late_answer_reaches_nobody() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(1), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let first = Client::new(address);
    first.send("secret of the first");
    worker.turn();
    let mut question = [0; 32];
    let (len, from) = echo.socket.recv_from(&mut question).unwrap();
    // One answer waits at the socket while it changes hands, one comes after.
    echo.socket.send_to(&question[..len], from).unwrap();
    let second = Client::new(address);
    second.send("second");
    let inlet_first = |udp: &mut Udp, ctx: &mut Context<'_>| udp.ready(TOKEN, ctx);
    worker.with(inlet_first);
    echo.socket.send_to(&question[..len], from).unwrap();
    echo.answer();
    worker.turn();
    assert_eq!(second.heard(), Some(b"second".to_vec()));
    assert_eq!(second.heard(), None);
    assert_eq!(first.heard(), None);
    assert_ne!(echo.heard[0], from, "the second client has another port");
}

#[test]
fn the_bounds_of_listener_and_source_are_asked() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(2), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    worker.told.full = true;
    assert_eq!(Client::new(address).ask("hello", &mut worker, &mut [&mut echo]), None);
    assert_eq!(worker.told.refused, [Ending::TooManyForSource]);
    assert_eq!((worker.udp.flows(), worker.udp.flows.shared.flows()), (0, 0));
}
