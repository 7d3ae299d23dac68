//! The objects that most tests need, as YAML. What is special about a test stands in the test.

use std::fmt::Display;

use super::certificate::Identity;

/// Documents of one file.
pub(crate) fn file(documents: impl IntoIterator<Item = String>) -> String {
    documents.into_iter().collect::<Vec<_>>().join("---\n")
}

/// The Gateway `gate` with listeners as [`passthrough`], [`terminate`] and their like write them.
pub(crate) fn gateway(listeners: impl IntoIterator<Item = String>) -> String {
    gateway_with("", listeners)
}

/// The same with more below `spec`, indented by two.
pub(crate) fn gateway_with(spec: &str, listeners: impl IntoIterator<Item = String>) -> String {
    let listeners: String = listeners.into_iter().collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: gate
spec:
  gatewayClassName: tidegate
{spec}  listeners:
{listeners}"
    )
}

pub(crate) fn tcp(name: &str, port: u16) -> String {
    format!("  - {{name: {name}, port: {port}, protocol: TCP}}\n")
}

pub(crate) fn http(name: &str, port: u16) -> String {
    format!("  - {{name: {name}, port: {port}, protocol: HTTP}}\n")
}

pub(crate) fn udp(name: &str, port: u16) -> String {
    format!("  - {{name: {name}, port: {port}, protocol: UDP}}\n")
}

pub(crate) fn passthrough(name: &str, port: u16, hostname: &str) -> String {
    format!(
        "  - {{name: {name}, port: {port}, protocol: TLS, hostname: {hostname:?}, tls: {{mode: Passthrough}}}}\n"
    )
}

/// Each of `secrets` holds a certificate.
pub(crate) fn terminate(name: &str, port: u16, hostname: &str, secrets: &[&str]) -> String {
    with_certificates(name, port, hostname, "protocol: TLS", secrets, "")
}

/// The same for protocols that clients may offer by ALPN.
pub(crate) fn terminate_for(
    protocols: &str,
    name: &str,
    port: u16,
    hostname: &str,
    secrets: &[&str],
) -> String {
    let options = format!(", options: {{gateway.tidegate.io/alpn: {protocols:?}}}");
    with_certificates(name, port, hostname, "protocol: TLS", secrets, &options)
}

pub(crate) fn https(name: &str, port: u16, hostname: &str, secrets: &[&str]) -> String {
    with_certificates(name, port, hostname, "protocol: HTTPS", secrets, "")
}

fn with_certificates(
    name: &str,
    port: u16,
    hostname: &str,
    protocol: &str,
    secrets: &[&str],
    options: &str,
) -> String {
    let certificates: Vec<String> = secrets.iter().map(|secret| format!("{{name: {secret}}}")).collect();
    format!(
        "  - {{name: {name}, port: {port}, {protocol}, hostname: {hostname:?}, tls: {{mode: Terminate, certificateRefs: [{}]{options}}}}}\n",
        certificates.join(", ")
    )
}

/// From a listener of `gate` to a service of [`service`].
pub(crate) fn route(kind: &str, name: &str, listener: &str, service: &str) -> String {
    route_with("", kind, name, listener, service)
}

/// The same for one hostname.
pub(crate) fn tls_route(hostname: &str, name: &str, listener: &str, service: &str) -> String {
    route_with(&format!("  hostnames: [{hostname:?}]\n"), "TLSRoute", name, listener, service)
}

fn route_with(spec: &str, kind: &str, name: &str, listener: &str, service: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata:
  name: {name}
spec:
  parentRefs: [{{name: gate, sectionName: {listener}}}]
{spec}  rules:
  - backendRefs: [{{name: {service}, port: 1}}]
"
    )
}

/// Port 1, over TCP and UDP, at a port of loopback.
pub(crate) fn service(name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata:
  name: {name}
  annotations:
    gateway.tidegate.io/endpoints: \"tcp=127.0.0.1:{port}, udp=127.0.0.1:{port}\"
spec:
  ports:
  - {{name: tcp, port: 1, protocol: TCP}}
  - {{name: udp, port: 1, protocol: UDP}}
"
    )
}

pub(crate) fn secret(name: &str, identity: &Identity) -> String {
    format!(
        "apiVersion: v1
kind: Secret
metadata:
  name: {name}
type: kubernetes.io/tls
stringData:
  tls.crt: |
{}  tls.key: |
{}",
        indented(&identity.certificate),
        indented(&identity.key)
    )
}

/// An authority's certificate for others to refer to.
pub(crate) fn config_map(name: &str, authority: &str) -> String {
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
data:
  ca.crt: |
{}",
        indented(authority)
    )
}

/// TLS to a service, which must prove `hostname` with a certificate of the authority in a ConfigMap.
pub(crate) fn backend_tls(service: &str, hostname: impl Display, config_map: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata:
  name: {service}
spec:
  targetRefs: [{{group: \"\", kind: Service, name: {service}}}]
  validation:
    hostname: {hostname}
    caCertificateRefs: [{{group: \"\", kind: ConfigMap, name: {config_map}}}]
"
    )
}

/// What the backend is offered by ALPN, at the end of [`backend_tls`].
pub(crate) fn offering(protocols: &str) -> String {
    format!("  options: {{gateway.tidegate.io/alpn: {protocols:?}}}\n")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
