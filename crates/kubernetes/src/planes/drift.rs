//! Whether an object is still as we want it.

use serde_json::{Map, Value as Json};

/// What an object says about the fields that we speak of, in the shape in which we speak of them. What others add
/// beside them is not looked at.
pub(crate) fn projection(there: &Json, wanted: &Json) -> Json {
    match (there, wanted) {
        (Json::Object(there), Json::Object(wanted)) => {
            let fields = wanted.iter().map(|(key, wanted)| {
                let there = there.get(key).unwrap_or(&Json::Null);
                (key.clone(), projection(there, wanted))
            });
            Json::Object(fields.collect::<Map<_, _>>())
        }
        (Json::Array(there), Json::Array(wanted)) if there.len() == wanted.len() => {
            there.iter().zip(wanted).map(|(there, wanted)| projection(there, wanted)).collect()
        }
        // An empty map or list of ours and nothing at all are the same to the API server.
        (Json::Null, wanted) if is_empty(wanted) => wanted.clone(),
        (there, _) => there.clone(),
    }
}

fn is_empty(value: &Json) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_add_is_no_drift() {
        let wanted = json!({
            "metadata": {"labels": {"a": "1"}, "annotations": {}},
            "spec": {"ports": [{"port": 80}], "type": "LoadBalancer"},
        });
        let there = json!({
            "metadata": {"labels": {"a": "1", "theirs": "2"}, "uid": "u"},
            "spec": {"ports": [{"port": 80, "nodePort": 31000}], "type": "LoadBalancer", "clusterIP": "10.0.0.1"},
            "status": {},
        });
        assert_eq!(projection(&there, &wanted), wanted);
    }

    #[test]
    fn what_others_change_is() {
        let wanted = json!({"spec": {"replicas": 2, "template": {"image": "a"}, "ports": [1, 2]}});
        for there in [
            json!({"spec": {"replicas": 3, "template": {"image": "a"}, "ports": [1, 2]}}),
            json!({"spec": {"template": {"image": "a"}, "ports": [1, 2]}}),
            json!({"spec": {"replicas": 2, "template": {"image": "b"}, "ports": [1, 2]}}),
            json!({"spec": {"replicas": 2, "template": {"image": "a"}, "ports": [1, 2, 3]}}),
            json!({}),
        ] {
            assert_ne!(projection(&there, &wanted), wanted, "{there}");
        }
    }
}
