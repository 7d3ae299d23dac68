//! The kinds of Kubernetes that Gateway API refers to, as much of them as is asked for here.
//!
//! Their rules are those of the API server for the part that is read, except that loopback addresses are fine
//! in an EndpointSlice: in files they are how one tries things out.

mod data;
mod endpoint_slice;
mod service;

use crate::kind::{Resource, Spec};
use crate::meta::NameForm;
use crate::read::{Place, record};

pub use data::{Base64, ConfigMap, ConfigMapSpec, FILES_ANNOTATION, Secret, SecretSpec};
pub use endpoint_slice::{
    EndpointAddressType, EndpointConditions, EndpointEntry, EndpointPort, EndpointSlice, EndpointSliceSpec,
};
pub use service::{
    ClientIpConfig, Service, ServicePort, ServiceSpec, ServiceType, SessionAffinity, SessionAffinityConfig,
    TargetPort, TransportProtocol,
};

pub type NamespaceObject = Resource<NamespaceSpec>;
pub type ClusterTrustBundle = Resource<ClusterTrustBundleSpec>;

impl Spec for NamespaceSpec {
    const KIND: &'static str = "Namespace";
    const GROUP: &'static str = "";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const NAMESPACED: bool = false;
    const FIELD: Option<&'static str> = None;
    const NAME: NameForm = NameForm::Label;
}

impl Spec for ClusterTrustBundleSpec {
    const KIND: &'static str = "ClusterTrustBundle";
    const GROUP: &'static str = "certificates.k8s.io";
    const VERSIONS: &'static [&'static str] = &["v1", "v1beta1", "v1alpha1"];
    const NAMESPACED: bool = false;
    const NAME: NameForm = NameForm::AfterSigner;

    fn check(object: &Resource<Self>, place: &mut Place<'_>) {
        let looks_at = ["metadata.name", "spec.signerName"];
        place.rule("trust_bundle_is_named_after_its_signer", &looks_at, |place| {
            trust_bundle_is_named_after_its_signer(object, place);
        });
    }
}

record! {
    /// Only its labels are asked for, and those are in the metadata.
    pub struct NamespaceSpec {}
    others: ["apiVersion", "kind", "metadata", "spec", "status"]
}

record! {
    pub struct ClusterTrustBundleSpec {
        pub signer_name: Option<String> = "signerName",
        pub trust_bundle: String = "trustBundle",
    }
    rules: [trust_bundle_holds_certificates_only("trustBundle")]
}

impl ClusterTrustBundleSpec {
    /// The rules that hold between its fields and its name.
    pub const OBJECT_RULES: &'static [&'static str] = &["trust_bundle_is_named_after_its_signer"];
}

fn trust_bundle_is_named_after_its_signer(bundle: &ClusterTrustBundle, place: &mut Place<'_>) {
    let name = &bundle.meta.name;
    match &bundle.spec.signer_name {
        Some(signer) if !signer.is_empty() => {
            let prefix = format!("{}:", signer.replace('/', ":"));
            if !name.starts_with(&prefix) {
                place.wrong(
                    "metadata.name",
                    format!("a bundle of the signer {signer} has a name that begins with `{prefix}`"),
                    format!("write `{prefix}{name}`"),
                );
            }
        }
        _ if name.contains(':') => place.wrong(
            "metadata.name",
            "a bundle without a signer has no `:` in its name",
            "write `spec.signerName`, or another name",
        ),
        _ => {}
    }
}

fn trust_bundle_holds_certificates_only(bundle: &ClusterTrustBundleSpec, place: &mut Place<'_>) {
    let mut blocks = bundle.trust_bundle.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN "));
    let help = "write certificates as PEM: `-----BEGIN CERTIFICATE-----` and so on";
    match blocks.find(|block| *block != "CERTIFICATE-----") {
        Some(other) => {
            let other = other.trim_end_matches('-');
            place.wrong(
                "trustBundle",
                format!("a trust bundle has certificates only, and here is a {other}"),
                help,
            );
        }
        None if !bundle.trust_bundle.contains("-----BEGIN CERTIFICATE-----") => {
            place.wrong("trustBundle", "there is no certificate in this trust bundle", help);
        }
        None => {}
    }
}
