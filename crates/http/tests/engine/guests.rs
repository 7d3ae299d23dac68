//! Tunnels and what is told to connections: one that has become a tunnel is still a guest.

use std::time::Duration;

use tidegate_proxy::Bounds;

use crate::client::{Connection, run};
use crate::gate::{Gate, rule};
use crate::raw;

#[test]
fn a_tunnel_ends_with_the_process_and_says_so() {
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend("a", &[raw::tunnel()]);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.ask(raw::UPGRADE).status, 101);
    run(gate.proxy().drain(Duration::from_secs(1)));
    gate.line(&["status=101", "ending=\"shutdown\""]);
    assert!(connection.rest().is_empty());
}
