//! An access log that cannot be written.

use crate::loopback::Tidegate;
use crate::loopback::manifests::{gateway, service, tcp, tcp_route};
use crate::loopback::traffic::{echo, round_trip};
use crate::support::wait_for;

const PORT: u16 = 20_001;

#[test]
fn a_full_disk_costs_lines_and_no_traffic() {
    let text = gateway(&[tcp("tcp", PORT)])
        + &tcp_route("route", "tcp", &[("backend", 1)])
        + &service("backend", &[echo()]);
    let mut tidegate = Tidegate::start(&[("all.yaml", &text)], &["--access-log=/dev/full"]);
    for _ in 0..100 {
        round_trip(&mut tidegate.connect(PORT), b"carried all the same").unwrap();
    }
    wait_for("100 lines dropped", || {
        let dropped = tidegate.metric("tidegate_log_lines_dropped_total{reason=\"failed\"}");
        (dropped >= 100.0).then_some(())
    });
    tidegate.wait_told("lines of the access log are dropped and counted");
    round_trip(&mut tidegate.connect(PORT), b"and goes on").unwrap();
}
