//! Manifests whose number of listeners, backends and endpoints differs from test to test, each with `---` behind it.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::support::certificate::Identity;
#[allow(unused_imports, reason = "each test program uses a part of it")]
pub(crate) use crate::support::manifest::{http, https, passthrough, tcp, terminate};

/// A Gateway named `edge`.
pub(crate) fn gateway(listeners: &[String]) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: edge}}
spec:
  gatewayClassName: tidegate
  listeners:
{}---
",
        listeners.concat()
    )
}

/// From a listener to Services, each with its weight.
pub(crate) fn tcp_route(name: &str, listener: &str, backends: &[(&str, u32)]) -> String {
    route("TCPRoute", name, listener, "", backends)
}

pub(crate) fn tls_route(name: &str, listener: &str, hostname: &str, backends: &[(&str, u32)]) -> String {
    route("TLSRoute", name, listener, &format!("  hostnames: [\"{hostname}\"]\n"), backends)
}

/// For paths below `path`; without hostnames, for all of the listener's.
pub(crate) fn http_route(
    name: &str,
    listener: &str,
    hostnames: &[&str],
    path: &str,
    backends: &[(&str, u32)],
) -> String {
    let hostnames =
        if hostnames.is_empty() { String::new() } else { format!("  hostnames: {hostnames:?}\n") };
    let route = route("HTTPRoute", name, listener, &hostnames, backends);
    route.replace(
        "  - backendRefs:\n",
        &format!("  - matches: [{{path: {{value: {path}}}}}]\n    backendRefs:\n"),
    )
}

fn route(kind: &str, name: &str, listener: &str, hostnames: &str, backends: &[(&str, u32)]) -> String {
    let mut refs = String::new();
    for (service, weight) in backends {
        let (namespace, service) = service.split_once('/').unwrap_or(("default", service));
        let _ =
            writeln!(refs, "    - {{name: {service}, namespace: {namespace}, port: 80, weight: {weight}}}");
    }
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: edge, sectionName: {listener}}}]
{hostnames}  rules:
  - backendRefs:
{refs}---
"
    )
}

/// From a listener to a Service of [`udp_service`].
pub(crate) fn udp_route(name: &str, listener: &str, service: &str) -> String {
    route("UDPRoute", name, listener, "", &[(service, 1)])
}

/// At port 80 over UDP.
pub(crate) fn udp_service(name: &str, endpoint: SocketAddr) -> String {
    service(name, &[endpoint]).replace("{port: 80}", "{port: 80, protocol: UDP}")
}

/// At port 80; `name` may have a namespace before it.
pub(crate) fn service(name: &str, endpoints: &[SocketAddr]) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    format!(
        "apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: {namespace}
  annotations: {{gateway.tidegate.io/endpoints: \"{}\"}}
spec: {{ports: [{{port: 80}}]}}
---
",
        endpoints.join(", ")
    )
}

pub(crate) fn secret(name: &str, identity: &Identity) -> String {
    crate::support::manifest::secret(name, identity) + "---\n"
}
