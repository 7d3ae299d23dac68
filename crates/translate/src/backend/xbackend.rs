//! XBackend: a backend outside the cluster, by name.

use std::sync::Arc;

use tidegate_api::policy::{XBackend, XBackendProtocol, XBackendTls, XBackendTlsMode};
use tidegate_api::refs::EXPERIMENTAL_GROUP;
use tidegate_api::status::{Condition, ConditionType, Reason};
use tidegate_plan::{
    Addresses, Backend, BackendId, BackendTls, Blob, Certificate, Protocol, Reason as Refusal, Upstream,
};

use super::{BackendOutput, tls_policy, traffic};
use crate::certificate;
use crate::conditions::{Fault, holds};
use crate::lookup::{Lookup, Referrer};
use crate::settings::Source;

pub(super) fn translate(id: &BackendId, lookup: &Lookup<'_>) -> Option<BackendOutput> {
    let backend = lookup.xbackend(&id.object)?;
    if unsupported(backend).is_some() {
        return None;
    }
    let hostname = backend.spec.external_hostname.as_ref()?.hostname.0.clone();
    let (upstream, blobs) = match connection(backend, lookup) {
        Ok((upstream, blobs)) => (upstream, blobs),
        Err(_) => (Upstream::Refuse(Refusal::PolicyInvalid), Vec::new()),
    };
    let traffic = traffic::of(&id.object, id.kind, lookup);
    let body = Backend {
        id: id.clone(),
        addresses: Addresses::Dns { hostname, port: id.port },
        protocol: protocol(backend),
        upstream,
        affinity: None,
        session: traffic.session,
        retry_budget: traffic.retry_budget,
        prefer_close: false,
        allow_loopback: lookup.settings.source == Source::Folder,
    };
    Some(BackendOutput { body, blobs })
}

/// What nobody here can do, whatever else it says.
fn unsupported(backend: &XBackend) -> Option<Fault> {
    let message = if backend.spec.external_hostname.is_none() {
        "spec.type: EndpointSelector is not supported; refer to a Service instead"
    } else if backend.spec.protocol == Some(XBackendProtocol::Mcp) {
        "spec.protocol: MCP is not supported; use another"
    } else {
        return None;
    };
    Some(Fault::new(Reason::Invalid, message))
}

const fn protocol(backend: &XBackend) -> Protocol {
    match backend.spec.protocol {
        None | Some(XBackendProtocol::Http | XBackendProtocol::Mcp) => Protocol::Unspecified,
        Some(XBackendProtocol::Tcp) => Protocol::Tcp,
        Some(XBackendProtocol::Http11) => Protocol::Http1,
        Some(XBackendProtocol::Http2 | XBackendProtocol::H2c | XBackendProtocol::Grpc) => Protocol::Http2,
        Some(XBackendProtocol::Wss) => Protocol::WebSocket,
    }
}

type Connection = (Upstream, Vec<Arc<Blob>>);

/// How to connect, or why TLS cannot be spoken as it is written.
fn connection(backend: &XBackend, lookup: &Lookup<'_>) -> Result<Connection, Fault> {
    let Some(tls) = backend.spec.tls.as_ref().filter(|tls| tls.mode != XBackendTlsMode::None) else {
        return Ok((Upstream::Plain, Vec::new()));
    };
    let Some(validation) = &tls.validation else {
        return Err(Fault::new(Reason::Invalid, "spec.tls.validation is missing; say whom to trust"));
    };
    let checked = tls_policy::validate(validation, "spec.tls.validation", &backend.meta.namespace, lookup);
    let trust = checked.trust?;
    let mut blobs = checked.blobs;
    let client_certificate = client_certificate(tls, backend, lookup, &mut blobs)?;
    let tls = BackendTls {
        sni: validation.hostname.0.clone(),
        trust,
        names: tls_policy::alternative_names(validation),
        minimum_version: None,
        alpn: Vec::new(),
        client_certificate,
    };
    Ok((Upstream::Tls(tls), blobs))
}

fn client_certificate(
    tls: &XBackendTls,
    backend: &XBackend,
    lookup: &Lookup<'_>,
    blobs: &mut Vec<Arc<Blob>>,
) -> Result<Option<Certificate>, Fault> {
    let Some(reference) = &tls.client_certificate_ref else { return Ok(None) };
    let referrer =
        Referrer { group: EXPERIMENTAL_GROUP, kind: "XBackend", namespace: &backend.meta.namespace };
    let key = certificate::resolve(reference, &referrer, Reason::Invalid, lookup)
        .map_err(|fault| fault.at("spec.tls.clientCertificateRef"))?;
    blobs.push(Arc::clone(&key.blob));
    Ok(Some(key.certificate.clone()))
}

/// The conditions of an XBackend, and what is wrong with it.
pub(crate) fn status(backend: &XBackend, lookup: &Lookup<'_>) -> (Vec<Condition>, Option<Fault>) {
    let fault = unsupported(backend).or_else(|| connection(backend, lookup).err());
    let good = (Reason::Accepted, "the backend is accepted");
    (vec![holds(ConditionType::Accepted, fault.as_ref(), good, backend.meta.generation)], fault)
}
