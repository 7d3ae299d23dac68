//! Flows of datagrams while listeners come and go, at the end of the process, and at their bounds.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::process::Signal;

use crate::loopback::Tidegate;
use crate::loopback::manifests::{gateway, udp_route, udp_service};
use crate::support::manifest::{tcp, udp};
use crate::support::{PATIENCE, wait_for};

const PORT: u16 = 20_053;

/// A backend that sends each datagram back.
fn echo() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..count], from);
        }
    });
    address
}

fn edge(listener: &str) -> String {
    gateway(&[tcp("stays", PORT), udp(listener, PORT)])
}

fn start(flags: &[&str]) -> Tidegate {
    let routes = udp_route("route", "udp", "backend") + &udp_service("backend", echo());
    Tidegate::start(&[("edge.yaml", &edge("udp")), ("routes.yaml", &routes)], flags)
}

struct Client(UdpSocket);

impl Client {
    fn new(to: SocketAddr) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(to).unwrap();
        Self(socket)
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Whether it is answered; nothing is lost on loopback.
    fn is_answered(&self, within: Duration) -> bool {
        self.0.set_read_timeout(Some(within)).unwrap();
        self.0.send(b"question").is_ok() && self.0.recv(&mut [0; 64]).is_ok()
    }

    fn asks(&self) {
        assert!(self.is_answered(PATIENCE));
    }
}

const SHORT: Duration = Duration::from_millis(300);

fn flows(tidegate: &Tidegate) -> u64 {
    tidegate.metric("tidegate_udp_flows_active") as u64
}

fn wait_no_flows(tidegate: &Tidegate) {
    wait_for("all flows have ended", || (flows(tidegate) == 0).then_some(()));
}

/// The listener of a name may be another one by the time a flow of the first ends.
#[test]
fn a_listener_that_is_renamed_and_back_serves_on() {
    let tidegate = start(&["--udp-idle-time=3s"]);
    Client::new(tidegate.at(PORT)).asks();
    for name in ["other", "udp"] {
        tidegate.change(|tidegate| tidegate.write("edge.yaml", &edge(name)));
    }
    wait_no_flows(&tidegate);
    Client::new(tidegate.at(PORT)).asks();
}

#[test]
fn flows_of_a_removed_listener_have_a_while() {
    let tidegate = start(&["--drain=3s"]);
    let (old, idle) = (Client::new(tidegate.at(PORT)), Client::new(tidegate.at(PORT)));
    old.asks();
    idle.asks();
    tidegate.change(|tidegate| tidegate.write("edge.yaml", &gateway(&[tcp("stays", PORT)])));
    old.asks();
    assert!(!Client::new(tidegate.at(PORT)).is_answered(SHORT), "nothing new begins");
    wait_for("its time is over", || (!old.is_answered(SHORT)).then_some(()));
    for client in [&old, &idle] {
        assert_eq!(tidegate.ending_of(client.address()), "drained");
    }
    assert_eq!(tidegate.limit_reached("drain_time"), 2);
    wait_for("the port is free", || UdpSocket::bind(tidegate.at(PORT)).ok());
}

/// The port is asked for again while its old sockets still serve flows.
#[test]
fn a_listener_that_comes_back_keeps_its_flows() {
    let tidegate = start(&["--drain=60s"]);
    let old = Client::new(tidegate.at(PORT));
    old.asks();
    tidegate.change(|tidegate| tidegate.write("edge.yaml", &gateway(&[tcp("stays", PORT)])));
    old.asks();
    tidegate.change(|tidegate| tidegate.write("edge.yaml", &edge("udp")));
    wait_for("it is open again", || (tidegate.programmed("udp").0 == "True").then_some(()));
    Client::new(tidegate.at(PORT)).asks();
    old.asks();
    assert_eq!(flows(&tidegate), 2);
    assert_eq!(tidegate.metric("tidegate_udp_flows_total"), 2.0, "the old one is still the same");
}

#[test]
fn at_the_end_flows_go_on_and_none_begins() {
    let mut tidegate = start(&["--drain=60s"]);
    let live = Client::new(tidegate.at(PORT));
    live.asks();
    tidegate.signal(Signal::TERM);
    wait_for("it says that it drains", || tidegate.ask("/readyz").filter(|answer| answer == "draining\n"));
    wait_for("nothing new begins", || (!Client::new(tidegate.at(PORT)).is_answered(SHORT)).then_some(()));
    live.asks();
    // A flow has no end: the first that is silent for a while is no reason to stay.
    assert_eq!(tidegate.wait_end().code(), Some(0));
    assert_eq!(tidegate.ending_of(live.address()), "flow_idle");
}

#[test]
fn flows_that_go_on_are_cut_off_at_the_end() {
    let mut tidegate = start(&["--drain=2s"]);
    let live = Client::new(tidegate.at(PORT));
    live.asks();
    tidegate.signal(Signal::TERM);
    wait_for("it is cut off", || (!live.is_answered(SHORT)).then_some(()));
    assert_eq!(tidegate.wait_end().code(), Some(0));
    assert_eq!(tidegate.ending_of(live.address()), "shutdown");
}

#[test]
fn bounds_of_listener_source_and_all() {
    for (flag, ending, limit) in [
        ("--max-connections-per-listener=2", "too_many_for_listener", "connections_per_listener"),
        ("--max-connections-per-source=2", "too_many_for_source", "connections_per_source"),
        ("--max-udp-flows=2", "too_many_flows", "udp_flows"),
    ] {
        let tidegate = start(&[flag]);
        let inside = [(); 2].map(|()| Client::new(tidegate.at(PORT)));
        let third = Client::new(tidegate.at(PORT));
        // Those who come back do not make room for others.
        let refused = || {
            inside.iter().chain(&inside).for_each(Client::asks);
            third.is_answered(SHORT)
        };
        wait_for(flag, || (!refused()).then_some(()));
        assert!(tidegate.limit_reached(limit) > 0, "{limit}");
        assert_eq!(tidegate.ending_of(third.address()), ending);
        assert!(tidegate.ask("/refused").unwrap().contains(ending));
        inside.iter().for_each(Client::asks);
    }
}
