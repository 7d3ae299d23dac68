//! Several workers: a flow is one worker's, wherever its datagrams come in.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;

/// Two workers at one socket: whichever is given its turn gets what has come.
fn two(bounds: &Bounds, snapshot: &Snapshot) -> ([Worker; 2], SocketAddr) {
    let shared = Arc::new(Shared::new(2, bounds.udp_flows));
    let mut workers = [(); 2].map(|()| Worker::one_of(&shared, bounds, snapshot.clone()));
    let socket = inlet("127.0.0.1");
    let address = UdpSocket::from(socket.try_clone().unwrap()).local_addr().unwrap();
    for worker in &mut workers {
        let socket = socket.try_clone().unwrap();
        worker.udp.listen(worker.epoll.as_fd(), socket, address, PORT).unwrap();
    }
    (workers, address)
}

#[test]
fn a_flow_that_strays_is_passed_on() {
    let mut echo = Echo::new("");
    let ([mut first, mut second], address) = two(&bounds(10), &to(&[&echo]));
    let client = Client::new(address);
    assert!(client.ask("1", &mut first, &mut [&mut echo]).is_some());
    for question in ["2", "3"] {
        client.send(question);
        second.turn();
        echo.answer();
        second.turn();
        assert_eq!(client.heard(), None, "the answer is for the worker that has the flow");
        first.turn();
        assert_eq!(client.heard().unwrap(), question.as_bytes());
    }
    assert!(client.ask("4", &mut first, &mut [&mut echo]).is_some());
    assert_eq!((first.udp.flows(), second.udp.flows()), (1, 0));
    assert_eq!(second.udp.mishaps().strayed.get(), 2);
    assert_eq!(HashSet::<_>::from_iter(&echo.heard).len(), 1, "the backend sees one sender");
    first.with(|udp, ctx| udp.end_all(Ending::Shutdown, ctx));
    assert_eq!(first.told.ended[0].up, Traffic { datagrams: 4, bytes: 4 });
    assert!(client.ask("5", &mut second, &mut [&mut echo]).is_some(), "a flow that has ended is nobody's");
    assert_eq!(second.udp.flows(), 1);
}

#[test]
fn what_strays_keeps_a_flow_from_idling() {
    let echo = Echo::new("");
    let bounds = Bounds { udp_idle_time: Duration::from_secs(10), ..bounds(10) };
    let ([mut first, mut second], address) = two(&bounds, &to(&[&echo]));
    let client = Client::new(address);
    client.send("1");
    first.turn();
    for later in [6, 12] {
        second.now = first.now + Duration::from_secs(6);
        first.tick(Duration::from_secs(6));
        client.send("again");
        second.turn();
        assert_eq!(first.udp.flows(), 1, "after {later} seconds");
    }
    first.tick(Duration::from_secs(11));
    assert_eq!((first.endings(), second.udp.flows()), (vec![Ending::FlowIdle], 0));
    assert_eq!(first.told.ended[0].up.datagrams, 3);
}

#[test]
fn the_bound_is_one_for_all_workers() {
    let mut echo = Echo::new("");
    let ([mut first, mut second], address) = two(&bounds(3), &to(&[&echo]));
    let clients: Vec<_> = (0..5).map(|_| Client::new(address)).collect();
    assert!(clients[0].ask("", &mut first, &mut [&mut echo]).is_some());
    assert!(clients[1].ask("", &mut first, &mut [&mut echo]).is_some());
    assert!(clients[2].ask("", &mut second, &mut [&mut echo]).is_some());
    assert!(clients[3].ask("", &mut second, &mut [&mut echo]).is_some());
    assert_eq!((first.udp.flows(), second.udp.flows()), (2, 1), "a worker takes from its own");
    assert_eq!(second.endings(), [Ending::FlowEvicted]);
}

/// Threads, and a kernel that gives each datagram to whoever asks first: no client hears what another was told, and
/// when all have ended nothing is left. With room for all, every question has its answer.
#[test]
fn workers_at_one_socket_agree_on_flows() {
    let answered = race(60, 1000);
    assert_eq!(answered, 60 * ROUNDS);
    race(16, 10);
}

const ROUNDS: usize = 10;

/// Tells the workers that it is over, also when a test fails.
struct Over(AtomicBool);

struct Ends<'a>(&'a Over);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Relaxed);
    }
}

/// So many clients, with room for so many flows. Gives the number of answers.
fn race(clients: usize, room: usize) -> usize {
    let mut echo = Echo::new("");
    let (workers, address) = two(&bounds(room), &to(&[&echo]));
    let shared = Arc::clone(&workers[0].udp.flows.shared);
    let over = Over(AtomicBool::new(false));
    let (answered, told) = std::thread::scope(|scope| {
        let threads = workers.map(|worker| scope.spawn(|| work(worker, &over)));
        let ends = Ends(&over);
        let clients: Vec<_> = (0..clients).map(|_| Client::new(address)).collect();
        let mut answered = 0;
        for round in 1..=ROUNDS {
            for (number, client) in clients.iter().enumerate() {
                client.send(format!("{number}: {round}"));
            }
            // Flows that made room for others get no answer, and are not waited for.
            let patience =
                if room > clients.len() { Duration::from_secs(20) } else { Duration::from_millis(5) };
            let started = Instant::now();
            while answered < round * clients.len() && started.elapsed() < patience {
                echo.answer();
                answered +=
                    clients.iter().enumerate().map(|(number, client)| own(client, number)).sum::<usize>();
                std::thread::yield_now();
            }
        }
        drop(ends);
        (answered, threads.map(|thread| thread.join().unwrap()))
    });
    assert!(told.iter().all(|told| told.places == 0));
    assert_eq!(shared.flows(), 0);
    answered
}

fn work(mut worker: Worker, over: &Over) -> Told {
    while !over.0.load(Relaxed) {
        worker.now = Instant::now();
        worker.turn();
        std::thread::yield_now();
    }
    worker.with(|udp, ctx| udp.end_all(Ending::Shutdown, ctx));
    worker.told
}

/// Answers that a client has heard, all of them to its own questions.
fn own(client: &Client, number: usize) -> usize {
    std::iter::from_fn(|| client.heard())
        .inspect(|answer| {
            let answer = String::from_utf8_lossy(answer);
            assert!(answer.starts_with(&format!("{number}: ")), "{number} heard {answer}");
        })
        .count()
}
