//! What has to be said to make a Certificate of ours what it shall be: a JSON merge patch. All of its `spec` is ours,
//! of its metadata what we name; labels and annotations of others stay.

use serde_json::{Map, Value as Json, json};

/// Annotations with these in front are ours to take away again.
const OURS: &[&str] = &["gateway.tidegate.io/", "acme.cert-manager.io/"];

/// `None` where it is as it shall be.
pub(super) fn difference(there: &Json, wanted: &Json) -> Option<Json> {
    let mut patch = Map::new();
    if let Some(spec) = merge(&there["spec"], &wanted["spec"], &|_| true) {
        patch.insert("spec".to_owned(), spec);
    }
    let mut metadata = Map::new();
    let is_ours = |key: &str| OURS.iter().any(|prefix| key.starts_with(prefix));
    for (field, removes) in
        [("labels", &(|_: &str| false) as &dyn Fn(&str) -> bool), ("annotations", &is_ours)]
    {
        let changes = merge(&there["metadata"][field], &wanted["metadata"][field], removes);
        metadata.extend(changes.map(|changes| (field.to_owned(), changes)));
    }
    if patch.is_empty() && metadata.is_empty() {
        return None;
    }
    // Only on top of what was looked at: somebody may have put another in its place.
    for field in ["resourceVersion", "uid"] {
        metadata.insert(field.to_owned(), there["metadata"][field].clone());
    }
    patch.insert("metadata".to_owned(), Json::Object(metadata));
    Some(Json::Object(patch))
}

/// How one value becomes the other; `removes` says which fields of it are ours to take away.
fn merge(there: &Json, wanted: &Json, removes: &dyn Fn(&str) -> bool) -> Option<Json> {
    let (Json::Object(there), Json::Object(wanted)) = (there, wanted) else {
        return (there != wanted).then(|| wanted.clone());
    };
    let unwanted = there.keys().filter(|key| !wanted.contains_key(*key) && removes(key));
    let mut changes: Map<String, Json> = unwanted.map(|key| (key.clone(), json!(null))).collect();
    for (key, wanted) in wanted {
        let change = match there.get(key) {
            Some(there) => merge(there, wanted, &|_| true),
            None => Some(wanted.clone()),
        };
        changes.extend(change.map(|change| (key.clone(), change)));
    }
    (!changes.is_empty()).then_some(Json::Object(changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> Json {
        json!({
            "metadata": {
                "labels": {"role": "certificate"},
                "annotations": {"gateway.tidegate.io/written": "1"},
            },
            "spec": {"dnsNames": ["a"], "privateKey": {"size": 256}, "secretName": "front"},
        })
    }

    fn as_stored() -> Json {
        let mut there = certificate();
        there["metadata"]["resourceVersion"] = json!("7");
        there["metadata"]["uid"] = json!("u");
        there["metadata"]["annotations"]["theirs"] = json!("x");
        there["metadata"]["labels"]["theirs"] = json!("x");
        there["status"] = json!({"revision": 1});
        there
    }

    #[test]
    fn what_others_add_to_the_metadata_is_theirs() {
        assert_eq!(difference(&as_stored(), &certificate()), None);
    }

    #[test]
    fn every_change_of_the_spec_is_put_back() {
        let metadata = json!({"resourceVersion": "7", "uid": "u"});
        for (path, value, expected) in [
            ("/spec/dnsNames", json!(["a", "b"]), json!({"dnsNames": ["a"]})),
            ("/spec/secretName", json!("other"), json!({"secretName": "front"})),
            (
                "/spec/privateKey",
                json!({"size": 256, "algorithm": "RSA"}),
                json!({"privateKey": {"algorithm": null}}),
            ),
            ("/spec/privateKey", json!(null), json!({"privateKey": {"size": 256}})),
        ] {
            let mut there = as_stored();
            *there.pointer_mut(path).expect("is there") = value;
            let patch = json!({"metadata": metadata, "spec": expected});
            assert_eq!(difference(&there, &certificate()), Some(patch), "{path}");
        }
        let mut there = as_stored();
        there["spec"]["isCA"] = json!(true);
        let patch = difference(&there, &certificate()).expect("a patch");
        assert_eq!(patch["spec"], json!({"isCA": null}));
    }

    #[test]
    fn an_annotation_of_ours_goes_again() {
        let mut there = as_stored();
        there["metadata"]["annotations"]["acme.cert-manager.io/http01-parentrefnamespace"] = json!("x");
        let patch = difference(&there, &certificate()).expect("a patch");
        assert_eq!(
            patch["metadata"]["annotations"],
            json!({"acme.cert-manager.io/http01-parentrefnamespace": null})
        );
        assert_eq!(patch.get("spec"), None);
    }
}
