//! Backends that routes use: where their endpoints are and how they are to be spoken to.

pub(crate) mod endpoints;
pub(crate) mod protocol;
pub(crate) mod tls_policy;
mod traffic;
mod xbackend;

use std::sync::Arc;
use std::time::Duration;

use tidegate_api::core::{Service, ServicePort, ServiceType, SessionAffinity, TargetPort, TransportProtocol};
use tidegate_api::scalar::port_number;
use tidegate_plan::{
    Addresses, Affinity, Backend, BackendId, BackendKind, Blob, EndpointsId, Hostname, Transport,
};

pub(crate) use self::traffic::session;
pub(crate) use self::traffic::status as traffic_policy_status;
pub(crate) use self::xbackend::status as xbackend_status;
use crate::lookup::Lookup;
use crate::settings::Source;

/// What Kubernetes takes where `sessionAffinity` says no time.
const DEFAULT_AFFINITY: Duration = Duration::from_secs(10_800);

/// What became of a backend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BackendOutput {
    pub(crate) body: Backend,
    pub(crate) blobs: Vec<Arc<Blob>>,
}

/// The backend that an id names, or `None` where it is gone.
pub(crate) fn translate(id: &BackendId, lookup: &Lookup<'_>) -> Option<BackendOutput> {
    match id.kind {
        BackendKind::Service => service(id, lookup),
        BackendKind::XBackend => xbackend::translate(id, lookup),
    }
}

fn service(id: &BackendId, lookup: &Lookup<'_>) -> Option<BackendOutput> {
    let service = lookup.service(&id.object)?;
    let mut ports = service.spec.ports.iter();
    let port =
        ports.find(|port| port_number(port.port) == id.port && transport(port) == Some(id.transport))?;
    let (upstream, blobs) = tls_policy::upstream(service, port, lookup);
    let traffic = traffic::of(&id.object, id.kind, lookup);
    let body = Backend {
        id: id.clone(),
        addresses: addresses(service, port),
        protocol: protocol::of_service_port(port, &id.object, lookup).unwrap_or_default(),
        upstream,
        affinity: affinity(service),
        session: traffic.session,
        retry_budget: traffic.retry_budget,
        prefer_close: service.spec.traffic_distribution.is_some(),
        allow_loopback: lookup.settings.source == Source::Folder,
    };
    Some(BackendOutput { body, blobs })
}

/// What a port is reached over; `None` where it is nothing of ours.
pub(crate) const fn transport(port: &ServicePort) -> Option<Transport> {
    match port.protocol {
        TransportProtocol::Tcp => Some(Transport::Tcp),
        TransportProtocol::Udp => Some(Transport::Udp),
        TransportProtocol::Sctp => None,
    }
}

fn addresses(service: &Service, port: &ServicePort) -> Addresses {
    if let Some(hostname) = external_name(service) {
        let port = match &port.target_port {
            Some(TargetPort::Number(number)) => *number,
            Some(TargetPort::Name(_)) | None => port_number(port.port),
        };
        return Addresses::Dns { hostname, port };
    }
    Addresses::Endpoints(EndpointsId {
        service: service.meta.object_name(),
        port: port.name.as_deref().unwrap_or_default().into(),
    })
}

/// The name that an ExternalName Service stands for.
pub(crate) fn external_name(service: &Service) -> Option<Hostname> {
    let is_external = service.spec.kind == ServiceType::ExternalName;
    service.spec.external_name.as_ref().filter(|_| is_external).and_then(|name| Hostname::parse(name).ok())
}

fn affinity(service: &Service) -> Option<Affinity> {
    if service.spec.session_affinity != SessionAffinity::ClientIp {
        return None;
    }
    let config = service.spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config
        .and_then(|config| config.timeout_seconds)
        .and_then(|seconds| u64::try_from(seconds.get()).ok());
    Some(Affinity { timeout: seconds.map_or(DEFAULT_AFFINITY, Duration::from_secs) })
}
