//! All objects as one `v1` `List`, as an API server would hold them once their statuses are written.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_api::folder::NAMESPACE_LABEL;
use tidegate_api::status::Status;
use tidegate_api::{Kind, ObjectKey};

use crate::meaning::Meaning;
use crate::words;

/// Stands for "never yet": nothing is watched here, so nothing has a time. The CRDs use the same as a default.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// Says that an earlier state of an object is served, and what is wrong with the newer one.
const KEPT_ANNOTATION: &str = "gateway.tidegate.io/not-served";

pub(crate) fn list(meaning: &Meaning) -> Value {
    let kept: BTreeMap<&ObjectKey, String> = meaning.manifests.kept().collect();
    let items: Vec<Value> = meaning
        .manifests
        .written()
        .map(|(key, mut object)| {
            if let Some(key) = key {
                complete(&mut object, key);
                if let Some(why) = kept.get(key) {
                    object["metadata"]["annotations"][KEPT_ANNOTATION] = json!(why);
                }
                if let Some(status) = meaning.status(key) {
                    merge_status(&mut object, status, meaning.controller_name(), meaning.times(key));
                }
            }
            object
        })
        .collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

/// What an API server would have filled in, and without what nobody should see.
fn complete(object: &mut Value, key: &ObjectKey) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        if key.kind.is_namespaced() {
            metadata.entry("namespace").or_insert_with(|| json!(*key.name.namespace));
        }
        metadata.entry("generation").or_insert_with(|| json!(1));
    }
    match key.kind {
        Kind::Secret => redact(object),
        Kind::Namespace => object["metadata"]["labels"][NAMESPACE_LABEL] = json!(*key.name.name),
        _ => {}
    }
}

/// Not base64 on purpose: whoever applies this list must not write over a key with it.
const REDACTED: &str = "(redacted)";

fn redact(secret: &mut Value) {
    for field in ["data", "stringData"] {
        if let Some(entries) = secret.get_mut(field).and_then(Value::as_object_mut) {
            entries.values_mut().for_each(|value| *value = json!(REDACTED));
        }
    }
    // What kubectl last applied has the data once more.
    let applied = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
    if let Some(annotation) = secret.pointer_mut(applied) {
        *annotation = json!(REDACTED);
    }
}

fn merge_status(object: &mut Value, status: &Status, controller: &str, times: &[i64]) {
    let Ok(mut ours) = serde_json::to_value(status) else { return };
    let written = object.get("status").cloned().unwrap_or_default();
    if times.is_empty() {
        give_times(&mut ours, &written);
    } else {
        give_known_times(&mut ours, &mut times.iter());
    }
    match status {
        Status::Route(_) => keep_others(&mut ours, &written, "parents", controller),
        Status::Policy(_) => keep_others(&mut ours, &written, "ancestors", controller),
        Status::GatewayClass(_) | Status::Gateway(_) | Status::ListenerSet(_) => {
            keep_conditions(&mut ours, &written);
        }
    }
    if let Some(fields) = object.as_object_mut() {
        let mut merged = written.as_object().cloned().unwrap_or_else(Map::new);
        if let Value::Object(ours) = ours {
            merged.extend(ours);
        }
        fields.insert("status".to_owned(), Value::Object(merged));
    }
}

/// Entries of other controllers stay, before ours.
fn keep_others(ours: &mut Value, written: &Value, field: &str, controller: &str) {
    let others = written.get(field).and_then(Value::as_array).into_iter().flatten();
    let others: Vec<Value> = others
        .filter(|entry| {
            entry.get("controllerName").and_then(Value::as_str).is_some_and(|name| name != controller)
        })
        .cloned()
        .collect();
    if let Some(entries) = ours.get_mut(field).and_then(Value::as_array_mut) {
        entries.splice(0..0, others);
    }
}

/// Conditions of types that we do not write stay.
fn keep_conditions(ours: &mut Value, written: &Value) {
    let Some(conditions) = ours.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    for condition in written.get("conditions").and_then(Value::as_array).into_iter().flatten() {
        if !conditions.iter().any(|own| own.get("type") == condition.get("type")) {
            conditions.push(condition.clone());
        }
    }
}

