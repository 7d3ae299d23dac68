//! Random sets of objects in a small world, so that they meet, clash and refer to each other.

use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tidegate_api::{Node, Object, Severity, read_object};

/// Reads an object that must be right.
pub(crate) fn object(value: &Value) -> Object {
    let reading = read_object(&Node::from(value));
    let errors: Vec<String> = reading
        .problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .map(ToString::to_string)
        .collect();
    reading.object.unwrap_or_else(|| panic!("{value}: {}", errors.join("; ")))
}

/// What every world has.
pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "tidegate"},
        "spec": {"controllerName": "gateway.tidegate.io/controller"}
    })
}

/// Any object of the small world.
pub(crate) fn any_object() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => gateway(),
        2 => listener_set(),
        6 => http_route(),
        2 => grpc_route(),
        4 => stream_route(),
        3 => service(),
        2 => endpoint_slice(),
        2 => tls_policy(),
        1 => traffic_policy(),
        1 => xbackend(),
        2 => grant(),
        2 => secret(),
        2 => config_map(),
        1 => trust_bundle(),
        1 => namespace(),
        1 => other_class(),
        1 => parameters(),
    ]
}

fn meta(kind: &'static str, count: usize) -> impl Strategy<Value = Value> {
    (select(vec!["north", "south"]), 0..count, 1..4i64, 0..3u32).prop_map(
        move |(namespace, index, generation, day)| {
            json!({
                "namespace": namespace, "name": format!("{kind}-{index}"), "generation": generation,
                "creationTimestamp": format!("2026-01-0{}T00:00:00Z", day + 1)
            })
        },
    )
}

#[allow(clippy::needless_pass_by_value, reason = "callers build the values in place")]
fn of_group(kind: &'static str, version: &'static str, meta: Value, spec: Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec})
}

const GATEWAY: &str = "gateway.networking.k8s.io/v1";

fn hostname() -> impl Strategy<Value = &'static str> {
    select(vec!["a.example.com", "b.example.com", "*.example.com", "*.a.example.com", "other.org"])
}

fn maybe<T: Strategy>(strategy: T) -> impl Strategy<Value = Option<T::Value>> {
    prop::option::of(strategy)
}

fn put(object: &mut Value, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object[key] = value.into();
    }
}

/// A CA that is asked for, there or not.
fn authority() -> impl Strategy<Value = Value> {
    select(vec![
        ("ConfigMap", "ca-0"),
        ("ConfigMap", "ca-1"),
        ("ConfigMap", "missing"),
        ("ClusterTrustBundle", "bundle-0"),
    ])
    .prop_map(|(kind, name)| {
        let group = if kind == "ConfigMap" { "" } else { "certificates.k8s.io" };
        json!({"group": group, "kind": kind, "name": name})
    })
}

fn external_auth() -> impl Strategy<Value = Value> {
    backend().prop_map(|backend| {
        let auth =
            json!({"protocol": "HTTP", "backendRef": reference_of(backend), "http": {"path": "/auth"}});
        json!({"type": "ExternalAuth", "externalAuth": auth})
    })
}

fn mirror() -> impl Strategy<Value = Value> {
    backend().prop_map(|backend| {
        json!({"type": "RequestMirror", "requestMirror": {"backendRef": reference_of(backend), "percent": 10}})
    })
}

/// Without the weight, which only a share of the traffic has.
fn reference_of(mut backend: Value) -> Value {
    backend.as_object_mut().unwrap().remove("weight");
    backend
}

