//! Stands in until the api crate has these.
use serde_json::{Value, json};
use tidegate_api::{Node, Object, ObjectKey, Problem, read_object};
use tidegate_translate::Resources;

pub(crate) fn objects(document: Node) -> (Vec<Node>, Vec<Problem>) {
    if document.get("kind").and_then(Node::as_str) == Some("List")
        && let Some(Node { value: tidegate_api::Value::List(items), .. }) = document.get("items")
    {
        return (items.clone(), Vec::new());
    }
    (vec![document], Vec::new())
}

pub(crate) fn to_yaml(value: &Value) -> String {
    format!("{value:#}\n")
}

pub(crate) fn render(name: &str, text: &str, problems: &[Problem]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| format!("{name}:{}: {problem}", crate::source::file::line(text, problem.span.start)))
        .collect();
    lines.join("\n")
}

pub(crate) fn fill_in(resources: &mut Resources) -> Vec<(ObjectKey, Value)> {
    let mut values = vec![];
    if resources.gateway_classes.is_empty() {
        values.push(json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "tidegate", "generation": 1}, "spec": {"controllerName": "gateway.tidegate.io/controller"}}));
    }
    let namespaces: std::collections::BTreeSet<String> = resources
        .iter()
        .map(|object| object.meta().namespace.to_string())
        .filter(|name| !name.is_empty())
        .collect();
    for name in namespaces {
        values.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}));
    }
    for service in resources.services.values() {
        let Some(text) = service.meta.annotation("gateway.tidegate.io/endpoints") else { continue };
        for (index, address) in text.split(',').enumerate() {
            let Ok(address) = address.trim().parse::<std::net::SocketAddr>() else { continue };
            let ports: Vec<Value> = service.spec.ports.iter().map(|port| json!({"name": port.name, "protocol": port.protocol.as_str(), "port": address.port()})).collect();
            values.push(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
              "metadata": {"name": format!("{}-{index}", service.meta.name), "namespace": *service.meta.namespace, "labels": {"kubernetes.io/service-name": *service.meta.name}},
              "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" }, "endpoints": [{"addresses": [address.ip().to_string()]}], "ports": ports}));
        }
    }
    let mut added = Vec::new();
    for value in values {
        let reading = read_object(&Node::from(&value));
        if let Some(object) = reading.object
            && resources.get(&object.key()).is_none()
        {
            added.push((object.key(), value));
            resources.insert(object);
        }
    }
    added
}

pub(crate) fn with_files(
    object: Object,
    beside: impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<Object, String> {
    let Some(text) = object.meta().annotation("gateway.tidegate.io/files").map(str::to_owned) else {
        return Ok(object);
    };
    let mut files = Vec::new();
    for part in text.split(',') {
        let (key, path) = part.trim().split_once('=').ok_or("write key=path")?;
        files.push((key.to_owned(), beside(path)?));
    }
    Ok(match object {
        Object::Secret(secret) => {
            let mut secret = (*secret).clone();
            secret.spec.data.extend(files);
            Object::Secret(secret.into())
        }
        Object::ConfigMap(map) => {
            let mut map = (*map).clone();
            map.spec.data.extend(
                files.into_iter().map(|(key, value)| (key, String::from_utf8_lossy(&value).into_owned())),
            );
            Object::ConfigMap(map.into())
        }
        other => other,
    })
}
