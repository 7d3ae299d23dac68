//! Fragments as they arrive, from a controller that may be newer than this program. What needs a capability that is
//! not there is refused, and something stands in its place that keeps its names; fields that are unknown are skipped
//! only where the needs say that this is safe.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_plan::{Body, Capability, Fragment, FragmentId, RouteKind};

use crate::wire::{Digest, proto};

/// What became of a fragment.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// `None`: of a kind that this program does not know.
    pub(crate) id: Option<FragmentId>,
    /// What is served of it; nothing where it is refused and no names have to be kept.
    pub(crate) fragment: Option<Arc<Fragment>>,
    pub(crate) refused: Option<String>,
}

/// `Err` for what no controller of any version would send.
pub(crate) fn read(
    item: &proto::Item,
    hash: Digest,
    capabilities: &BTreeSet<Capability>,
) -> Result<Arrived, String> {
    let Ok(id) = serde_json::from_str::<FragmentId>(&item.id) else {
        let why = format!("{} is of a kind that this data plane does not know", item.id);
        return Ok(Arrived { id: None, fragment: None, refused: Some(why) });
    };
    let body = serde_json::from_slice::<Body>(&item.content);
    if let Ok(body) = &body
        && body.id() != id
    {
        return Err(format!("{id} has the content of {}", body.id()));
    }
    let has = |name: &str| capabilities.iter().any(|capability| capability.as_str() == name);
    let mut lacking: Vec<&str> = item.needs.iter().map(String::as_str).filter(|need| !has(need)).collect();
    // An older controller may not have known what this takes.
    let own = body.as_ref().map(Body::needs).unwrap_or_default();
    lacking.extend(own.iter().map(|need| need.as_str()).filter(|need| !has(need)));
    lacking.sort_unstable();
    lacking.dedup();
    let refused = match &body {
        _ if !lacking.is_empty() => Some(format!("this data plane cannot do {}", lacking.join(", "))),
        Err(error) => Some(format!("this data plane cannot read it: {error}")),
        Ok(_) => None,
    };
    let fragment = match (&refused, body) {
        (None, Ok(body)) => Some(Fragment { hash: hash.hex(), needs: own, body }),
        (_, body) => {
            body.ok().or_else(|| salvage(&id, &item.content)).and_then(Body::refusing).map(Fragment::new)
        }
    };
    Ok(Arrived { id: Some(id), fragment: fragment.map(Arc::new), refused })
}

/// What can be read of a fragment that cannot be read whole: which names it has.
fn salvage(id: &FragmentId, content: &[u8]) -> Option<Body> {
    let Value::Object(mut body) = serde_json::from_slice(content).ok()? else { return None };
    let body = match id {
        FragmentId::Listener(_) => {
            let listener = body.remove("listener")?;
            let mut kept = only(&listener, &["id", "addresses", "port", "hostname", "handling"])?;
            let known = serde_json::from_value::<Body>(json!({ "listener": kept.clone() }));
            if known.is_err() {
                kept.insert("handling".to_owned(), json!("passthrough"));
            }
            json!({ "listener": kept })
        }
        FragmentId::Route(route) => {
            let mut kept = only(&body.remove("route")?, &["id", "created", "listeners", "hostnames"])?;
            let rules = match route.kind {
                RouteKind::Http => {
                    json!({ "http": [{ "matches": [{ "path": { "prefix": "/" } }], "backends": [] }] })
                }
                RouteKind::Grpc => json!({ "grpc": [{ "matches": [{}], "backends": [] }] }),
                RouteKind::Tls | RouteKind::Tcp | RouteKind::Udp => json!({ "stream": { "backends": [] } }),
            };
            kept.insert("rules".to_owned(), rules);
            json!({ "route": kept })
        }
        FragmentId::Gateway(_) | FragmentId::Backend(_) | FragmentId::Challenge(_) => return None,
    };
    serde_json::from_value(body).ok().filter(|body: &Body| body.id() == *id)
}

