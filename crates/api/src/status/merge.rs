//! A status of ours put into what is there, with everything that others wrote left as it is: for a cluster's objects and
//! for manifests alike.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::{Condition, ListenerStatus, Status, most_ancestors};
use crate::Kind;

/// As many parents as the CRDs take, those of other controllers included.
const MAX_PARENTS: usize = 32;
/// A condition's message, in characters.
const MAX_MESSAGE: usize = 32_768;

/// What there is to write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merged {
    /// The fields of `status` that differ; `None` where nothing does.
    pub fields: Option<Map<String, Json>>,
    /// How many entries of ours found no room beside those of others.
    pub left_out: usize,
}

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub controller: &'a str,
    /// As Kubernetes writes times.
    pub now: &'a str,
}

/// Merges what we have to say, or that we have nothing to say any more, into the status that is there.
#[must_use]
pub fn merge(kind: Kind, current: &Json, desired: Option<&Status>, writer: Writer<'_>) -> Merged {
    let mut fields = Map::new();
    let mut left_out = 0;
    match desired {
        Some(Status::GatewayClass(status)) => {
            fields.insert("conditions".into(), writer.conditions(&current["conditions"], &status.conditions));
            fields.insert("supportedFeatures".into(), json!(status.supported_features));
        }
        Some(Status::Gateway(status)) => {
            fields.insert("addresses".into(), json!(status.addresses));
            fields.insert("conditions".into(), writer.conditions(&current["conditions"], &status.conditions));
            fields.insert("listeners".into(), writer.listeners(&current["listeners"], &status.listeners));
            fields.insert("attachedListenerSets".into(), json!(status.attached_listener_sets));
        }
        Some(Status::ListenerSet(status)) => {
            fields.insert("conditions".into(), writer.conditions(&current["conditions"], &status.conditions));
            fields.insert("listeners".into(), writer.listeners(&current["listeners"], &status.listeners));
        }
        Some(Status::Route(status)) => {
            let ours = status.parents.iter().map(|parent| (json!(parent.parent_ref), &parent.conditions));
            let entries = writer.entries(&current["parents"], "parentRef", ours.collect());
            fields.insert("parents".into(), bounded(entries, MAX_PARENTS, writer.controller, &mut left_out));
        }
        Some(Status::Policy(status)) => {
            let ours = status.ancestors.iter().map(|entry| (json!(entry.ancestor_ref), &entry.conditions));
            let entries = writer.entries(&current["ancestors"], "ancestorRef", ours.collect());
            let entries = bounded(entries, most_ancestors(kind), writer.controller, &mut left_out);
            fields.insert("ancestors".into(), entries);
        }
        None => {
            for (list, reference) in [("parents", "parentRef"), ("ancestors", "ancestorRef")] {
                if current[list].is_array() {
                    let entries = writer.entries(&current[list], reference, Vec::new());
                    fields.insert(list.into(), Json::Array(entries));
                }
            }
        }
    }
    fields.retain(|field, value| match current.get(field.as_str()) {
        Some(there) => there != value,
        None => !is_empty(value),
    });
    Merged { fields: (!fields.is_empty()).then_some(fields), left_out }
}

/// Whether somebody of ours has seen a newer generation of the object than this status speaks of: not to be written over.
#[must_use]
pub fn is_outdated(desired: &Status, current: &Json) -> bool {
    let conditions = match desired {
        Status::GatewayClass(status) => &status.conditions,
        Status::Gateway(status) => &status.conditions,
        Status::ListenerSet(status) => &status.conditions,
        Status::Route(_) | Status::Policy(_) => return false,
    };
    conditions.iter().any(|condition| {
        let name = name(condition);
        let there = list(&current["conditions"]).iter().find(|there| there["type"] == name);
        let seen = there.and_then(|there| there["observedGeneration"].as_i64());
        seen.is_some_and(|seen| seen > condition.observed_generation)
    })
}

/// Whether a status has entries of this controller.
#[must_use]
pub fn has_entries_of(current: &Json, controller: &str) -> bool {
    ["parents", "ancestors"].iter().any(|list| {
        let entries = current[list].as_array().into_iter().flatten();
        entries.into_iter().any(|entry| entry["controllerName"] == controller)
    })
}

fn is_empty(value: &Json) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value == &json!(0)
}

