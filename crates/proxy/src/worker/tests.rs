//! How a worker waits: alone in its own epoll, or beside HTTP.

use super::*;
use crate::Settings;
use crate::http::Nobody;

fn worker() -> Worker {
    let shared = Shared::new(Settings { workers: 1, ..Settings::default() }, Box::new(Nobody));
    Worker::new(0, Arc::new(shared), None).unwrap()
}

#[test]
fn a_command_wakes_a_worker_that_waits_alone() {
    let mut worker = worker();
    let (orders, mut ordered) = orders().unwrap();
    ordered.watch(&worker.epoll).unwrap();
    for _ in 0..3 {
        worker.rung = false;
        orders.give(Command::Sweep);
        worker.turn(Duration::from_secs(60));
        assert!(worker.rung, "each command rings, although nobody answers the bell");
        assert!(worker.obey_all(&mut ordered));
    }
    worker.rung = false;
    worker.turn(Duration::ZERO);
    assert!(!worker.rung, "nobody has rung");
    drop(orders);
    assert!(!worker.obey_all(&mut ordered), "nobody is left");
}

#[test]
fn http_has_the_thread_for_as_long_as_it_has_connections_and_a_while_after() {
    let mut worker = worker();
    assert!(worker.is_alone());
    let one = Occupied::by_one_more(&worker.occupied);
    let other = Occupied::by_one_more(&worker.occupied);
    assert!(!worker.is_alone());
    drop(one);
    worker.kit.now += 2 * AFTERMATH;
    assert!(!worker.is_alone(), "the other is there");
    drop(other);
    worker.kit.now += AFTERMATH;
    assert!(!worker.is_alone());
    worker.kit.now += Duration::from_millis(1);
    assert!(worker.is_alone());
}
