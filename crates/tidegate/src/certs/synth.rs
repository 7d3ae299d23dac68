//! `tidegate certs synth`: Gateways as a tool needs them that looks at listeners alone. A listener without a hostname is
//! written out once for each name that its routes bring; what does not fit into a Gateway goes into ListenerSets.

use serde_json::{Value, json};
use tidegate_api::{Kind, to_yaml};
use tidegate_plan::{ListenerId, ObjectName};
use tidegate_translate::{Issuer, Settings};

use crate::arguments::CertsSynth;
use crate::meaning::Meaning;
use crate::output::{Error, Outcome, Terminal};

/// Listeners in a Gateway or ListenerSet at most.
const MOST: usize = 64;

pub(crate) fn run(options: &CertsSynth, terminal: &mut Terminal) -> Result<Outcome, Error> {
    // Which issuer it is makes no difference to names that routes bring.
    let settings = Settings { issuer: Some(Issuer::Embedded), ..Settings::folder() };
    let meaning = Meaning::under(&options.paths, settings)?;
    meaning.report(terminal);
    let mut documents = Vec::new();
    for (key, manifest) in meaning.manifests.written() {
        let Some(key) = key.filter(|key| key.kind == Kind::Gateway) else { continue };
        let names = |listener: &str| inferred(&meaning, &key.name, listener);
        documents.extend(write_out(manifest, &names));
    }
    let texts: Vec<String> = documents.iter().map(to_yaml).collect();
    terminal.print(&texts.join("---\n"))?;
    Ok(Outcome::Good)
}

/// The names that routes bring to a listener without a hostname.
fn inferred(meaning: &Meaning, gateway: &ObjectName, listener: &str) -> Vec<String> {
    let id = ListenerId { gateway: gateway.clone(), listener_set: None, name: listener.into() };
    let is_open = meaning.listener(&id).is_some_and(|listener| listener.hostname.is_none());
    let wants = meaning.translation().wants.get(&id).filter(|_| is_open);
    wants.map(|wants| wants.names.iter().map(|wanted| wanted.name.to_string()).collect()).unwrap_or_default()
}

/// The Gateway with its listeners written out, and ListenerSets for what it has no room for.
fn write_out(mut gateway: Value, names: &dyn Fn(&str) -> Vec<String>) -> Vec<Value> {
    let listeners = gateway["spec"]["listeners"].as_array().cloned().unwrap_or_default();
    let mut all = Vec::new();
    for listener in listeners {
        let own = listener["name"].as_str().unwrap_or_default().to_owned();
        let names = names(&own);
        if names.is_empty() {
            all.push(listener);
            continue;
        }
        for name in names {
            let mut copy = listener.clone();
            copy["name"] = json!(section(&own, &name));
            copy["hostname"] = json!(name);
            all.push(copy);
        }
    }
    let rest = all.split_off(all.len().min(MOST));
    gateway["spec"]["listeners"] = Value::Array(all);
    if let Some(fields) = gateway.as_object_mut() {
        fields.remove("status");
    }
    if !rest.is_empty() {
        gateway["spec"]["allowedListeners"] = json!({ "namespaces": { "from": "Same" } });
    }
    let sets: Vec<Value> = rest
        .chunks(MOST)
        .enumerate()
        .map(|(number, listeners)| listener_set(&gateway, number + 1, listeners))
        .collect();
    std::iter::once(gateway).chain(sets).collect()
}

/// Names of listeners may have dots, and up to 253 characters.
fn section(listener: &str, name: &str) -> String {
    let whole = format!("{listener}.{name}");
    if whole.len() <= 253 {
        whole
    } else {
        whole[whole.len() - 253..].trim_start_matches(['.', '-']).to_owned()
    }
}

fn listener_set(gateway: &Value, number: usize, listeners: &[Value]) -> Value {
    let name = gateway["metadata"]["name"].as_str().unwrap_or_default();
    let mut metadata = json!({ "name": format!("{name}-names-{number}") });
    for field in ["namespace", "annotations", "labels"] {
        if let Some(value) = gateway["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "ListenerSet",
        "metadata": metadata,
        "spec": {
            "parentRef": { "group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name },
            "listeners": listeners,
        },
    })
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
                { "name": "http", "protocol": "HTTP", "port": 80 },
                { "name": "https", "protocol": "HTTPS", "port": 443,
                  "tls": { "certificateRefs": [{ "name": "tls" }] } },
            ] },
        })
    }

    #[test]
    fn a_listener_is_written_out_for_each_name() {
        let names = |listener: &str| match listener {
            "https" => vec!["a.example.com".to_owned(), "b.example.com".to_owned()],
            _ => Vec::new(),
        };
        let documents = write_out(gateway(), &names);
        assert_eq!(documents.len(), 1);
        let listeners = documents[0]["spec"]["listeners"].as_array().unwrap();
        let told: Vec<(&str, &str)> = listeners
            .iter()
            .map(|each| (each["name"].as_str().unwrap(), each["hostname"].as_str().unwrap_or("-")))
            .collect();
        let expected = [
            ("http", "-"),
            ("https.a.example.com", "a.example.com"),
            ("https.b.example.com", "b.example.com"),
        ];
        assert_eq!(told, expected);
        assert_eq!(listeners[2]["tls"]["certificateRefs"][0]["name"], "tls");
    }

    #[test]
    fn what_has_no_room_goes_into_listener_sets() {
        let names = |listener: &str| match listener {
            "https" => (0..150).map(|number| format!("n{number}.example.com")).collect(),
            _ => Vec::new(),
        };
        let documents = write_out(gateway(), &names);
        let counts: Vec<usize> =
            documents.iter().map(|each| each["spec"]["listeners"].as_array().unwrap().len()).collect();
        assert_eq!(counts, [64, 64, 23]);
        assert_eq!(documents[0]["spec"]["allowedListeners"]["namespaces"]["from"], "Same");
        assert_eq!(documents[2]["metadata"], json!({ "name": "edge-names-2", "namespace": "infra" }));
        assert_eq!(documents[2]["spec"]["parentRef"]["name"], "edge");
    }
}
