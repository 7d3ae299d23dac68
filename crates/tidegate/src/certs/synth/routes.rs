//! Routes with what they have to name once listeners are written out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::{ObjectName, RouteId};

use super::listeners::Copied;

/// Parents of a route at most.
const MOST: usize = 32;

/// The route with parents that lead to the listeners that were written out; `None` where none of them is its own.
pub(super) fn with_parents(
    mut route: Value,
    id: &RouteId,
    copies: &BTreeMap<ObjectKey, Vec<Copied>>,
) -> Option<Value> {
    let parents = route["spec"]["parentRefs"].as_array()?.clone();
    let of = |parent: &Value| copies.get(&named(parent, id)).map_or(&[][..], Vec::as_slice);
    if !parents.iter().any(|parent| is_concerned(parent, id, of(parent))) {
        return None;
    }
    let all = |by_name: bool| {
        let mut all: Vec<Value> = Vec::new();
        for parent in parents.iter().flat_map(|parent| rewritten(parent, id, of(parent), by_name)) {
            if !all.contains(&parent) {
                all.push(parent);
            }
        }
        all
    };
    let mut named = all(true);
    if named.len() > MOST {
        named = all(false);
    }
    route["spec"]["parentRefs"] = Value::Array(named);
    if let Some(fields) = route.as_object_mut() {
        fields.remove("status");
    }
    Some(route)
}

/// The Gateway or ListenerSet that a route names.
fn named(parent: &Value, route: &RouteId) -> ObjectKey {
    let kind = if parent["kind"] == "ListenerSet" { Kind::ListenerSet } else { Kind::Gateway };
    let namespace = parent["namespace"].as_str().unwrap_or(&route.object.namespace);
    ObjectKey { kind, name: ObjectName::new(namespace, parent["name"].as_str().unwrap_or_default()) }
}

/// Whether a listener that it means was written out.
fn is_concerned(parent: &Value, route: &RouteId, copies: &[Copied]) -> bool {
    match parent["sectionName"].as_str() {
        Some(section) => copies.iter().any(|copy| copy.listener == section),
        None => copies.iter().any(|copy| copy.routes.contains(route)),
    }
}

/// What stands in place of one parent.
fn rewritten(parent: &Value, route: &RouteId, copies: &[Copied], by_name: bool) -> Vec<Value> {
    let Some(section) = parent["sectionName"].as_str() else {
        let meant = |copy: &&Copied| parent.get("port").is_none_or(|port| *port == copy.port);
        let own = copies.iter().filter(|copy| copy.routes.contains(route)).filter(meant);
        let sets: BTreeSet<&String> = own.filter_map(|copy| copy.set.as_ref()).collect();
        let further = sets.into_iter().map(|set| in_set(parent, Some(set)));
        return std::iter::once(parent.clone()).chain(further).collect();
    };
    let written: Vec<&Copied> = copies.iter().filter(|copy| copy.listener == section).collect();
    if written.is_empty() {
        return vec![parent.clone()];
    }
    let own: Vec<&&Copied> = written.iter().filter(|copy| copy.routes.contains(route)).collect();
    if by_name && !own.is_empty() {
        let to = |copy: &&&Copied| {
            let mut parent = in_set(parent, copy.set.as_ref());
            parent["sectionName"] = json!(copy.section);
            parent
        };
        return own.iter().map(to).collect();
    }
    // A route without names of its own meant all that come to the listener.
    let sets: BTreeSet<Option<&String>> = written
        .iter()
        .filter(|copy| own.is_empty() || copy.routes.contains(route))
        .map(|copy| copy.set.as_ref())
        .collect();
    let to = |set: Option<&String>| {
        let mut parent = in_set(parent, set);
        parent["port"] = written[0].port.clone();
        if let Some(fields) = parent.as_object_mut() {
            fields.remove("sectionName");
        }
        parent
    };
    sets.into_iter().map(to).collect()
}

/// The same, in a ListenerSet beside it.
fn in_set(parent: &Value, set: Option<&String>) -> Value {
    let mut parent = parent.clone();
    if let Some(set) = set {
        parent["group"] = json!("gateway.networking.k8s.io");
        parent["kind"] = json!("ListenerSet");
        parent["name"] = json!(set);
    }
    parent
}

#[cfg(test)]
mod tests {
    use tidegate_plan::RouteKind;

    use super::*;

    fn id() -> RouteId {
        RouteId { kind: RouteKind::Http, object: ObjectName::new("shop", "web") }
    }

    /// The parents of a route once `https` is written out: `a` and `b` are its own names, `b` and `c` had no room.
    fn parents(own: bool, written: &Value) -> Option<Value> {
        let copy = |name: &str, own: bool, set: Option<&str>| Copied {
            listener: "https".to_owned(),
            port: json!(443),
            section: format!("https.{name}"),
            routes: if own { vec![id()] } else { Vec::new() },
            set: set.map(ToOwned::to_owned),
        };
        let set = Some("edge-names-1");
        let copies = vec![copy("a", own, None), copy("b", own, set), copy("c", false, set)];
        let gateway = ObjectKey { kind: Kind::Gateway, name: ObjectName::new("infra", "edge") };
        let route = json!({ "spec": { "parentRefs": written }, "status": {} });
        let route = with_parents(route, &id(), &BTreeMap::from([(gateway, copies)]))?;
        assert_eq!(route.get("status"), None);
        Some(route["spec"]["parentRefs"].clone())
    }

    #[test]
    fn a_route_names_the_sets_where_its_names_are() {
        let edge = json!({ "name": "edge", "namespace": "infra" });
        let group = "gateway.networking.k8s.io";
        let set =
            json!({ "name": "edge-names-1", "namespace": "infra", "group": group, "kind": "ListenerSet" });
        assert_eq!(parents(true, &json!([edge])), Some(json!([edge, set])));
        assert_eq!(parents(false, &json!([edge])), None, "it is no route of theirs");
        let with = |parent: &Value, field: &str, value: Value| {
            let mut parent = parent.clone();
            parent[field] = value;
            parent
        };
        let other = with(&edge, "sectionName", json!("http"));
        assert_eq!(parents(true, &json!([other])), None);
        let section = with(&edge, "sectionName", json!("https"));
        let sections = json!([
            other,
            with(&edge, "sectionName", json!("https.a")),
            with(&set, "sectionName", json!("https.b")),
        ]);
        assert_eq!(parents(true, &json!([other, section])), Some(sections));
        let ports = json!([with(&edge, "port", json!(443)), with(&set, "port", json!(443))]);
        assert_eq!(parents(false, &json!([section])), Some(ports), "without names it meant all");
        let (near, far) = (with(&edge, "port", json!(443)), with(&edge, "port", json!(80)));
        assert_eq!(
            parents(true, &json!([near, far])),
            Some(json!([near, with(&set, "port", json!(443)), far]))
        );
    }
}
