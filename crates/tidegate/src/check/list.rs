//! All objects as one `v1` `List`, as an API server would hold them once their statuses are written.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_api::folder::NAMESPACE_LABEL;
use tidegate_api::status::Status;
use tidegate_api::status::merge::{Writer, merge};
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
                let (status, times) = (meaning.status(key), meaning.times(key));
                merge_status(&mut object, key.kind, status, meaning.controller_name(), times);
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

/// Writes the status as a controller would, which has nothing to say of what is not ours.
fn merge_status(object: &mut Value, kind: Kind, status: Option<&Status>, controller: &str, times: &[i64]) {
    let written = object.get("status").cloned().unwrap_or_default();
    let Some(fields) = merge(kind, &written, status, Writer { controller, now: NO_TIME }).fields else {
        return;
    };
    let mut merged = written.as_object().cloned().unwrap_or_default();
    merged.extend(fields);
    let mut merged = Value::Object(merged);
    if !times.is_empty() {
        let mut ours = serde_json::to_value(status).unwrap_or_default();
        give_known_times(&mut ours, &mut times.iter());
        take_times(&mut merged, &ours);
    }
    object["status"] = merged;
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

/// The times of our conditions, in a status that has those of others too.
fn take_times(merged: &mut Value, ours: &Value) {
    match merged {
        Value::Object(fields) if is_condition(fields) => {
            if let Some(time) = ours.get("lastTransitionTime") {
                fields.insert("lastTransitionTime".to_owned(), time.clone());
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                take_times(value, ours.get(name).unwrap_or(&Value::Null));
            }
        }
        Value::Array(items) => {
            for item in items {
                let own = ours.as_array().into_iter().flatten().find(|own| same_entry(own, item));
                take_times(item, own.unwrap_or(&Value::Null));
            }
        }
        _ => {}
    }
}

/// Whether two entries of a list are about one thing: a condition by its type, a listener by its name, a parent or
/// ancestor by its reference and controller.
fn same_entry(ours: &Value, merged: &Value) -> bool {
    let has = |field| ours.get(field).is_some();
    let same = |field| ours.get(field) == merged.get(field);
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
    use tidegate_api::status::{Condition, ConditionStatus, ConditionType, ListenerSetStatus, Reason};

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

    /// As a process that serves knows them; conditions of others keep theirs.
    #[test]
    fn known_times_are_those_of_our_conditions() {
        let condition = |kind| Condition {
            kind,
            status: ConditionStatus::True,
            reason: Reason::Accepted,
            message: String::new(),
            observed_generation: 1,
        };
        let status = Status::ListenerSet(ListenerSetStatus {
            conditions: vec![condition(ConditionType::Accepted), condition(ConditionType::Programmed)],
            listeners: Vec::new(),
        });
        let foreign = json!({
            "type": "example.com/Weather", "status": "True", "reason": "Fine", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let mut object = json!({ "status": { "conditions": [foreign] } });
        merge_status(&mut object, Kind::ListenerSet, Some(&status), "ours", &[86_400, 2 * 86_400]);
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let times: Vec<_> = conditions.iter().map(|condition| &condition["lastTransitionTime"]).collect();
        assert_eq!(times, ["2026-01-01T00:00:00Z", "1970-01-02T00:00:00Z", "1970-01-03T00:00:00Z"]);
    }
}
