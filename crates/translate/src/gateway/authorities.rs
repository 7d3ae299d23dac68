//! CAs that client certificates are checked against (`spec.tls.frontend`).

use std::sync::Arc;

use tidegate_api::gateway::{FrontendValidation, FrontendValidationMode, Gateway};
use tidegate_api::refs::GATEWAY_GROUP;
use tidegate_api::scalar::port_number;
use tidegate_api::status::Reason;
use tidegate_plan::{Blob, ClientCertificates};

use crate::authority::{self, AuthorityFault};
use crate::conditions::Fault;
use crate::lookup::{Lookup, Referent, Referrer, not_permitted};

/// What a listener does about client certificates.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClientRule {
    pub(super) rule: Option<ClientCertificates>,
    pub(super) blobs: Vec<Arc<Blob>>,
    pub(super) faults: Vec<Fault>,
    /// Certificates must be checked and there is nothing to check them with.
    pub(super) unusable: bool,
}

/// The rule for a port: what `perPort` says replaces the default altogether.
pub(super) fn client_rule(gateway: &Gateway, port: u16, lookup: &Lookup<'_>) -> ClientRule {
    let Some(frontend) = gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref()) else {
        return ClientRule::default();
    };
    let of_port = frontend.per_port.iter().enumerate().find(|(_, entry)| entry.port.get() == i64::from(port));
    let (field, config) = match of_port {
        Some((index, entry)) => (format!("spec.tls.frontend.perPort[{index}].tls"), &entry.tls),
        None => ("spec.tls.frontend.default".to_owned(), &frontend.default),
    };
    match &config.validation {
        None => ClientRule::default(),
        Some(validation) => evaluate(validation, &format!("{field}.validation"), gateway, lookup),
    }
}

/// Rules for ports on which nobody terminates TLS: nothing asks for them, so that nobody else would say what is wrong
/// with them.
pub(super) fn without_effect(gateway: &Gateway, terminates_on: impl Fn(u16) -> bool) -> Vec<String> {
    let frontend = gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref());
    let ports = frontend.into_iter().flat_map(|frontend| frontend.per_port.iter().enumerate());
    let unused = ports.filter(|(_, entry)| !terminates_on(port_number(entry.port)));
    unused
        .map(|(index, entry)| {
            let port = entry.port.get();
            format!(
                "spec.tls.frontend.perPort[{index}] has no effect: no listener terminates TLS on port {port}"
            )
        })
        .collect()
}

fn evaluate(
    validation: &FrontendValidation,
    field: &str,
    gateway: &Gateway,
    lookup: &Lookup<'_>,
) -> ClientRule {
    let mut blobs = Vec::new();
    let mut faults = Vec::new();
    let referrer = Referrer { group: GATEWAY_GROUP, kind: "Gateway", namespace: &gateway.meta.namespace };
    for (index, reference) in validation.ca_certificate_refs.iter().enumerate() {
        let namespace = reference.namespace.as_ref().map_or(referrer.namespace, |name| name.as_str());
        let referent = Referent {
            group: reference.group.as_str(),
            kind: reference.kind.as_str(),
            namespace,
            name: reference.name.as_str(),
        };
        let result = if !authority::is_cluster_scoped(&referent) && !lookup.permits(&referrer, &referent) {
            Err(Fault::new(Reason::RefNotPermitted, not_permitted(&referrer, &referent)))
        } else {
            authority::bundle(&referent, lookup).map_err(|fault| match fault {
                AuthorityFault::Kind(message) => Fault::new(Reason::InvalidCACertificateKind, message),
                AuthorityFault::Reference(message) => Fault::new(Reason::InvalidCACertificateRef, message),
            })
        };
        match result {
            Ok(blob) => blobs.push(blob),
            Err(fault) => faults.push(fault.at(&format!("{field}.caCertificateRefs[{index}]"))),
        }
    }
    let allow_insecure = validation.mode == FrontendValidationMode::AllowInsecureFallback;
    let trust = blobs.iter().map(|blob| blob.id()).collect();
    ClientRule {
        unusable: blobs.is_empty(),
        rule: Some(ClientCertificates { trust, allow_insecure }),
        blobs,
        faults,
    }
}
