//! BackendTLSPolicy: whom to trust as a backend, and who of several policies has the say.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_api::core::{Service, ServicePort, TransportProtocol};
use tidegate_api::policy::{BackendTlsPolicy, BackendValidation};
use tidegate_api::refs::PolicyTargetReference;
use tidegate_api::status::{Condition, ConditionType, Reason};
use tidegate_plan::{AlternativeName, BackendTls, Blob, ObjectName, Reason as Refusal, Trust, Upstream};

use crate::authority::{self, AuthorityFault};
use crate::conditions::{Fault, holds};
use crate::lookup::{Lookup, Referent};
use crate::options;

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
    let validation = validate(&policy.spec.validation, &policy.meta.namespace, lookup);
    match validation.trust {
        Ok(trust) => {
            let (minimum_version, _) = options::read(&policy.spec.options, "");
            let tls = BackendTls {
                sni: policy.spec.validation.hostname.0.clone(),
                trust,
                names: alternative_names(&policy.spec.validation),
                minimum_version,
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

pub(super) fn validate(validation: &BackendValidation, namespace: &str, lookup: &Lookup<'_>) -> Validation {
    if let Some(well_known) = &validation.well_known {
        let trust = if *well_known == "System" {
            Ok(Trust::System)
        } else {
            let message = format!("wellKnownCACertificates {well_known} is not supported; use System");
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
                faults.push(Fault::new(reason, format!("validation.caCertificateRefs[{index}]: {message}")));
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
    /// The Service ports it speaks for; whoever uses one of them is an ancestor.
    pub(crate) targets: BTreeSet<(ObjectName, u16)>,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn output(policy: &BackendTlsPolicy, lookup: &Lookup<'_>) -> PolicyOutput {
    let validation = validate(&policy.spec.validation, &policy.meta.namespace, lookup);
    let (_, mut notes) = options::read(&policy.spec.options, "spec.options");
    let mut targets = BTreeSet::new();
    let mut faults: Vec<Fault> = validation.trust.as_ref().err().cloned().into_iter().collect();
    let mut warnings = Vec::new();
    for (index, target) in policy.spec.target_refs.iter().enumerate() {
        let place = |message: String| format!("targetRefs[{index}]: {message}");
        let verdict = judge(policy, target, lookup);
        targets.extend(verdict.ports);
        faults.extend(verdict.fault.map(|fault| Fault::new(fault.reason, place(fault.message))));
        warnings.extend(verdict.warning.map(place));
    }
    let fault = worst(&faults);
    let good = if warnings.is_empty() { "the policy is accepted".to_owned() } else { warnings.join("; ") };
    let generation = policy.meta.generation;
    let conditions = vec![
        holds(ConditionType::Accepted, fault.as_ref(), (Reason::Accepted, &good), generation),
        holds(
            ConditionType::ResolvedRefs,
            validation.unresolved.as_ref(),
            (Reason::ResolvedRefs, "all references are resolved"),
            generation,
        ),
    ];
    // Where nobody uses it there is no status to say it in.
    notes.extend(fault.map(|fault| fault.message));
    PolicyOutput { conditions, targets, notes }
}

/// The worst fault decides, and the message tells of each.
fn worst(faults: &[Fault]) -> Option<Fault> {
    let rank = |reason: Reason| match reason {
        Reason::Invalid => 0,
        Reason::NoValidCACertificate => 1,
        Reason::Conflicted => 2,
        _ => 3,
    };
    let mut sorted = faults.to_vec();
    sorted.sort_by_key(|fault| rank(fault.reason));
    Fault::joined(&sorted)
}

#[derive(Default)]
struct TargetVerdict {
    ports: Vec<(ObjectName, u16)>,
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
        return refuse(
            Reason::Invalid,
            format!("{} of group \"{}\" cannot be a target; a Service can", target.kind, target.group),
        );
    }
    let Some(service) = lookup.service(&name) else {
        return refuse(Reason::TargetNotFound, format!("Service {name} does not exist"));
    };
    let section = target.section_name.as_ref().map(tidegate_api::scalar::SectionName::as_str);
    let ports: Vec<&ServicePort> = service
        .spec
        .ports
        .iter()
        .filter(|port| section.is_none_or(|name| port.name.as_deref() == Some(name)))
        .collect();
    if ports.is_empty() {
        let message = format!("Service {name} has no port named {}", section.unwrap_or_default());
        return refuse(Reason::TargetNotFound, message);
    }
    let mut verdict = TargetVerdict {
        ports: ports
            .iter()
            .map(|port| (name.clone(), tidegate_api::scalar::port_number(port.port)))
            .collect(),
        ..TargetVerdict::default()
    };
    let udp = ports.iter().filter(|port| port.protocol == TransportProtocol::Udp).count();
    if udp == ports.len() {
        let message =
            format!("Service {name}: TLS cannot be spoken over UDP, and that is all the target has");
        verdict.fault = Some(Fault::new(Reason::Invalid, message));
    } else if udp > 0 {
        verdict.warning = Some(format!("Service {name} has UDP ports, to which the policy does not apply"));
    }
    let rivals = lookup.tls_policies_of(&name);
    let winner = rivals
        .iter()
        .filter(|rival| names(rival, &name, section) && rival.meta.precedence() < policy.meta.precedence())
        .min_by(|a, b| a.meta.precedence().cmp(&b.meta.precedence()));
    if let Some(winner) = winner {
        let message = format!(
            "BackendTLSPolicy {} is older, or first by name, and has the same target",
            winner.meta.name
        );
        verdict.fault = Some(Fault::new(Reason::Conflicted, message));
    }
    verdict
}
