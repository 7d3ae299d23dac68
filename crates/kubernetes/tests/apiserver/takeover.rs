//! One controller ends and another leads.

use std::time::{Duration, Instant};

use kube::Client;
use serde_json::json;

use crate::plane::TestPlane;
use crate::server::apply;
use crate::{Controller, GATEWAY_API, gateway, gateway_has, get, tcp};

pub(crate) async fn another_replica_takes_over(client: &Client, first: Controller) {
    let second = Controller::start(client, "second").await;
    assert_eq!(second.metric("tidegate_controller_leading"), 0);
    let writes = second.metric("tidegate_controller_status_writes_total");
    apply(client, &gateway("led", tcp(7001))).await;
    gateway_has(client, "led", "Accepted", "True", "Accepted").await;
    assert_eq!(second.metric("tidegate_controller_status_writes_total"), writes, "one leads, and one writes");

    let plane = TestPlane::start(client, "web", first.link).await;
    gateway_has(client, "web", "Programmed", "True", "Programmed").await;
    let status = async || get(client, GATEWAY_API, "Gateway", "web").await["status"].clone();
    let before = status().await;
    let start = Instant::now();
    first.stop().await;
    apply(client, &gateway("led", json!({"listeners": [{"name": "bad", "port": 7001, "protocol": "SCTP"}]})))
        .await;
    gateway_has(client, "led", "Accepted", "False", "ListenersNotValid").await;
    assert!(
        start.elapsed() < Duration::from_secs(14),
        "a Lease that is let go need not run out: {:?}",
        start.elapsed()
    );
    assert_eq!(second.metric("tidegate_controller_leading"), 1);
    assert_eq!(status().await, before, "its data plane serves on, and has not come over yet");
    plane.stop().await;
    let plane = TestPlane::start(client, "web", second.link).await;
    plane.fail("it is in use");
    gateway_has(client, "web", "Programmed", "False", "PortUnavailable").await;
    plane.stop().await;
    second.stop().await;
}