fn only(object: &Value, fields: &[&str]) -> Option<Map<String, Value>> {
    let object = object.as_object()?;
    Some(
        object
            .iter()
            .filter(|(name, _)| fields.contains(&name.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_plan::{Fate, Reason};

    fn arrive(id: &Value, needs: &[&str], body: &Value) -> Arrived {
        let content = serde_json::to_vec(body).unwrap();
        let hash = Digest::of(&content);
        let item = proto::Item {
            kind: proto::Kind::Fragment.into(),
            id: id.to_string(),
            needs: needs.iter().map(|&need| need.to_owned()).collect(),
            content: content.into(),
            ..proto::Item::default()
        };
        let capabilities = [Capability::Http, Capability::TlsPassthrough, Capability::TlsTerminate];
        read(&item, hash, &capabilities.into()).unwrap()
    }

    fn listener_id() -> Value {
        json!({ "gateway": { "namespace": "a", "name": "b" }, "name": "c" })
    }

    fn listener(handling: &Value) -> Value {
        json!({ "listener": {
            "id": listener_id(), "port": 443, "hostname": "a.example", "handling": handling, "later": 1
        } })
    }

    fn route(rules: &Value) -> (Value, Value) {
        let id = json!({ "kind": "HTTPRoute", "object": { "namespace": "a", "name": "r" } });
        let body = json!({ "route": {
            "id": id, "created": 1, "listeners": [listener_id()], "hostnames": ["a.example"], "rules": rules
        } });
        (json!({ "Route": id }), body)
    }

    #[test]
    fn unknown_fields_are_skipped_where_that_is_safe() {
        let id = json!({ "Listener": listener_id() });
        let arrived = arrive(&id, &["tls-passthrough"], &listener(&json!("passthrough")));
        assert_eq!(arrived.refused, None);
        let fragment = arrived.fragment.unwrap();
        let Body::Listener(listener) = &fragment.body else { panic!() };
        assert_eq!(listener.refuse, None);
        // The controller's hash, of all that it wrote, so that both know what they talk of.
        assert_ne!(fragment.hash, Fragment::new(fragment.body.clone()).hash);
    }

    #[test]
    fn what_needs_more_is_refused_and_keeps_its_names() {
        let id = json!({ "Listener": listener_id() });
        for (needs, handling, why) in [
            (&["tls-passthrough", "quantum"][..], json!("passthrough"), "cannot do quantum"),
            (&[], json!({ "teleport": {} }), "cannot read it"),
            (
                &[],
                json!({ "terminate": { "certificates": [], "clientCertificates": { "trust": [], "allowInsecure": false } } }),
                "cannot do client-certificates",
            ),
        ] {
            let arrived = arrive(&id, needs, &listener(&handling));
            assert!(arrived.refused.as_ref().unwrap().contains(why), "{arrived:?}");
            let fragment = arrived.fragment.unwrap();
            let Body::Listener(listener) = &fragment.body else { panic!() };
            assert_eq!(listener.refuse, Some(Reason::ListenerInvalid));
            assert_eq!(listener.hostname.as_ref().unwrap().to_string(), "a.example");
        }
    }

    #[test]
    fn a_route_that_cannot_be_read_keeps_its_hostnames() {
        let (id, body) = route(&json!({ "http": [{ "matches": [{ "moon": "full" }], "backends": [] }] }));
        let arrived = arrive(&id, &["http"], &body);
        assert!(arrived.refused.is_some());
        let fragment = arrived.fragment.unwrap();
        let Body::Route(route) = &fragment.body else { panic!() };
        assert_eq!(route.hostnames.len(), 1);
        assert_eq!(route.group(0).unwrap().fate(), Fate::Failed(Reason::FilterUnsupported));
    }

    #[test]
    fn what_is_of_no_known_kind_is_refused() {
        let arrived = arrive(&json!({ "Wormhole": "x" }), &[], &json!({ "wormhole": {} }));
        assert!(arrived.id.is_none() && arrived.fragment.is_none() && arrived.refused.is_some());
    }

    #[test]
    fn content_of_another_is_no_fragment() {
        let (_, body) = route(&json!({ "http": [] }));
        let content = serde_json::to_vec(&body).unwrap();
        let id = json!({ "Listener": listener_id() }).to_string();
        let item = proto::Item { id, content: content.into(), ..proto::Item::default() };
        assert!(read(&item, Digest::of(b""), &BTreeSet::new()).is_err());
    }
}
