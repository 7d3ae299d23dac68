//! A Gateway or ListenerSet with its open listeners written out.

use serde_json::{Value, json};
use tidegate_plan::RouteId;

/// Listeners in a Gateway or ListenerSet at most.
const MOST: usize = 64;
/// Characters of a name at most.
const LONGEST: usize = 253;

/// A name that a listener is written out for.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) name: String,
    /// Who bring it.
    pub(super) routes: Vec<RouteId>,
}

/// A listener that was written out for a name.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    /// What the listener was called.
    pub(super) listener: String,
    pub(super) port: Value,
    /// What it is called now.
    pub(super) section: String,
    pub(super) routes: Vec<RouteId>,
    /// The ListenerSet where it is, if there was no room for it.
    pub(super) set: Option<String>,
}

pub(super) struct WrittenOut {
    pub(super) documents: Vec<Value>,
    pub(super) copies: Vec<Copied>,
    pub(super) warning: Option<String>,
}

/// The parent with its listeners written out, and ListenerSets for what it has no room for. Listeners that are not
/// written out stay where they are.
pub(super) fn write_out(mut parent: Value, names: &dyn Fn(&str) -> Vec<Name>) -> WrittenOut {
    let listeners = parent["spec"]["listeners"].as_array().cloned().unwrap_or_default();
    let all: Vec<(Value, Vec<Name>)> = listeners
        .into_iter()
        .map(|listener| {
            let names = names(listener["name"].as_str().unwrap_or_default());
            (listener, names)
        })
        .collect();
    let mut room = MOST.saturating_sub(all.iter().filter(|(_, names)| names.is_empty()).count());
    let (mut own, mut sets, mut copies) = (Vec::new(), Vec::<Value>::new(), Vec::new());
    for (listener, names) in all {
        if names.is_empty() {
            own.push(listener);
            continue;
        }
        for Name { name, routes } in names {
            let called = listener["name"].as_str().unwrap_or_default().to_owned();
            let section = section(&called, &name);
            let mut copy = listener.clone();
            copy["name"] = json!(section);
            copy["hostname"] = json!(name);
            let set = if room > 0 {
                room -= 1;
                own.push(copy);
                None
            } else {
                Some(into_set(&parent, &mut sets, copy))
            };
            copies.push(Copied { listener: called, port: listener["port"].clone(), section, routes, set });
        }
    }
    parent["spec"]["listeners"] = Value::Array(own);
    if let Some(fields) = parent.as_object_mut() {
        fields.remove("status");
    }
    let warning = if sets.is_empty() { None } else { let_in(&mut parent) };
    WrittenOut { documents: std::iter::once(parent).chain(sets).collect(), copies, warning }
}

