//! What a cluster would have and a folder leaves out, shown as if it had been written.

use serde_json::{Value, json};
use tidegate_api::Object;
use tidegate_api::core::EndpointSlice;

/// The manifest of an object that nobody wrote: a class, a namespace, or the endpoints of a Service.
pub(crate) fn manifest(object: &Object) -> Option<Value> {
    let (version, rest) = match object {
        Object::GatewayClass(class) => (
            "gateway.networking.k8s.io/v1",
            json!({ "spec": { "controllerName": class.spec.controller_name.as_str() } }),
        ),
        Object::Namespace(_) => ("v1", json!({})),
        Object::EndpointSlice(slice) => ("discovery.k8s.io/v1", endpoints(slice)),
        _ => return None,
    };
    let meta = object.meta();
    let mut metadata = json!({ "name": *meta.name });
    if object.kind().is_namespaced() {
        metadata["namespace"] = json!(*meta.namespace);
    }
    if !meta.labels.is_empty() {
        metadata["labels"] = json!(meta.labels);
    }
    let mut value = json!({ "apiVersion": version, "kind": object.kind().as_str(), "metadata": metadata });
    if let (Some(fields), Value::Object(rest)) = (value.as_object_mut(), rest) {
        fields.extend(rest);
    }
    Some(value)
}

fn endpoints(slice: &EndpointSlice) -> Value {
    let spec = &slice.spec;
    let endpoints: Vec<Value> =
        spec.endpoints.iter().map(|endpoint| json!({ "addresses": endpoint.addresses.to_vec() })).collect();
    let ports: Vec<Value> = spec
        .ports
        .iter()
        .map(|port| {
            let mut entry = json!({ "protocol": port.protocol.as_str() });
            if let Some(name) = &port.name {
                entry["name"] = json!(name);
            }
            if let Some(number) = port.port {
                entry["port"] = json!(number.get());
            }
            entry
        })
        .collect();
    json!({ "addressType": spec.address_type.as_str(), "endpoints": endpoints, "ports": ports })
}