fn listener() -> impl Strategy<Value = Value> {
    let tls = (
        select(vec!["Terminate", "Passthrough"]),
        select(vec!["secret-0", "secret-1", "missing"]),
        maybe(Just("south")),
    );
    let allowed = (
        select(vec!["Same", "All", "Selector"]),
        maybe(select(vec!["HTTPRoute", "GRPCRoute", "TCPRoute", "TLSRoute"])),
    );
    (
        select(vec!["HTTP", "HTTPS", "TLS", "TCP", "UDP", "example.com/odd"]),
        select(vec![80, 443, 8443]),
        maybe(hostname()),
        tls,
        allowed,
        maybe(external_auth()),
    )
        .prop_map(|(protocol, port, hostname, (mode, secret, secret_namespace), (from, kind), auth)| {
            let mut listener =
                json!({"protocol": protocol, "port": port, "allowedRoutes": {"namespaces": {"from": from}}});
            if from == "Selector" {
                listener["allowedRoutes"]["namespaces"]["selector"] = json!({"matchLabels": {"team": "red"}});
            }
            put(&mut listener["allowedRoutes"], "kinds", kind.map(|kind| json!([{"kind": kind}])));
            if !matches!(protocol, "TCP" | "UDP") {
                put(&mut listener, "hostname", hostname);
            }
            if matches!(protocol, "HTTP" | "HTTPS") {
                put(&mut listener, "filters", auth.map(|auth| json!({"requests": [auth]})));
            }
            if matches!(protocol, "HTTPS" | "TLS") {
                let mode = if protocol == "HTTPS" { "Terminate" } else { mode };
                listener["tls"] = json!({"mode": mode});
                if mode == "Terminate" {
                    let mut reference = json!({"name": secret});
                    put(&mut reference, "namespace", secret_namespace);
                    listener["tls"]["certificateRefs"] = json!([reference]);
                }
            }
            listener
        })
}

fn listeners() -> impl Strategy<Value = Value> {
    prop::collection::vec(listener(), 1..4).prop_map(|listeners| {
        let mut kept: Vec<Value> = Vec::new();
        for mut listener in listeners {
            listener["name"] = json!(format!("l{}", kept.len()));
            let key = |entry: &Value| {
                (entry["port"].clone(), entry["protocol"].clone(), entry.get("hostname").cloned())
            };
            if kept.iter().all(|other| key(other) != key(&listener)) {
                kept.push(listener);
            }
        }
        Value::Array(kept)
    })
}

fn gateway() -> impl Strategy<Value = Value> {
    let tls =
        (maybe(authority()), maybe(authority()), maybe(select(vec!["secret-0", "secret-1", "missing"])));
    let issuer = maybe(select(vec!["acme", "embedded"]));
    (
        meta("gateway", 3),
        listeners(),
        select(vec!["tidegate", "tidegate", "other"]),
        maybe(select(vec!["All", "Same", "Selector"])),
        tls,
        issuer,
        any::<bool>(),
        maybe(select(vec!["parameters-0", "parameters-1"])),
    )
        .prop_map(
            |(
                mut meta,
                listeners,
                class,
                sets,
                (frontend, of_port, client),
                issuer,
                is_default,
                parameters,
            )| {
                put(
                    &mut meta,
                    "annotations",
                    issuer.map(|issuer| json!({"gateway.tidegate.io/issuer": issuer})),
                );
                let mut spec = json!({"gatewayClassName": class, "listeners": listeners});
                if let Some(from) = sets {
                    spec["allowedListeners"] =
                        json!({"namespaces": {"from": from, "selector": {"matchLabels": {"team": "red"}}}});
                }
                let validation = |ca: &Value| json!({"validation": {"caCertificateRefs": [ca]}});
                if let Some(ca) = frontend {
                    spec["tls"] = json!({"frontend": {"default": validation(&ca)}});
                    if let Some(ca) = of_port {
                        spec["tls"]["frontend"]["perPort"] = json!([{"port": 8443, "tls": validation(&ca)}]);
                    }
                }
                if let Some(name) = client {
                    spec["tls"]["backend"] = json!({"clientCertificateRef": {"name": name}});
                }
                if let Some(name) = parameters {
                    let reference =
                        json!({"group": "gateway.tidegate.io", "kind": "GatewayParameters", "name": name});
                    spec["infrastructure"] = json!({"parametersRef": reference});
                }
                if is_default {
                    spec["defaultScope"] = json!("All");
                }
                of_group("Gateway", GATEWAY, meta, spec)
            },
        )
}

fn listener_set() -> impl Strategy<Value = Value> {
    (meta("set", 2), listeners(), 0..3usize, maybe(Just("north"))).prop_map(
        |(meta, listeners, gateway, namespace)| {
            let mut parent = json!({"name": format!("gateway-{gateway}")});
            put(&mut parent, "namespace", namespace);
            of_group("ListenerSet", GATEWAY, meta, json!({"parentRef": parent, "listeners": listeners}))
        },
    )
}

