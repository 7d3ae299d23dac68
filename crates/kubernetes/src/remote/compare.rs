//! Objects as they are written beside those of a cluster: what its API server says to them, and what would change. It
//! is asked by a dry run of `kubectl apply --server-side --force-conflicts`.

use futures::StreamExt;
use futures::stream;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Client, Error};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use tidegate_api::{Kind, ObjectKey};

use crate::kinds;

/// How many are asked about at a time.
const AT_A_TIME: usize = 8;
/// Whose fields those are that `kubectl apply --server-side` writes.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What an API server says to an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict", content = "detail")]
pub enum Verdict {
    /// It takes it, and has none like it.
    New,
    Same,
    Changed(Vec<Difference>),
    /// It would not take it, and why.
    Refused(String),
    /// It could not be asked, and why.
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `spec.listeners[0].port`
    pub field: String,
    /// As it is there.
    pub before: Option<Json>,
    /// As it would be.
    pub after: Option<Json>,
}

/// Asks about each object; answers come in the same order.
pub async fn compare(client: &Client, objects: Vec<(ObjectKey, Json)>) -> Vec<(ObjectKey, Verdict)> {
    let asked = objects.into_iter().map(async |(key, object)| {
        let verdict = verdict(client, &key, object).await;
        (key, verdict)
    });
    stream::iter(asked).buffered(AT_A_TIME).collect().await
}

async fn verdict(client: &Client, key: &ObjectKey, mut object: Json) -> Verdict {
    let api_version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let version = api_version.rsplit_once('/').map_or(&*api_version, |(_, version)| version);
    let api = kinds::api(client, key, version);
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
    let there = match api.get_opt(&key.name.name).await {
        Ok(there) => there.map(|there| comparable(&there)),
        Err(error) => return refusal(&error, key, &api_version),
    };
    let params = PatchParams::apply(KUBECTL).force().dry_run();
    match (api.patch(&key.name.name, &params, &Patch::Apply(&object)).await, there) {
        (Err(error), _) => refusal(&error, key, &api_version),
        (Ok(_), None) => Verdict::New,
        (Ok(after), Some(before)) => {
            let mut found = Vec::new();
            differences(Some(&before), Some(&comparable(&after)), "", &mut found);
            if key.kind == Kind::Secret {
                found.iter_mut().for_each(conceal);
            }
            if found.is_empty() { Verdict::Same } else { Verdict::Changed(found) }
        }
    }
}

fn refusal(error: &Error, key: &ObjectKey, api_version: &str) -> Verdict {
    let Error::Api(status) = error else { return Verdict::Unknown(error.to_string()) };
    match (status.code, status.details.as_ref().map(|details| &*details.kind)) {
        (401 | 403 | 429 | 500.., _) => Verdict::Unknown(status.message.clone()),
        // It may be among what is about to be applied.
        (404, Some("namespaces")) => {
            Verdict::Unknown(format!("there is no namespace {} yet", key.name.namespace))
        }
        (404, _) => Verdict::Refused(format!("{api_version} {} is not served there", key.kind)),
        _ => Verdict::Refused(status.message.clone()),
    }
}

/// An object without what the API server alone writes.
fn comparable(object: &DynamicObject) -> Json {
    let mut json = serde_json::to_value(object).unwrap_or_default();
    if let Some(object) = json.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = json["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Json::as_object_mut) {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    json
}

fn differences(before: Option<&Json>, after: Option<&Json>, path: &str, found: &mut Vec<Difference>) {
    match (before, after) {
        (Some(Json::Object(before)), Some(Json::Object(after))) => fields(before, after, path, found),
        (Some(Json::Array(before)), Some(Json::Array(after))) => {
            for at in 0..before.len().max(after.len()) {
                differences(before.get(at), after.get(at), &format!("{path}[{at}]"), found);
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            found.push(Difference { field: path.to_owned(), before: before.cloned(), after: after.cloned() });
        }
    }
}

fn fields(before: &Map<String, Json>, after: &Map<String, Json>, path: &str, found: &mut Vec<Difference>) {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        differences(before.get(key), after.get(key), &path, found);
    }
}

/// That a Secret would change is told, not into what.
fn conceal(difference: &mut Difference) {
    for value in [&mut difference.before, &mut difference.after].into_iter().flatten() {
        *value = "(redacted)".into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(before: &Json, after: &Json) -> Vec<String> {
        let mut found = Vec::new();
        differences(Some(before), Some(after), "", &mut found);
        let text = |value: &Option<Json>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
        found.iter().map(|one| format!("{} {} {}", one.field, text(&one.before), text(&one.after))).collect()
    }

    #[test]
    fn differences_are_told_where_they_are() {
        let before =
            json!({"spec": {"listeners": [{"name": "a", "port": 1}, {"name": "b"}], "gone": 1, "same": {}}});
        let after = json!({"spec": {"listeners": [{"name": "a", "port": 2}], "same": {}, "new": [1]}});
        assert_eq!(
            found(&before, &after),
            [
                "spec.listeners[0].port 1 2",
                r#"spec.listeners[1] {"name":"b"} -"#,
                "spec.gone 1 -",
                "spec.new - [1]"
            ]
        );
        assert!(found(&before, &before).is_empty());
    }

    #[test]
    fn what_the_server_alone_writes_is_no_difference() {
        let object = |version: &str, annotations: Json| -> Json {
            let object = json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "web", "resourceVersion": version, "generation": 1, "uid": version, "annotations": annotations},
                "spec": {}, "status": {"seen": version},
            });
            comparable(&serde_json::from_value(object).expect("an object"))
        };
        assert_eq!(object("1", json!({LAST_APPLIED: "{}"})), object("2", json!({})));
        assert_ne!(object("1", json!({"mine": "a"})), object("1", json!({"mine": "b"})));
    }

    #[test]
    fn a_secret_keeps_its_values_to_itself() {
        let mut difference =
            Difference { field: "data.tls.key".to_owned(), before: None, after: Some(json!("c2VjcmV0")) };
        conceal(&mut difference);
        assert_eq!((difference.before, difference.after), (None, Some(json!("(redacted)"))));
    }
}
