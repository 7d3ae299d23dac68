//! What a Service port speaks, by its `appProtocol`.

use tidegate_api::core::ServicePort;
use tidegate_plan::{ObjectName, Protocol};

use super::tls_policy;
use crate::lookup::Lookup;

/// For HTTP and gRPC routes. The error says why requests cannot be sent to such a port.
pub(crate) fn of_service_port(
    port: &ServicePort,
    service: &ObjectName,
    lookup: &Lookup<'_>,
) -> Result<Protocol, String> {
    let Some(name) = port.app_protocol.as_deref() else { return Ok(Protocol::Unspecified) };
    let has_policy = || tls_policy::effective(service, port, lookup).is_some();
    match name {
        "http" | "HTTP" => Ok(Protocol::Http1),
        "kubernetes.io/h2c" | "http2" | "h2c" | "grpc" => Ok(Protocol::Http2),
        "kubernetes.io/ws" | "ws" => Ok(Protocol::WebSocket),
        "https" | "HTTPS" if has_policy() => Ok(Protocol::Http1),
        "kubernetes.io/wss" | "wss" if has_policy() => Ok(Protocol::WebSocket),
        "https" | "HTTPS" | "kubernetes.io/wss" | "wss" => Err(format!(
            "Service {service} port {}: appProtocol {name} needs TLS, and no BackendTLSPolicy says whom to trust; add one for this Service",
            port.port.get()
        )),
        _ => Err(format!(
            "Service {service} port {}: appProtocol {name} is not supported; use http, https, kubernetes.io/h2c, kubernetes.io/ws or kubernetes.io/wss",
            port.port.get()
        )),
    }
}