fn parents() -> impl Strategy<Value = Value> {
    let parent = (
        0..3usize,
        any::<bool>(),
        maybe(select(vec!["north", "south"])),
        maybe(select(vec!["l0", "l1"])),
        maybe(select(vec![80, 443])),
    );
    (parent, any::<bool>()).prop_map(|((index, is_set, namespace, section, port), default)| {
        let kind = if is_set { "ListenerSet" } else { "Gateway" };
        let name = if is_set { format!("set-{}", index % 2) } else { format!("gateway-{index}") };
        let mut parent = json!({"kind": kind, "name": name});
        put(&mut parent, "namespace", namespace);
        put(&mut parent, "sectionName", section);
        put(&mut parent, "port", port);
        let mut spec = json!({"parentRefs": [parent]});
        if default {
            spec["useDefaultGateways"] = json!("All");
        }
        spec
    })
}

fn backend() -> impl Strategy<Value = Value> {
    (0..4usize, select(vec![80, 53, 9]), maybe(select(vec!["north", "south"])), 0..3u32).prop_map(|(index, port, namespace, weight)| {
        let mut backend = if index == 3 {
            json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "xbackend-0", "weight": weight})
        } else {
            json!({"name": format!("service-{index}"), "port": port, "weight": weight})
        };
        put(&mut backend, "namespace", namespace);
        backend
    })
}

fn http_route() -> impl Strategy<Value = Value> {
    let filter = maybe(prop_oneof![mirror(), external_auth()]);
    let rule =
        (select(vec!["/", "/a", "/a/b"]), prop::collection::vec(backend(), 0..3), any::<bool>(), filter);
    (meta("http", 4), parents(), prop::collection::vec(hostname(), 0..3), prop::collection::vec(rule, 0..3))
        .prop_map(|(meta, mut spec, hostnames, rules)| {
            spec["hostnames"] = json!(hostnames);
            let rules: Vec<Value> = rules
                .into_iter()
                .map(|(path, backends, regex, filter)| {
                    let kind = if regex { "RegularExpression" } else { "PathPrefix" };
                    let matches = json!([{"path": {"type": kind, "value": path}}]);
                    let mut rule = json!({"matches": matches, "backendRefs": backends});
                    put(&mut rule, "filters", filter.map(|filter| json!([filter])));
                    rule
                })
                .collect();
            if !rules.is_empty() {
                spec["rules"] = json!(rules);
            }
            of_group("HTTPRoute", GATEWAY, meta, spec)
        })
}

fn grpc_route() -> impl Strategy<Value = Value> {
    (meta("grpc", 2), parents(), prop::collection::vec(hostname(), 0..2), backend()).prop_map(
        |(meta, mut spec, hostnames, backend)| {
            spec["hostnames"] = json!(hostnames);
            spec["rules"] = json!([{"backendRefs": [backend]}]);
            of_group("GRPCRoute", GATEWAY, meta, spec)
        },
    )
}

fn stream_route() -> impl Strategy<Value = Value> {
    (
        select(vec!["TLSRoute", "TCPRoute", "UDPRoute"]),
        meta("stream", 3),
        parents(),
        hostname(),
        prop::collection::vec(backend(), 1..3),
    )
        .prop_map(|(kind, meta, mut spec, hostname, backends)| {
            if kind == "TLSRoute" {
                spec["hostnames"] = json!([hostname]);
            }
            spec["rules"] = json!([{"backendRefs": backends}]);
            of_group(kind, GATEWAY, meta, spec)
        })
}

fn service() -> impl Strategy<Value = Value> {
    (meta("service", 3), maybe(select(vec!["kubernetes.io/h2c", "odd"])), any::<bool>()).prop_map(
        |(meta, protocol, udp)| {
            let mut web = json!({"name": "web", "port": 80});
            put(&mut web, "appProtocol", protocol);
            let mut ports = vec![web];
            if udp {
                ports.push(json!({"name": "dns", "port": 53, "protocol": "UDP"}));
            }
            of_group("Service", "v1", meta, json!({"ports": ports}))
        },
    )
}

fn endpoint_slice() -> impl Strategy<Value = Value> {
    (meta("slice", 2), 0..3usize, 1..5u8, any::<bool>()).prop_map(|(mut meta, service, last, ready)| {
        meta["labels"] = json!({"kubernetes.io/service-name": format!("service-{service}")});
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta, "addressType": "IPv4",
            "ports": [{"name": "web", "port": 8080}],
            "endpoints": [{"addresses": [format!("10.0.0.{last}")], "conditions": {"ready": ready}}]
        })
    })
}

