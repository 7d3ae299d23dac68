//! What the data planes of one Gateway are told, and what they are not.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod support;

use std::sync::Arc;

use support::*;
use tidegate_plan::*;

fn gateway(name: &str) -> ObjectName {
    ObjectName::new("default", name)
}

fn of(name: &str, listener: Body) -> Body {
    listener.change(|listener| listener.id.gateway = gateway(name))
}

fn backend(name: &str, upstream: Upstream) -> Body {
    let Target::Backend(id) = &group(name).0[0].target else { panic!() };
    Body::Backend(Backend {
        id: id.clone(),
        addresses: Addresses::Endpoints(endpoints_id(name)),
        protocol: Protocol::Unspecified,
        upstream,
        affinity: None,
        session: None,
        retry_budget: None,
        prefer_close: false,
        allow_loopback: false,
    })
}

fn endpoints_id(name: &str) -> EndpointsId {
    EndpointsId { service: gateway(name), port: "".into() }
}

fn blob(plan: &mut Plan, id: &str) -> BlobId {
    let id = BlobId(id.into());
    plan.blobs.insert(id.clone(), Arc::new(Blob::Bundle(vec![id.0.as_bytes().to_vec()])));
    id
}

fn target(name: &str) -> Target {
    group(name).0[0].target.clone()
}

fn auth(name: &str) -> ExternalAuth {
    ExternalAuth {
        target: target(name),
        grpc: false,
        path: String::new(),
        request_headers: vec![],
        response_headers: vec![],
        body_limit: 0,
    }
}

/// Gateways `gw` and `other` with a listener each, a route on both and routes on one.
fn whole() -> Plan {
    let both = listener_id("http");
    let shared = http_route("shared", "http", &[], &[&[path(PathMatch::Prefix("/".into()))]])
        .change_route(|route| route.listeners.push(ListenerId { gateway: gateway("other"), ..both }));
    let mirrored =
        http_route("own", "http", &[], &[&[path(PathMatch::Prefix("/".into()))]]).change_route(|route| {
            let Rules::Http(rules) = &mut route.rules else { panic!() };
            rules[0].filters.push(Filter::Mirror { target: target("mirror"), share: Fraction::ALL });
            rules[0].backends.0[0].filters.push(Filter::ExternalAuth(auth("auth")));
        });
    let mut in_set = tls_route("tls", "tls", &["a.example"]);
    let set = Some(gateway("set"));
    in_set = in_set.change_route(|route| route.listeners[0].listener_set = set.clone());
    let theirs =
        tcp_route("theirs", "tcp").change_route(|route| route.listeners[0].gateway = gateway("other"));
    let trust = |id: &str| {
        Upstream::Tls(BackendTls {
            sni: hostname("own.example"),
            trust: Trust::Bundles(vec![BlobId(id.into())]),
            names: vec![],
            minimum_version: None,
            alpn: vec![],
            client_certificate: None,
        })
    };
    let mut plan = plan([
        Body::Gateway(Gateway { id: gateway("gw"), client_certificate: None }),
        Body::Gateway(Gateway { id: gateway("other"), client_certificate: None }),
        http("http", "").change(|listener| listener.external_auth.push(auth("gate"))),
        https("tls", "a.example").change(|listener| listener.id.listener_set = set.clone()),
        of("other", http("http", "")),
        of("other", tcp("tcp", 90)),
        shared,
        mirrored,
        in_set,
        theirs,
        backend("own", trust("own-ca")),
        backend("theirs", trust("their-ca")),
    ]);
    for name in ["shared", "mirror", "auth", "tls", "gate", "nobody"] {
        plan.insert(backend(name, Upstream::Plain));
    }
    for name in ["own", "theirs", "tls", "mirror", "nobody"] {
        let id = endpoints_id(name);
        plan.endpoints.insert(id.clone(), Arc::new(Endpoints { id, endpoints: vec![] }));
    }
    for id in ["blob-0", "own-ca", "their-ca", "nobodys"] {
        blob(&mut plan, id);
    }
    plan
}

fn names(plan: &Plan) -> Vec<String> {
    plan.fragments.keys().map(ToString::to_string).collect()
}

#[test]
fn a_gateway_is_told_what_it_needs() {
    let plan = whole().of_gateway(&gateway("gw"));
    assert_eq!(
        names(&plan),
        [
            "Gateway default/gw",
            "Listener default/gw/http",
            "Listener default/gw/tls (ListenerSet default/set)",
            "HTTPRoute default/own",
            "HTTPRoute default/shared",
            "TLSRoute default/tls",
            "Service default/auth:80",
            "Service default/gate:80",
            "Service default/mirror:80",
            "Service default/own:80",
            "Service default/shared:80",
            "Service default/tls:80",
        ]
    );
    let endpoints: Vec<String> = plan.endpoints.keys().map(ToString::to_string).collect();
    assert_eq!(endpoints, ["default/mirror:", "default/own:", "default/tls:"]);
    let blobs: Vec<String> = plan.blobs.keys().map(ToString::to_string).collect();
    assert_eq!(blobs, ["blob-0", "own-ca"]);
}

#[test]
fn nothing_is_told_of_another_gateway() {
    let whole = whole();
    let plan = whole.of_gateway(&gateway("gw"));
    let text = serde_json::to_string(&plan.fragments.values().collect::<Vec<_>>()).unwrap();
    assert!(!text.contains("other"), "{text}");
    // A route that is shared is another fragment with another hash; one that is not stays the same.
    let id = |name| FragmentId::Route(route_id(RouteKind::Http, name));
    assert_ne!(plan.fragments[&id("shared")].hash, whole.fragments[&id("shared")].hash);
    assert!(Arc::ptr_eq(&plan.fragments[&id("own")], &whole.fragments[&id("own")]));
    assert_eq!(plan.of_gateway(&gateway("gw")), plan);
    assert_eq!(names(&whole.of_gateway(&gateway("nowhere"))), Vec::<String>::new());
}

#[test]
fn what_is_refused_keeps_its_names() {
    let Some(Body::Listener(listener)) = https("a", "a.example").refusing() else { panic!() };
    assert_eq!(
        (listener.hostname, listener.refuse),
        (Some(hostname("a.example")), Some(Reason::ListenerInvalid))
    );
    for route in [
        http_route("a", "http", &["a.example"], &[&[path(PathMatch::Exact("/admin".into()))]]),
        tcp_route("b", "tcp"),
    ] {
        let Some(Body::Route(refusing)) = route.clone().refusing() else { panic!() };
        assert_eq!(refusing.group(0).unwrap().fate(), Fate::Failed(Reason::FilterUnsupported));
        let Body::Route(route) = route else { panic!() };
        assert_eq!((refusing.id, refusing.hostnames), (route.id, route.hostnames));
    }
    assert_eq!(Body::Gateway(Gateway { id: gateway("gw"), client_certificate: None }).refusing(), None);
}
