//! When each condition last changed: the one thing about a status that translation does not know.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_api::ObjectKey;
use tidegate_api::status::{Condition, ConditionStatus, ConditionType, Status};

use crate::conditions;

#[derive(Debug, Default)]
pub(crate) struct Times {
    of: BTreeMap<ObjectKey, (Arc<Status>, Vec<i64>)>,
}

impl Times {
    /// Takes the newer status of an object, or that it has none; what it was before comes back.
    pub(crate) fn note(
        &mut self,
        key: &ObjectKey,
        status: Option<Arc<Status>>,
        now: i64,
    ) -> Option<Arc<Status>> {
        let before = self.of.remove(key);
        if let Some(status) = status {
            let times = match &before {
                Some((old, times)) => carry_over(old, times, &status, now),
                None => vec![now; conditions::sets(&status).iter().map(|set| set.len()).sum()],
            };
            self.of.insert(key.clone(), (status, times));
        }
        before.map(|(status, _)| status)
    }

    /// The times of an object's conditions, in the order in which its status has them.
    pub(crate) fn of(&self, key: &ObjectKey) -> &[i64] {
        self.of.get(key).map_or(&[], |(_, times)| times)
    }
}

/// A condition keeps its time for as long as its status stays the same.
fn carry_over(old: &Status, times: &[i64], new: &Status, now: i64) -> Vec<i64> {
    let before: BTreeMap<(String, ConditionType), (ConditionStatus, i64)> = named(old)
        .into_iter()
        .zip(times)
        .map(|((who, condition), time)| ((who, condition.kind), (condition.status, *time)))
        .collect();
    let time = |(who, condition): (String, &Condition)| match before.get(&(who, condition.kind)) {
        Some((status, time)) if *status == condition.status => *time,
        _ => now,
    };
    named(new).into_iter().map(time).collect()
}

/// Every condition with whom it is about: a listener, a parent, or the object itself.
fn named(status: &Status) -> Vec<(String, &Condition)> {
    let owners: Vec<String> = match status {
        Status::GatewayClass(_) => vec![String::new()],
        Status::Gateway(status) => own_and(status.listeners.iter().map(|listener| listener.name.to_string())),
        Status::ListenerSet(status) => {
            own_and(status.listeners.iter().map(|listener| listener.name.to_string()))
        }
        Status::Route(status) => {
            status.parents.iter().map(|parent| format!("{:?}", parent.parent_ref)).collect()
        }
        Status::Policy(status) => {
            status.ancestors.iter().map(|ancestor| format!("{:?}", ancestor.ancestor_ref)).collect()
        }
    };
    let sets = conditions::sets(status).into_iter().zip(owners);
    sets.flat_map(|(set, owner)| set.iter().map(move |condition| (owner.clone(), condition))).collect()
}

fn own_and(names: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(String::new()).chain(names).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::Kind;
    use tidegate_api::status::{GatewayStatus, ListenerStatus, Reason};
    use tidegate_plan::ObjectName;

    fn condition(kind: ConditionType, good: bool) -> Condition {
        let status = if good { ConditionStatus::True } else { ConditionStatus::False };
        Condition { kind, status, reason: Reason::Invalid, message: String::new(), observed_generation: 1 }
    }

    fn status(own: bool, listeners: &[(&str, bool)]) -> Option<Arc<Status>> {
        let listener = |(name, good): &(&str, bool)| ListenerStatus {
            name: (*name).into(),
            supported_kinds: Vec::new(),
            attached_routes: 0,
            conditions: vec![condition(ConditionType::Programmed, *good)],
        };
        Some(Arc::new(Status::Gateway(GatewayStatus {
            addresses: Vec::new(),
            conditions: vec![
                condition(ConditionType::Accepted, true),
                condition(ConditionType::Programmed, own),
            ],
            listeners: listeners.iter().map(listener).collect(),
            attached_listener_sets: 0,
        })))
    }

    #[test]
    fn only_what_changes_gets_a_new_time() {
        let key = ObjectKey { kind: Kind::Gateway, name: ObjectName::new("default", "a") };
        let mut times = Times::default();
        assert!(times.note(&key, status(true, &[("a", true), ("b", true)]), 1).is_none());
        assert_eq!(times.of(&key), [1, 1, 1, 1]);
        times.note(&key, status(false, &[("a", true), ("b", false)]), 2);
        assert_eq!(times.of(&key), [1, 2, 1, 2]);
        times.note(&key, status(false, &[("c", true), ("b", false), ("a", true)]), 3);
        assert_eq!(times.of(&key), [1, 2, 3, 2, 1]);
        times.note(&key, None, 4);
        assert!(times.of(&key).is_empty());
    }
}