/// The conditions of a status stand in the same order in JSON.
fn give_known_times(ours: &mut Value, times: &mut std::slice::Iter<'_, i64>) {
    match ours {
        Value::Object(fields) if is_condition(fields) => {
            let time = times.next().map_or_else(|| NO_TIME.to_owned(), |time| words::time(*time));
            fields.insert("lastTransitionTime".to_owned(), json!(time));
        }
        Value::Object(fields) => fields.values_mut().for_each(|value| give_known_times(value, times)),
        Value::Array(items) => items.iter_mut().for_each(|item| give_known_times(item, times)),
        _ => {}
    }
}

fn is_condition(fields: &Map<String, Value>) -> bool {
    fields.contains_key("observedGeneration") && fields.contains_key("reason")
}

/// A condition has changed only where its status has; what was written keeps its time.
fn give_times(ours: &mut Value, written: &Value) {
    match ours {
        Value::Object(fields) if is_condition(fields) => {
            let same = written.get("status") == fields.get("status");
            let time = written.get("lastTransitionTime").filter(|_| same).cloned();
            fields.insert("lastTransitionTime".to_owned(), time.unwrap_or_else(|| json!(NO_TIME)));
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                give_times(value, written.get(name).unwrap_or(&Value::Null));
            }
        }
        Value::Array(items) => {
            for item in items {
                let before =
                    written.as_array().into_iter().flatten().find(|other| same_entry(item, other)).cloned();
                give_times(item, &before.unwrap_or_default());
            }
        }
        _ => {}
    }
}

/// Whether two entries of a list are about one thing: a condition by its type, a listener by its name, a parent or
/// ancestor by its reference and controller.
fn same_entry(ours: &Value, written: &Value) -> bool {
    let has = |field| ours.get(field).is_some();
    let same = |field| ours.get(field) == written.get(field);
    if has("controllerName") {
        same("controllerName") && same("parentRef") && same("ancestorRef")
    } else if has("type") {
        same("type")
    } else {
        has("name") && same("name")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_its_keys_and_nothing_else() {
        let mut secret = json!({
            "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":\"c2VjcmV0\"}" } },
            "data": { "tls.key": "c2VjcmV0" },
            "stringData": { "password": "secret" },
        });
        redact(&mut secret);
        let text = secret.to_string();
        assert!(!text.contains("c2VjcmV0") && !text.contains("\"secret\""), "{text}");
        assert!(text.contains("tls.key") && text.contains("password"));
    }

    #[test]
    fn other_controllers_and_conditions_stay() {
        let written = json!({ "parents": [
            { "controllerName": "other.example/c", "parentRef": { "name": "a" } },
            { "controllerName": "ours", "parentRef": { "name": "gone" } },
        ]});
        let mut ours = json!({ "parents": [{ "controllerName": "ours", "parentRef": { "name": "a" } }] });
        keep_others(&mut ours, &written, "parents", "ours");
        let controllers: Vec<_> =
            ours["parents"].as_array().unwrap().iter().map(|entry| &entry["controllerName"]).collect();
        assert_eq!(controllers, ["other.example/c", "ours"]);

        let mut ours = json!({ "conditions": [{ "type": "Accepted" }] });
        keep_conditions(&mut ours, &json!({ "conditions": [{ "type": "Accepted" }, { "type": "Mine" }] }));
        assert_eq!(ours["conditions"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn a_condition_that_did_not_change_keeps_its_time() {
        let condition = |status: &str| json!({ "type": "Accepted", "status": status, "reason": "R", "observedGeneration": 1 });
        let written = json!({ "conditions": [{ "type": "Accepted", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
        for (status, time) in [("True", "2026-01-01T00:00:00Z"), ("False", NO_TIME)] {
            let mut ours = json!({ "conditions": [condition(status)] });
            give_times(&mut ours, &written);
            assert_eq!(ours["conditions"][0]["lastTransitionTime"], time);
        }
    }
}
