//! Manifests for the Gateway `edge` and what belongs to it.

use std::fmt::Write;
use std::net::SocketAddr;

use super::tls::Issued;

/// A Gateway named `edge`.
pub fn gateway(listeners: &[String]) -> String {
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

pub fn tcp(name: &str, port: u16) -> String {
    format!("  - {{name: {name}, port: {port}, protocol: TCP}}\n")
}

pub fn passthrough(name: &str, port: u16, hostname: &str) -> String {
    format!(
        "  - {{name: {name}, port: {port}, protocol: TLS, hostname: \"{hostname}\", tls: {{mode: Passthrough}}}}\n"
    )
}

/// With the certificate of a Secret.
pub fn terminate(name: &str, port: u16, hostname: &str, secret: &str) -> String {
    format!(
        "  - {{name: {name}, port: {port}, protocol: TLS, hostname: \"{hostname}\", tls: {{mode: Terminate, certificateRefs: [{{name: {secret}}}]}}}}\n"
    )
}

/// From a listener to Services, each with its weight.
pub fn tcp_route(name: &str, listener: &str, backends: &[(&str, u32)]) -> String {
    route("TCPRoute", name, listener, "", backends)
}

pub fn tls_route(name: &str, listener: &str, hostname: &str, backends: &[(&str, u32)]) -> String {
    route("TLSRoute", name, listener, &format!("  hostnames: [\"{hostname}\"]\n"), backends)
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

/// At port 80; `name` may have a namespace before it.
pub fn service(name: &str, endpoints: &[SocketAddr]) -> String {
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

pub fn secret(name: &str, issued: &Issued) -> String {
    let indented = |pem: &str| pem.trim_end().replace('\n', "\n    ");
    format!(
        "apiVersion: v1
kind: Secret
metadata: {{name: {name}}}
type: kubernetes.io/tls
stringData:
  tls.crt: |
    {}
  tls.key: |
    {}
---
",
        indented(&issued.certificate),
        indented(&issued.key)
    )
}
