//! BackendTLSPolicy: whom to trust as a backend, and who of several policies has the say.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_api::core::{Service, ServicePort, TransportProtocol};
use tidegate_api::policy::{BackendTlsPolicy, BackendValidation};
use tidegate_api::refs::PolicyTargetReference;
use tidegate_api::status::{Condition, ConditionType, Reason};
use tidegate_plan::{
    AlternativeName, BackendId, BackendKind, BackendTls, Blob, ObjectName, Reason as Refusal, Trust, Upstream,
};

use crate::authority::{self, AuthorityFault};
use crate::conditions::{Fault, few, holds, kind_name};
use crate::lookup::{Lookup, Referent};
use crate::options::{self, TlsOptions};

/// The policy that holds for a port: one that names the port goes before one for the whole Service, then the
/// older one, then the first by name.
pub(crate) fn effective<'a>(
    service: &ObjectName,
    port: &ServicePort,
    lookup: &Lookup<'a>,
) -> Option<&'a Arc<BackendTlsPolicy>> {
    let policies = lookup.tls_policies_of(service);
    let best = |section: Option<&str>| {
        let of_section = policies.iter().filter(|policy| names(policy, service, section));
        of_section.min_by(|a, b| a.meta.precedence().cmp(&b.meta.precedence())).copied()
    };
    let of_port = port.name.as_deref().filter(|name| !name.is_empty()).and_then(|name| best(Some(name)));
    of_port.or_else(|| best(None))
}

/// Whether the policy has this Service and section, or its whole, as a target.
fn names(policy: &BackendTlsPolicy, service: &ObjectName, section: Option<&str>) -> bool {
    policy.spec.target_refs.iter().any(|target| {
        is_service(target)
            && target.name == *service.name
            && target.section_name.as_ref().map(tidegate_api::scalar::SectionName::as_str) == section
    })
}

fn is_service(target: &PolicyTargetReference) -> bool {
    target.group == "" && target.kind == "Service"
}

/// How to connect to a Service port. A policy that cannot be followed is never plaintext instead.
pub(super) fn upstream(
    service: &Service,
    port: &ServicePort,
    lookup: &Lookup<'_>,
) -> (Upstream, Vec<Arc<Blob>>) {
    if port.protocol != TransportProtocol::Tcp {
        return (Upstream::Plain, Vec::new());
    }
    let Some(policy) = effective(&service.meta.object_name(), port, lookup) else {
        return (Upstream::Plain, Vec::new());
    };
    let validation = validate(&policy.spec.validation, "spec.validation", &policy.meta.namespace, lookup);
    match validation.trust {
        Ok(trust) => {
            let (TlsOptions { minimum_version, alpn }, _) = options::read(&policy.spec.options, "");
            let tls = BackendTls {
                sni: policy.spec.validation.hostname.0.clone(),
                trust,
                names: alternative_names(&policy.spec.validation),
                minimum_version,
                alpn,
                client_certificate: None,
            };
            (Upstream::Tls(tls), validation.blobs)
        }
        Err(_) => (Upstream::Refuse(Refusal::PolicyInvalid), Vec::new()),
    }
}

pub(super) fn alternative_names(validation: &BackendValidation) -> Vec<AlternativeName> {
    let names = validation.subject_alt_names.iter().filter_map(|name| {
        let dns = name.hostname.clone().map(AlternativeName::Dns);
        dns.or_else(|| name.uri.as_ref().map(|uri| AlternativeName::Uri(uri.to_string())))
    });
    names.collect()
}

/// What the references of a policy came to.
pub(super) struct Validation {
    /// The error is why the policy as a whole cannot be followed.
    pub(super) trust: Result<Trust, Fault>,
    pub(super) blobs: Vec<Arc<Blob>>,
    pub(super) unresolved: Option<Fault>,
}

/// `field` is where the validation is written.
pub(super) fn validate(
    validation: &BackendValidation,
    field: &str,
    namespace: &str,
    lookup: &Lookup<'_>,
) -> Validation {
    if let Some(well_known) = &validation.well_known {
        let trust = if *well_known == "System" {
            Ok(Trust::System)
        } else {
            let message =
                format!("{field}.wellKnownCACertificates: {well_known} is not supported; use System");
            Err(Fault::new(Reason::Invalid, message))
        };
        return Validation { trust, blobs: Vec::new(), unresolved: None };
    }
    let mut blobs = Vec::new();
    let mut faults = Vec::new();
    for (index, reference) in validation.ca_certificate_refs.iter().enumerate() {
        let referent = Referent {
            group: reference.group.as_str(),
            kind: reference.kind.as_str(),
            namespace,
            name: reference.name.as_str(),
        };
        match authority::bundle(&referent, lookup) {
            Ok(blob) => blobs.push(blob),
            Err(fault) => {
                let (reason, message) = match fault {
                    AuthorityFault::Kind(message) => (Reason::InvalidKind, message),
                    AuthorityFault::Reference(message) => (Reason::InvalidCACertificateRef, message),
                };
                faults.push(Fault::new(reason, format!("{field}.caCertificateRefs[{index}]: {message}")));
            }
        }
    }
    let unresolved = Fault::joined(&faults);
    let trust = if blobs.is_empty() {
        let message = unresolved.as_ref().map_or("no CA certificate is named", |fault| &fault.message);
        Err(Fault::new(Reason::NoValidCACertificate, message))
    } else {
        Ok(Trust::Bundles(blobs.iter().map(|blob| blob.id()).collect()))
    };
    Validation { trust, blobs, unresolved }
}