fn tls_policy() -> impl Strategy<Value = Value> {
    (meta("policy", 3), 0..3usize, maybe(select(vec!["web", "nope"])), authority()).prop_map(
        |(meta, service, section, ca)| {
            let mut target = json!({"group": "", "kind": "Service", "name": format!("service-{service}")});
            put(&mut target, "sectionName", section);
            let validation = json!({"hostname": "backend.example.com", "caCertificateRefs": [ca]});
            of_group(
                "BackendTLSPolicy",
                GATEWAY,
                meta,
                json!({"targetRefs": [target], "validation": validation}),
            )
        },
    )
}

fn traffic_policy() -> impl Strategy<Value = Value> {
    (meta("traffic", 2), 0..3usize).prop_map(|(meta, service)| {
        let target = json!({"group": "", "kind": "Service", "name": format!("service-{service}")});
        let spec = json!({"targetRefs": [target], "retryConstraint": {"budget": {"percent": 10}}});
        of_group("XBackendTrafficPolicy", "gateway.networking.x-k8s.io/v1alpha1", meta, spec)
    })
}

fn xbackend() -> impl Strategy<Value = Value> {
    meta("xbackend", 1).prop_map(|meta| {
        let spec = json!({"type": "ExternalHostname", "port": {"number": 443}, "externalHostname": {"hostname": "far.example.org"}});
        of_group("XBackend", "gateway.networking.x-k8s.io/v1alpha1", meta, spec)
    })
}

fn grant() -> impl Strategy<Value = Value> {
    let from = select(vec!["HTTPRoute", "TLSRoute", "Gateway", "ListenerSet"]);
    (meta("grant", 2), from, select(vec!["Service", "Secret"]), select(vec!["north", "south"])).prop_map(
        |(meta, from, to, namespace)| {
            let from = json!({"group": "gateway.networking.k8s.io", "kind": from, "namespace": namespace});
            of_group(
                "ReferenceGrant",
                GATEWAY,
                meta,
                json!({"from": [from], "to": [{"group": "", "kind": to}]}),
            )
        },
    )
}

fn secret() -> impl Strategy<Value = Value> {
    (meta("secret", 2), 0..3usize).prop_map(|(meta, which)| {
        let [first, second] = keys();
        let (certificate, key) = match which {
            0 => (&first.0, &first.1),
            1 => (&second.0, &second.1),
            // The key of another certificate.
            _ => (&first.0, &second.1),
        };
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": certificate, "tls.key": key}
        })
    })
}

fn config_map() -> impl Strategy<Value = Value> {
    (meta("ca", 2), any::<bool>()).prop_map(|(meta, good)| {
        let text = if good { keys()[0].0.as_str() } else { "not a certificate" };
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ca.crt": text}})
    })
}

fn trust_bundle() -> impl Strategy<Value = Value> {
    (0..2usize).prop_map(|which| {
        let spec = json!({"trustBundle": keys()[which].0});
        json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": {"name": "bundle-0"}, "spec": spec})
    })
}

fn namespace() -> impl Strategy<Value = Value> {
    (select(vec!["north", "south"]), select(vec!["red", "blue"])).prop_map(|(name, team)| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
    })
}

fn other_class() -> impl Strategy<Value = Value> {
    let controllers = vec!["gateway.tidegate.io/controller", "example.com/other"];
    (select(controllers), any::<bool>()).prop_map(|(controller, has_parameters)| {
        let mut spec = json!({"controllerName": controller});
        if has_parameters {
            spec["parametersRef"] = json!({
                "group": "gateway.tidegate.io", "kind": "GatewayParameters", "namespace": "north", "name": "parameters-0"
            });
        }
        json!({"apiVersion": GATEWAY, "kind": "GatewayClass", "metadata": {"name": "other"}, "spec": spec})
    })
}

fn parameters() -> impl Strategy<Value = Value> {
    (meta("parameters", 2), 1..3i64).prop_map(|(meta, replicas)| {
        let spec = json!({"workload": {"replicas": replicas}});
        of_group("GatewayParameters", "gateway.tidegate.io/v1alpha1", meta, spec)
    })
}

/// Two certificates with their keys, made once.
pub(crate) fn keys() -> &'static [(String, String); 2] {
    static KEYS: OnceLock<[(String, String); 2]> = OnceLock::new();
    KEYS.get_or_init(|| {
        ["a.example.com", "*.example.com"].map(|name| {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
            (made.cert.pem(), made.signing_key.serialize_pem())
        })
    })
}