/// A condition's type as it is written.
fn name(condition: &Condition) -> Json {
    json!(condition.kind)
}

fn list(value: &Json) -> &[Json] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The conditions that we set now and then, and take away again when there is no more reason for them.
const PASSING: &[&str] = &[
    "OverlappingTLSConfig",
    "InsecureFrontendValidationMode",
    "DefaultGateway",
    "AddressesAssigned",
    "PartiallyInvalid",
    "gateway.tidegate.io/CertificatesIssued",
];

impl Writer<'_> {
    fn conditions(self, current: &Json, ours: &[Condition]) -> Json {
        let mut wanted: Vec<(Json, &Condition)> =
            ours.iter().map(|condition| (name(condition), condition)).collect();
        let mut merged = Vec::new();
        for there in list(current) {
            let kind = there["type"].as_str().unwrap_or_default();
            match wanted.iter().position(|(name, _)| *name == kind) {
                Some(index) => merged.push(self.condition(wanted.remove(index).1, Some(there))),
                None if PASSING.contains(&kind) => {}
                None => merged.push(there.clone()),
            }
        }
        merged.extend(wanted.into_iter().map(|(_, condition)| self.condition(condition, None)));
        Json::Array(merged)
    }

    fn condition(self, ours: &Condition, there: Option<&Json>) -> Json {
        let mut condition = json!(ours);
        if ours.message.len() > MAX_MESSAGE {
            condition["message"] = ours.message.chars().take(MAX_MESSAGE).collect::<String>().into();
        }
        let same = there.filter(|there| there["status"] == condition["status"]);
        let time = same.and_then(|there| there["lastTransitionTime"].as_str()).unwrap_or(self.now);
        condition["lastTransitionTime"] = time.into();
        condition
    }

    /// Listeners are told apart by name; what is not in the spec any more goes, with whatever was said of it.
    fn listeners(self, current: &Json, ours: &[ListenerStatus]) -> Json {
        let merged = ours.iter().map(|listener| {
            let there = list(current).iter().find(|there| there["name"] == *listener.name);
            let mut value = json!(listener);
            value["conditions"] = self
                .conditions(there.map_or(&Json::Null, |there| &there["conditions"]), &listener.conditions);
            value
        });
        merged.collect()
    }

    /// The entries of a route or a policy: ours where they stood before, those of others untouched.
    fn entries(self, current: &Json, reference: &str, ours: Vec<(Json, &Vec<Condition>)>) -> Vec<Json> {
        let mut ours: Vec<Option<(Json, &Vec<Condition>)>> = ours.into_iter().map(Some).collect();
        let mut merged = Vec::new();
        for there in list(current) {
            if there["controllerName"] != self.controller {
                merged.push(there.clone());
                continue;
            }
            let same = ours.iter_mut().find(|entry| {
                entry.as_ref().is_some_and(|(name, _)| same_reference(name, &there[reference]))
            });
            if let Some((name, conditions)) = same.and_then(Option::take) {
                merged.push(self.entry(reference, name, conditions, &there["conditions"]));
            }
        }
        for (name, conditions) in ours.into_iter().flatten() {
            merged.push(self.entry(reference, name, conditions, &Json::Null));
        }
        merged
    }

    fn entry(self, reference: &str, name: Json, conditions: &[Condition], there: &Json) -> Json {
        let mut entry = Map::new();
        entry.insert(reference.to_owned(), name);
        entry.insert("controllerName".to_owned(), self.controller.into());
        entry.insert("conditions".to_owned(), self.conditions(there, conditions));
        Json::Object(entry)
    }
}

/// Two references that name the same; a field that is missing and one that is null are alike.
fn same_reference(ours: &Json, there: &Json) -> bool {
    let fields: BTreeSet<&String> =
        [ours, there].into_iter().filter_map(Json::as_object).flat_map(Map::keys).collect();
    fields.into_iter().all(|field| ours[field] == there[field])
}

/// What is ours gives way where the list is full: the newest of ours first.
fn bounded(mut entries: Vec<Json>, max: usize, controller: &str, left_out: &mut usize) -> Json {
    while entries.len() > max {
        let Some(last) = entries.iter().rposition(|entry| entry["controllerName"] == controller) else {
            break;
        };
        entries.remove(last);
        *left_out += 1;
    }
    Json::Array(entries)
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