/// Puts a listener into the last ListenerSet that has room, and says which that is. Each set has Secrets of its own:
/// a Certificate belongs to one object.
fn into_set(parent: &Value, sets: &mut Vec<Value>, mut listener: Value) -> String {
    let count = |set: &Value| set["spec"]["listeners"].as_array().map_or(0, Vec::len);
    if sets.last().is_none_or(|last| count(last) >= MOST) {
        sets.push(empty_set(parent, sets.len() + 1));
    }
    let suffix = format!("-names-{}", sets.len());
    for secret in listener["tls"]["certificateRefs"].as_array_mut().into_iter().flatten() {
        let kind = secret["kind"].as_str().unwrap_or("Secret");
        if let (Some(name), "Secret") = (secret["name"].as_str(), kind) {
            secret["name"] = json!(with_suffix(name, &suffix));
        }
    }
    let Some(set) = sets.last_mut() else { return String::new() };
    if let Some(listeners) = set["spec"]["listeners"].as_array_mut() {
        listeners.push(listener);
    }
    set["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Beside its parent, with what the parent says about issuers.
fn empty_set(parent: &Value, number: usize) -> Value {
    let name = parent["metadata"]["name"].as_str().unwrap_or_default();
    let mut metadata = json!({ "name": with_suffix(name, &format!("-names-{number}")) });
    for field in ["namespace", "annotations", "labels"] {
        if let Some(value) = parent["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let gateway = match parent["spec"].get("parentRef") {
        Some(gateway) => gateway.clone(),
        None => json!({ "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name }),
    };
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "ListenerSet",
        "metadata": metadata,
        "spec": { "parentRef": gateway, "listeners": [] },
    })
}

/// Has a Gateway take the ListenerSets beside it. Whoever lets in a ListenerSet's own namespace has done so already.
fn let_in(parent: &mut Value) -> Option<String> {
    if parent["kind"] != "Gateway" {
        return None;
    }
    match parent["spec"]["allowedListeners"]["namespaces"]["from"].as_str() {
        None | Some("None") => {
            parent["spec"]["allowedListeners"] = json!({ "namespaces": { "from": "Same" } });
            None
        }
        Some("Selector") => Some(
            "its allowedListeners have a selector, which has to let in the Gateway's own namespace as well, for the ListenerSets beside it"
                .to_owned(),
        ),
        Some(_) => None,
    }
}

/// Names of listeners may have dots.
fn section(listener: &str, name: &str) -> String {
    let whole = format!("{listener}.{name}");
    let start = whole.len().saturating_sub(LONGEST);
    whole[start..].trim_start_matches(['.', '-']).to_owned()
}

fn with_suffix(name: &str, suffix: &str) -> String {
    let stem: String = name.chars().take(LONGEST - suffix.len()).collect();
    format!("{}{suffix}", stem.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway() -> Value {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": { "name": "edge", "namespace": "infra" },
            "spec": { "gatewayClassName": "tidegate", "listeners": [
                { "name": "https", "protocol": "HTTPS", "port": 443,
                  "tls": { "certificateRefs": [{ "name": "tls" }] } },
                { "name": "http", "protocol": "HTTP", "port": 80 },
            ] },
        })
    }

    fn written(parent: Value, count: usize) -> WrittenOut {
        let names = |listener: &str| match listener {
            "https" => (0..count)
                .map(|number| Name { name: format!("n{number}.example.com"), routes: Vec::new() })
                .collect(),
            _ => Vec::new(),
        };
        write_out(parent, &names)
    }

    #[test]
    fn a_listener_is_written_out_for_each_name() {
        let WrittenOut { documents, copies, .. } = written(gateway(), 2);
        assert_eq!(documents.len(), 1);
        let listeners = documents[0]["spec"]["listeners"].as_array().unwrap();
        let told: Vec<(&str, &str)> = listeners
            .iter()
            .map(|each| (each["name"].as_str().unwrap(), each["hostname"].as_str().unwrap_or("-")))
            .collect();
        let expected = [
            ("https.n0.example.com", "n0.example.com"),
            ("https.n1.example.com", "n1.example.com"),
            ("http", "-"),
        ];
        assert_eq!(told, expected);
        assert_eq!(listeners[1]["tls"]["certificateRefs"][0]["name"], "tls");
        assert!(copies.iter().all(|copy| copy.set.is_none()));
    }

    #[test]
    fn what_has_no_room_goes_into_listener_sets_with_secrets_of_their_own() {
        let WrittenOut { documents, copies, .. } = written(gateway(), 150);
        let counts: Vec<usize> =
            documents.iter().map(|each| each["spec"]["listeners"].as_array().unwrap().len()).collect();
        assert_eq!(counts, [64, 64, 23]);
        assert_eq!(documents[0]["spec"]["listeners"][63]["name"], "http", "what is not written out stays");
        assert_eq!(documents[0]["spec"]["allowedListeners"]["namespaces"]["from"], "Same");
        assert_eq!(documents[2]["metadata"], json!({ "name": "edge-names-2", "namespace": "infra" }));
        assert_eq!(documents[2]["spec"]["parentRef"]["name"], "edge");
        let secrets: Vec<&Value> = documents
            .iter()
            .map(|each| &each["spec"]["listeners"][0]["tls"]["certificateRefs"][0]["name"])
            .collect();
        assert_eq!(secrets, ["tls", "tls-names-1", "tls-names-2"]);
        assert_eq!(copies[149].set.as_deref(), Some("edge-names-2"));
    }

    #[test]
    fn whoever_lets_in_more_still_does() {
        let from = |from: &str| {
            let mut gateway = gateway();
            gateway["spec"]["allowedListeners"] = json!({ "namespaces": { "from": from } });
            let WrittenOut { documents, warning, .. } = written(gateway, 70);
            (documents[0]["spec"]["allowedListeners"]["namespaces"]["from"].clone(), warning.is_some())
        };
        assert_eq!(from("All"), (json!("All"), false));
        assert_eq!(from("None"), (json!("Same"), false));
        assert_eq!(from("Selector"), (json!("Selector"), true));
    }

    #[test]
    fn a_listener_set_goes_on_in_sets_of_the_same_gateway() {
        let mut set = gateway();
        set["kind"] = json!("ListenerSet");
        set["spec"] = json!({
            "parentRef": { "name": "edge", "namespace": "other" },
            "listeners": set["spec"]["listeners"].clone(),
        });
        let WrittenOut { documents, .. } = written(set, 70);
        assert_eq!(documents[1]["spec"]["parentRef"], json!({ "name": "edge", "namespace": "other" }));
        assert_eq!(documents[0]["spec"].get("allowedListeners"), None);
    }
}
