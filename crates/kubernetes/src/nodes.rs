//! Addresses of nodes, for Gateways that are reached on a port of nodes. Only those nodes are asked for that a ready
//! data plane is on, by name: nobody has to follow all nodes of a cluster for that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::Api;

use crate::log::Log;

/// How often a node is asked for again. Addresses of nodes hardly ever change.
const AGAIN: Duration = Duration::from_secs(60);
/// How many are asked for at a time.
const AT_A_TIME: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    known: BTreeMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    addresses: Vec<IpAddr>,
    asked: Instant,
}

impl Nodes {
    pub(crate) fn addresses(&self, node: &str) -> &[IpAddr] {
        self.known.get(node).map_or(&[], |known| &known.addresses)
    }

    /// Learns of these nodes what is not known or was long ago, and forgets the others. Whether something is new.
    pub(crate) async fn look(&mut self, client: &Client, wanted: BTreeSet<String>, log: &Log) -> bool {
        self.known.retain(|name, _| wanted.contains(name));
        let due = |name: &String| self.known.get(name).is_none_or(|known| known.asked.elapsed() >= AGAIN);
        let due: Vec<String> = wanted.into_iter().filter(due).collect();
        let api: Api<Node> = Api::all(client.clone());
        let answers = stream::iter(due.into_iter().map(|name| async {
            let answer = api.get_opt(&name).await;
            (name, answer)
        }));
        let answers: Vec<_> = answers.buffer_unordered(AT_A_TIME).collect().await;
        let mut is_new = false;
        for (name, answer) in answers {
            match answer {
                Ok(node) => {
                    let addresses = node.as_ref().map(reachable).unwrap_or_default();
                    is_new |= self.addresses(&name) != addresses;
                    self.known.insert(name, Known { addresses, asked: Instant::now() });
                }
                // What was known stays known; the next look tries again.
                Err(error) => {
                    log.warning("node-failed", format_args!("Node {name} cannot be read: {error}"));
                }
            }
        }
        is_new
    }
}

/// Where a node is reached from outside if it says so, else from inside.
fn reachable(node: &Node) -> Vec<IpAddr> {
    let of_kind = |kind: &str| -> Vec<IpAddr> {
        let all = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
        all.filter(|address| address.type_ == kind)
            .filter_map(|address| address.address.parse().ok())
            .collect()
    };
    let outside = of_kind("ExternalIP");
    if outside.is_empty() { of_kind("InternalIP") } else { outside }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_for_the_outside_go_before_those_for_the_inside() {
        let node = |addresses: serde_json::Value| -> Vec<String> {
            let node = serde_json::from_value(json!({"metadata": {}, "status": {"addresses": addresses}}));
            reachable(&node.expect("a node")).iter().map(ToString::to_string).collect()
        };
        let inside = json!({"type": "InternalIP", "address": "10.0.0.1"});
        let name = json!({"type": "Hostname", "address": "node-1"});
        assert_eq!(
            node(json!([name, inside, {"type": "InternalIP", "address": "fd00::1"}])),
            ["10.0.0.1", "fd00::1"]
        );
        assert_eq!(node(json!([inside, {"type": "ExternalIP", "address": "192.0.2.1"}])), ["192.0.2.1"]);
        assert_eq!(node(json!([name])), Vec::<String>::new());
    }
}
