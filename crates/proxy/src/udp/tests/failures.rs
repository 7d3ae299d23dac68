//! Endpoints that refuse, and a machine that has nothing left, cost datagrams but never a listener.

use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate_plan::Reason;

use super::*;

#[test]
fn a_backend_that_is_dead_and_comes_back() {
    let mut echo = Echo::new("");
    let address = echo.address;
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let client = Client::new(worker.listen("127.0.0.1"));
    assert!(client.ask("hello", &mut worker, &mut [&mut echo]).is_some());
    drop(echo);
    for _ in 0..5 {
        assert_eq!(client.ask("anyone?", &mut worker, &mut []), None);
    }
    assert!(worker.udp.mishaps().errors.get() >= 5, "each refusal is seen");
    let other = Client::new(client.0.peer_addr().unwrap());
    assert_eq!(other.ask("anyone?", &mut worker, &mut []), None);
    let mut echo = Echo::at(address, "back:");
    assert_eq!(client.ask("hello", &mut worker, &mut [&mut echo]).unwrap(), "back:hello");
    assert_eq!(other.ask("hello", &mut worker, &mut [&mut echo]).unwrap(), "back:hello");
    assert_eq!(worker.udp.flows(), 2, "no flow was lost");
}

#[test]
fn a_flow_moves_to_an_endpoint_that_answers() {
    let mut echo = Echo::new("alive");
    let dead = Echo::new("").address;
    let mut worker = Worker::new(&bounds(100), snapshot([(1, backend("web", &[echo.address, dead]))]));
    let address = worker.listen("127.0.0.1");
    let mut moved = 0;
    let clients: Vec<_> = (0..20).map(|_| Client::new(address)).collect();
    for client in &clients {
        if client.ask("", &mut worker, &mut [&mut echo]).is_none() {
            moved += 1;
        }
        for _ in 0..3 {
            assert_eq!(client.ask("", &mut worker, &mut [&mut echo]).as_deref(), Some("alive"));
        }
    }
    assert!(moved > 0, "chance led some flow to the dead endpoint first");
    assert!(moved < 10, "an endpoint that failed often is passed over");
    assert_eq!((worker.udp.flows(), worker.told.ended.len()), (20, 0));
}

#[test]
fn no_endpoints_is_a_reason() {
    let mut worker = Worker::new(&bounds(10), snapshot([(1, backend("web", &[]))]));
    let client = Client::new(worker.listen("127.0.0.1"));
    assert_eq!(client.ask("hello", &mut worker, &mut []), None);
    assert_eq!(worker.told.refused, [Ending::Refused(Reason::NoEndpoints)]);
    assert_eq!((worker.told.places, worker.udp.flows.shared.flows()), (0, 0));
}

/// No way there is known at once: the flow does not begin.
#[test]
fn an_endpoint_that_cannot_be_reached_is_passed_over() {
    let mut echo = Echo::new("alive");
    let nowhere = "255.255.255.255:9".parse().unwrap();
    let mut worker = Worker::new(&bounds(100), snapshot([(1, backend("web", &[echo.address, nowhere]))]));
    let address = worker.listen("127.0.0.1");
    let clients: Vec<_> = (0..20).map(|_| Client::new(address)).collect();
    for client in &clients {
        assert_eq!(client.ask("", &mut worker, &mut [&mut echo]).as_deref(), Some("alive"));
    }
    worker.snapshot = snapshot([(1, backend("web", &[nowhere]))]);
    assert_eq!(Client::new(address).ask("", &mut worker, &mut []), None);
    assert_eq!(worker.told.refused, [Ending::ConnectFailed]);
    assert_eq!((worker.told.places, worker.udp.flows.shared.flows()), (20, 20));
}

/// A client that went away refuses answers. That is its own matter.
#[test]
fn a_client_that_is_gone_harms_nobody() {
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(10), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let (gone, stays) = (Client::new(address), Client::new(address));
    gone.send("hello");
    drop(gone);
    for _ in 0..3 {
        assert!(stays.ask("hello", &mut worker, &mut [&mut echo]).is_some());
        for uplink in echo.heard.clone() {
            echo.socket.send_to(b"unasked", uplink).unwrap();
        }
        worker.turn();
        while stays.heard().is_some() {}
    }
    assert_eq!(worker.udp.flows(), 2);
}

/// In a process of its own, as all threads of one share what is used up here.
#[test]
fn without_descriptors_old_flows_make_way_for_new_ones() {
    const ALONE: &str = "TIDEGATE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "udp::tests::failures::without_descriptors_old_flows_make_way_for_new_ones";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let output = again.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let mut echo = Echo::new("");
    let mut worker = Worker::new(&bounds(1000), to(&[&echo]));
    let address = worker.listen("127.0.0.1");
    let clients: Vec<_> = (0..40).map(|_| Client::new(address)).collect();
    let used = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(used + 9), ..limit }).unwrap();
    let mut ask =
        |worker: &mut Worker, number: usize| clients[number].ask("hello", worker, &mut [&mut echo]).is_some();
    let there = (0..40).find(|number| !ask(&mut worker, *number)).unwrap();
    assert!((5..=12).contains(&there), "{there} flows are not what was left for them");
    assert_eq!(worker.told.refused, [Ending::OutOfResources]);
    assert_eq!(worker.endings(), [Ending::FlowEvicted], "a flow gave up its socket, which has to rest");
    assert!(!ask(&mut worker, there));
    assert_eq!(worker.udp.mishaps().shortages.get(), 1, "the machine is not asked again at once");
    worker.now += Duration::from_secs(1);
    assert!(ask(&mut worker, there) && ask(&mut worker, there + 1), "two have rested");
    assert!(!ask(&mut worker, there + 2));

    setrlimit(Resource::Nofile, limit).unwrap();
    worker.now += Duration::from_millis(600);
    for number in there + 2..40 {
        assert!(ask(&mut worker, number), "there is enough again");
    }
}
