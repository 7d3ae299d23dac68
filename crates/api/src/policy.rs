//! Policies and grants: BackendTLSPolicy, ReferenceGrant, and the experimental XBackend and
//! XBackendTrafficPolicy.

use tidegate_plan::Hostname;

use crate::kind::{Resource, Spec};
use crate::read::{List, Map, Whole, record, words};
use crate::refs::{
    EXPERIMENTAL_GROUP, GATEWAY_GROUP, LocalObjectReference, PolicyTargetReference, SecretReference,
};
use crate::scalar::{
    AbsoluteUri, AnnotationValue, Duration, Group, Kind, LabelValue, Namespace, ObjectName, Port,
    PreciseHostname, WellKnownCas,
};
use crate::session::SessionPersistence;

pub type BackendTlsPolicy = Resource<BackendTlsPolicySpec>;
pub type ReferenceGrant = Resource<ReferenceGrantSpec>;
pub type XBackend = Resource<XBackendSpec>;
pub type XBackendTrafficPolicy = Resource<XBackendTrafficPolicySpec>;

impl Spec for BackendTlsPolicySpec {
    const KIND: &'static str = "BackendTLSPolicy";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1alpha3"];
}

impl Spec for ReferenceGrantSpec {
    const KIND: &'static str = "ReferenceGrant";
    const GROUP: &'static str = GATEWAY_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1", "v1beta1"];
}

impl Spec for XBackendSpec {
    const KIND: &'static str = "XBackend";
    const GROUP: &'static str = EXPERIMENTAL_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1alpha1"];
}

impl Spec for XBackendTrafficPolicySpec {
    const KIND: &'static str = "XBackendTrafficPolicy";
    const GROUP: &'static str = EXPERIMENTAL_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1alpha1"];
}

record! {
    pub struct BackendTlsPolicySpec {
        pub target_refs: List<PolicyTargetReference, 1, 16> = "targetRefs",
        pub validation: BackendValidation = "validation",
        pub options: Map<AnnotationValue> = "options",
    }
}

record! {
    pub struct BackendValidation {
        pub ca_certificate_refs: List<LocalObjectReference, 0, 8> = "caCertificateRefs",
        pub well_known: Option<WellKnownCas> = "wellKnownCACertificates",
        pub hostname: PreciseHostname = "hostname",
        pub subject_alt_names: List<SubjectAltName, 0, 5> = "subjectAltNames",
    }
}

record! {
    pub struct SubjectAltName {
        pub kind: SubjectAltNameType = "type",
        pub hostname: Option<Hostname> = "hostname",
        pub uri: Option<AbsoluteUri> = "uri",
    }
}

words! {
    pub enum SubjectAltNameType {
        Hostname = "Hostname",
        Uri = "URI",
    }
}

record! {
    pub struct ReferenceGrantSpec {
        pub from: List<GrantFrom, 1, 16> = "from",
        pub to: List<GrantTo, 1, 16> = "to",
    }
}

record! {
    pub struct GrantFrom {
        pub group: Group = "group",
        pub kind: Kind = "kind",
        pub namespace: Namespace = "namespace",
    }
}

record! {
    pub struct GrantTo {
        pub group: Group = "group",
        pub kind: Kind = "kind",
        pub name: Option<ObjectName> = "name",
    }
}

record! {
    pub struct XBackendSpec {
        pub kind: XBackendType = "type",
        pub port: XBackendPort = "port",
        pub external_hostname: Option<ExternalHostname> = "externalHostname",
        pub endpoint_selector: Option<EndpointSelector> = "endpointSelector",
        pub session_persistence: Option<SessionPersistence> = "sessionPersistence",
        pub protocol: Option<XBackendProtocol> = "protocol",
        pub tls: Option<XBackendTls> = "tls",
    }
}

words! {
    pub enum XBackendType {
        ExternalHostname = "ExternalHostname",
        EndpointSelector = "EndpointSelector",
    }
}

record! {
    pub struct XBackendPort {
        pub number: Option<Port> = "number",
    }
}

record! {
    pub struct ExternalHostname {
        pub hostname: PreciseHostname = "hostname",
    }
}

record! {
    pub struct EndpointSelector {
        pub match_labels: Map<LabelValue> = "matchLabels",
    }
}

words! {
    pub enum XBackendProtocol {
        Tcp = "TCP",
        Http = "HTTP",
        Http2 = "HTTP2",
        Http11 = "HTTP11",
        H2c = "H2C",
        Mcp = "MCP",
        Grpc = "GRPC",
        Wss = "WSS",
    }
}

record! {
    pub struct XBackendTls {
        pub mode: XBackendTlsMode = "mode",
        pub client_certificate_ref: Option<SecretReference> = "clientCertificateRef",
        pub validation: Option<BackendValidation> = "validation",
    }
}

words! {
    pub enum XBackendTlsMode {
        None = "None",
        ServerOnly = "ServerOnly",
        ClientAndServer = "ClientAndServer",
    }
}

record! {
    pub struct XBackendTrafficPolicySpec {
        pub target_refs: List<LocalObjectReference, 1, 16> = "targetRefs",
        pub retry_constraint: Option<RetryConstraint> = "retryConstraint",
        pub session_persistence: Option<SessionPersistence> = "sessionPersistence",
    }
}

record! {
    pub struct RetryConstraint {
        pub budget: RetryBudget = "budget" or RetryBudget::default(),
        pub min_retry_rate: RetryRate = "minRetryRate" or RetryRate::default(),
    }
}

record! {
    pub struct RetryBudget {
        pub percent: Whole<0, 100> = "percent" or Self::default().percent,
        pub interval: Duration = "interval" or Self::default().interval,
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            percent: Whole::new(20).expect("in range"),
            interval: Duration(std::time::Duration::from_secs(10)),
        }
    }
}

record! {
    pub struct RetryRate {
        pub count: Whole<1, 1_000_000> = "count" or Self::default().count,
        pub interval: Duration = "interval" or Self::default().interval,
    }
}

impl Default for RetryRate {
    fn default() -> Self {
        Self {
            count: Whole::new(10).expect("in range"),
            interval: Duration(std::time::Duration::from_secs(1)),
        }
    }
}