/// What a policy came to, before it is known who uses it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PolicyOutput {
    pub(crate) conditions: Vec<Condition>,
    /// Whoever uses one of them is an ancestor.
    pub(crate) targets: BTreeSet<BackendId>,
    pub(crate) fault: Option<Fault>,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn output(policy: &BackendTlsPolicy, lookup: &Lookup<'_>) -> PolicyOutput {
    let validation = validate(&policy.spec.validation, "spec.validation", &policy.meta.namespace, lookup);
    let (_, notes) = options::read(&policy.spec.options, "spec.options");
    let mut targets = BTreeSet::new();
    let mut faults: Vec<Fault> = validation.trust.as_ref().err().cloned().into_iter().collect();
    let mut told: Vec<String> = faults.iter().map(|fault| fault.message.clone()).collect();
    let mut has_warning = false;
    for (index, target) in policy.spec.target_refs.iter().enumerate() {
        let verdict = judge(policy, target, lookup);
        targets.extend(verdict.backends);
        has_warning |= verdict.warning.is_some();
        let message = verdict.fault.as_ref().map(|fault| fault.message.clone()).or(verdict.warning);
        let message = message.unwrap_or_else(|| "accepted".to_owned());
        told.push(format!("spec.targetRefs[{index}]: {message}"));
        faults.extend(verdict.fault);
    }
    // Of several targets each is told of, the good ones too.
    let told = told.join("; ");
    let fault = Fault::worst(&faults).map(|fault| Fault::new(fault.reason, &told));
    let good = if has_warning { &told } else { "the policy is accepted" };
    let generation = policy.meta.generation;
    let conditions = vec![
        holds(ConditionType::Accepted, fault.as_ref(), (Reason::Accepted, good), generation),
        holds(
            ConditionType::ResolvedRefs,
            validation.unresolved.as_ref(),
            (Reason::ResolvedRefs, "all references are resolved"),
            generation,
        ),
    ];
    PolicyOutput { conditions, targets, fault, notes }
}

#[derive(Default)]
struct TargetVerdict {
    backends: Vec<BackendId>,
    fault: Option<Fault>,
    warning: Option<String>,
}

fn judge(policy: &BackendTlsPolicy, target: &PolicyTargetReference, lookup: &Lookup<'_>) -> TargetVerdict {
    let name = ObjectName::new(Arc::clone(&policy.meta.namespace), target.name.shared());
    let refuse = |reason, message: String| TargetVerdict {
        fault: Some(Fault::new(reason, message)),
        ..TargetVerdict::default()
    };
    if !is_service(target) {
        let kind = kind_name(target.group.as_str(), target.kind.as_str());
        return refuse(Reason::Invalid, format!("{kind} cannot be a target; name a Service"));
    }
    let Some(service) = lookup.service(&name) else {
        return refuse(
            Reason::TargetNotFound,
            format!("Service {name} does not exist; create it, or name another"),
        );
    };
    let section = target.section_name.as_ref().map(tidegate_api::scalar::SectionName::as_str);
    let all = &service.spec.ports;
    let ports: Vec<&ServicePort> =
        all.iter().filter(|port| section.is_none_or(|name| port.name.as_deref() == Some(name))).collect();
    if ports.is_empty() {
        let message = format!(
            "Service {name} has no port named {}; its ports are {}",
            section.unwrap_or_default(),
            few(all.iter().map(|port| port.name.clone().unwrap_or_else(|| port.port.get().to_string())))
        );
        return refuse(Reason::TargetNotFound, message);
    }
    let mut verdict = TargetVerdict {
        backends: ports.iter().filter_map(|port| backend_id(&name, port)).collect(),
        ..TargetVerdict::default()
    };
    let with_tcp = ports.iter().filter(|port| port.protocol == TransportProtocol::Tcp).count();
    if with_tcp == 0 {
        let message = format!("TLS is spoken over TCP, and Service {name} has no TCP port there");
        verdict.fault = Some(Fault::new(Reason::Invalid, message));
    } else if with_tcp < ports.len() {
        let message = format!("accepted for the TCP ports of Service {name}; its other ports go without TLS");
        verdict.warning = Some(message);
    }
    let rivals = lookup.tls_policies_of(&name);
    let winner = rivals
        .iter()
        .filter(|rival| names(rival, &name, section) && rival.meta.precedence() < policy.meta.precedence())
        .min_by(|a, b| a.meta.precedence().cmp(&b.meta.precedence()));
    if let Some(winner) = winner {
        let message = format!(
            "BackendTLSPolicy {}, which is older or first by name, has the same target; remove one of them",
            winner.meta.name
        );
        verdict.fault = Some(Fault::new(Reason::Conflicted, message));
    }
    verdict
}

fn backend_id(service: &ObjectName, port: &ServicePort) -> Option<BackendId> {
    Some(BackendId {
        kind: BackendKind::Service,
        object: service.clone(),
        port: tidegate_api::scalar::port_number(port.port),
        transport: super::transport(port)?,
    })
}
