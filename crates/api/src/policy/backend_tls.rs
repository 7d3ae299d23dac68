//! BackendTLSPolicy: how a backend proves who it is.

use tidegate_plan::Hostname;

use crate::kind::{Resource, Spec};
use crate::read::{List, Map, Place, record, words};
use crate::refs::{GATEWAY_GROUP, LocalObjectReference, PolicyTargetReference};
use crate::rules::{
    Pointer, Pointing, field_fits, references_are_distinct, references_to_one_object_all_name_a_part,
};
use crate::scalar::{AbsoluteUri, AnnotationValue, PreciseHostname, WellKnownCas};

pub type BackendTlsPolicy = Resource<BackendTlsPolicySpec>;

impl Spec for BackendTlsPolicySpec {
    const KIND: &'static str = "BackendTLSPolicy";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1alpha3"];
}

record! {
    pub struct BackendTlsPolicySpec {
        pub target_refs: List<PolicyTargetReference, 1, 16> = "targetRefs",
        pub validation: BackendValidation = "validation",
        pub options: Map<AnnotationValue> = "options",
    }
    rules: [
        references_are_distinct("targetRefs"),
        references_to_one_object_all_name_a_part("targetRefs"),
        options_are_at_most_16("options?"),
    ]
}

record! {
    /// One of both says which CAs are trusted. The standard channel takes an empty list beside a well-known set,
    /// the experimental one does not.
    pub struct BackendValidation {
        pub ca_certificate_refs: List<LocalObjectReference, 0, 8> = "caCertificateRefs",
        pub well_known: Option<WellKnownCas> = "wellKnownCACertificates",
        pub hostname: PreciseHostname = "hostname",
        pub subject_alt_names: List<SubjectAltName, 0, 5> = "subjectAltNames",
    }
    rules: [cas_are_referred_to_or_well_known("caCertificateRefs?")]
}

record! {
    pub struct SubjectAltName {
        pub kind: SubjectAltNameType = "type",
        pub hostname: Option<Hostname> = "hostname",
        pub uri: Option<AbsoluteUri> = "uri",
    }
    rules: [subject_alt_name_field_fits_type("type")]
}

words! {
    pub enum SubjectAltNameType {
        Hostname = "Hostname",
        Uri = "URI",
    }
}

impl Pointing for BackendTlsPolicySpec {
    const LIST: &'static str = "targetRefs";
    const APART: &'static str = "`sectionName`";

    fn pointers(&self) -> Vec<Pointer<'_>> {
        self.target_refs.iter().map(Pointer::from).collect()
    }
}

fn options_are_at_most_16(policy: &BackendTlsPolicySpec, place: &mut Place<'_>) {
    let count = policy.options.len();
    if count > 16 {
        place.wrong("options", format!("{count} options where at most 16 may be"), "remove some");
    }
}

fn cas_are_referred_to_or_well_known(validation: &BackendValidation, place: &mut Place<'_>) {
    match (validation.ca_certificate_refs.is_empty(), &validation.well_known) {
        (true, None) => place.wrong(
            "",
            "nothing says which CAs the backend's certificate may come from",
            "write `caCertificateRefs:` with a ConfigMap, or `wellKnownCACertificates: System`",
        ),
        (false, Some(_)) => place.wrong(
            "wellKnownCACertificates",
            "`caCertificateRefs` and `wellKnownCACertificates` both say which CAs are trusted",
            "remove one of them",
        ),
        _ => {}
    }
}

fn subject_alt_name_field_fits_type(name: &SubjectAltName, place: &mut Place<'_>) {
    field_fits(place, "type", name.kind.as_str(), &[("Hostname", "hostname"), ("URI", "uri")]);
}
