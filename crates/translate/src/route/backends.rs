//! References to backends.

use tidegate_api::refs::{BackendObjectReference, EXPERIMENTAL_GROUP};
use tidegate_api::scalar::port_number;
use tidegate_api::status::Reason;
use tidegate_plan::{BackendId, BackendKind, ObjectName, Reason as Refusal, Target, Transport};

use crate::backend::{protocol, transport};
use crate::conditions::{Fault, kind_name};
use crate::lookup::{Lookup, Referent, Referrer, not_permitted};

/// What a route wants of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// HTTP or gRPC: the backend's `appProtocol` matters.
    Requests,
    /// TCP and TLS.
    Bytes,
    /// UDP.
    Datagrams,
}

impl Usage {
    const fn transport(self) -> Transport {
        match self {
            Self::Requests | Self::Bytes => Transport::Tcp,
            Self::Datagrams => Transport::Udp,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResolvedBackend {
    pub(crate) target: Target,
    /// The backend that is led to, also where it is there and not accepted: its status says so.
    pub(crate) backend: Option<BackendId>,
    pub(crate) fault: Option<Fault>,
}

impl ResolvedBackend {
    fn invalid(refusal: Refusal, reason: Reason, message: String) -> Self {
        let fault = Some(Fault::new(reason, message));
        Self { target: Target::Invalid(refusal), backend: None, fault }
    }

    fn good(id: BackendId) -> Self {
        Self { target: Target::Backend(id.clone()), backend: Some(id), fault: None }
    }
}

/// What is not permitted is not looked at, so that nobody learns whether it is there.
pub(crate) fn resolve(
    reference: &BackendObjectReference,
    usage: Usage,
    referrer: &Referrer<'_>,
    lookup: &Lookup<'_>,
) -> ResolvedBackend {
    let kind = match (reference.group.as_str(), reference.kind.as_str()) {
        ("", "Service") => BackendKind::Service,
        (EXPERIMENTAL_GROUP, "XBackend") => BackendKind::XBackend,
        (group, kind) => {
            let kind = kind_name(group, kind);
            let message = format!("{kind} cannot be a backend; use a Service or an XBackend");
            return ResolvedBackend::invalid(Refusal::BackendKindUnknown, Reason::InvalidKind, message);
        }
    };
    let namespace = reference.namespace.as_ref().map_or(referrer.namespace, |name| name.as_str());
    let name = ObjectName::new(namespace, reference.name.shared());
    let referent = Referent {
        group: reference.group.as_str(),
        kind: reference.kind.as_str(),
        namespace,
        name: reference.name.as_str(),
    };
    if !lookup.permits(referrer, &referent) {
        let message = not_permitted(referrer, &referent);
        return ResolvedBackend::invalid(Refusal::BackendNotPermitted, Reason::RefNotPermitted, message);
    }
    match kind {
        BackendKind::Service => service(reference, &name, usage, lookup),
        BackendKind::XBackend => xbackend(name, lookup),
    }
}

fn service(
    reference: &BackendObjectReference,
    name: &ObjectName,
    usage: Usage,
    lookup: &Lookup<'_>,
) -> ResolvedBackend {
    let not_found =
        |message| ResolvedBackend::invalid(Refusal::BackendNotFound, Reason::BackendNotFound, message);
    let Some(service) = lookup.service(name) else {
        return not_found(format!("Service {name} does not exist; create it, or name another"));
    };
    let Some(number) = reference.port.map(port_number) else {
        return not_found(format!("the reference to Service {name} names no port; write `port:`"));
    };
    let id = BackendId {
        kind: BackendKind::Service,
        object: name.clone(),
        port: number,
        transport: usage.transport(),
    };
    let mut ports = service.spec.ports.iter();
    let Some(port) =
        ports.find(|port| port_number(port.port) == number && transport(port) == Some(id.transport))
    else {
        let has: Vec<String> =
            service.spec.ports.iter().map(|port| format!("{}/{}", port.port.get(), port.protocol)).collect();
        let wanted = if usage == Usage::Datagrams { "UDP" } else { "TCP" };
        let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
        return not_found(format!("Service {name} has no port {number}/{wanted}; it has {has}"));
    };
    if usage == Usage::Requests
        && let Err(message) = protocol::of_service_port(port, name, lookup)
    {
        return ResolvedBackend::invalid(
            Refusal::BackendProtocolUnsupported,
            Reason::UnsupportedProtocol,
            message,
        );
    }
    ResolvedBackend::good(id)
}

fn xbackend(name: ObjectName, lookup: &Lookup<'_>) -> ResolvedBackend {
    let not_found =
        |message| ResolvedBackend::invalid(Refusal::BackendNotFound, Reason::BackendNotFound, message);
    let Some(backend) = lookup.xbackend(&name) else {
        return not_found(format!("XBackend {name} does not exist; create it, or name another"));
    };
    let id = BackendId {
        kind: BackendKind::XBackend,
        port: port_number(backend.spec.port.number),
        object: name,
        transport: Transport::Tcp,
    };
    let name = &id.object;
    let refused = if backend.spec.external_hostname.is_none() {
        let message = format!(
            "XBackend {name} selects Pods by label, which is not supported; refer to a Service instead"
        );
        ResolvedBackend::invalid(Refusal::BackendKindUnknown, Reason::InvalidKind, message)
    } else if backend.spec.protocol == Some(tidegate_api::policy::XBackendProtocol::Mcp) {
        let message =
            format!("XBackend {name} speaks MCP, which is not supported; use another spec.protocol");
        ResolvedBackend::invalid(Refusal::BackendProtocolUnsupported, Reason::UnsupportedProtocol, message)
    } else {
        return ResolvedBackend::good(id);
    };
    ResolvedBackend { backend: Some(id), ..refused }
}
