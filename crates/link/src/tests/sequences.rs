//! Whatever is published in whatever order, cut into whatever pieces, with whatever breaks in between: the data plane
//! ends with the same plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_plan::*;

use super::plans::*;
use crate::client::Changed;
use crate::client::store::Store;
use crate::server::changes::{Changes, Held};

/// A plan by what is in it.
#[derive(Clone, Debug)]
struct Shape {
    /// Ports of each route's endpoints.
    routes: Vec<Option<Vec<u16>>>,
    keys: Vec<Option<Vec<u8>>>,
    connections: Option<usize>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let routes = vec(proptest::option::of(vec(1..4_u16, 0..3)), 4);
    let keys = vec(proptest::option::of(vec(any::<u8>(), 1..200)), 2);
    (routes, keys, proptest::option::of(1..9_usize)).prop_map(|(routes, keys, connections)| Shape {
        routes,
        keys,
        connections,
    })
}

impl Shape {
    fn plan(&self, version: u64) -> GatewayPlan {
        let mut made = plan(&gateway(), 0);
        for (number, ports) in self.routes.iter().enumerate() {
            if let Some(ports) = ports {
                add_route(&mut made, &format!("route-{number}"), &listener_id(&gateway(), "tcp"), ports);
            }
        }
        for (number, key) in self.keys.iter().enumerate() {
            if let Some(key) = key {
                add_terminating(&mut made, &gateway(), &format!("tls-{number}"), key);
            }
        }
        let bounds = BoundSettings { connections: self.connections, ..BoundSettings::default() };
        let settings = DataPlaneSettings { bounds, ..DataPlaneSettings::default() };
        GatewayPlan { gateway: gateway(), version, plan: made, settings }
    }
}

/// What `changed` must name for a data plane that looks at nothing else.
fn difference(before: &Plan, after: &Plan) -> (BTreeSet<FragmentId>, BTreeSet<EndpointsId>) {
    let fragments = before.fragments.keys().chain(after.fragments.keys());
    let endpoints = before.endpoints.keys().chain(after.endpoints.keys());
    (
        fragments.filter(|id| before.fragments.get(id) != after.fragments.get(id)).cloned().collect(),
        endpoints.filter(|id| before.endpoints.get(id) != after.endpoints.get(id)).cloned().collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_sequence_ends_in_the_same_plan(
        steps in vec((shapes(), any::<bool>(), 1..3000_usize), 1..8),
    ) {
        let mut store = Store::new(Capability::ALL.iter().copied().collect(), false);
        let mut held = Held::Told(Default::default());
        for (number, (shape, reconnects, chunk)) in steps.into_iter().enumerate() {
            let sequence = number as u64 + 1;
            let wanted = Arc::new(shape.plan(sequence));
            let before = store.plan().clone();
            if reconnects {
                // The stream breaks in the middle of a batch, and another begins.
                if let Some(part) = Changes::new(&held, &wanted, sequence, chunk).next().filter(|part| !part.last) {
                    prop_assert!(store.take(part).is_none());
                }
                store.begin();
                held = Held::Told(store.holds().collect());
            }
            let mut taken = None;
            for part in Changes::new(&held, &wanted, sequence, chunk) {
                let size: usize = part.items.iter().map(|item| item.content.len()).sum();
                prop_assert!(size + part.removed.len() <= chunk.max(32));
                taken = store.take(part);
            }
            let changed: Changed = taken.unwrap().taken.unwrap();
            prop_assert_eq!(store.plan(), &wanted.plan);
            prop_assert_eq!(store.settings(), &wanted.settings);
            let (fragments, endpoints) = difference(&before, &wanted.plan);
            prop_assert_eq!(changed.fragments, fragments);
            prop_assert_eq!(changed.endpoints, endpoints);
            held = Held::Sent(wanted);
        }
    }
}
