//! The kinds of Kubernetes that Gateway API refers to, as much of them as is asked for here.

use std::net::IpAddr;

use base64::Engine;

use crate::kind::{Resource, Spec};
use crate::read::{At, Map, Read, record, text, words};
use crate::scalar::{Port, shorten};
use crate::tree::{Node, Value};

pub type NamespaceObject = Resource<NamespaceSpec>;
pub type Service = Resource<ServiceSpec>;
pub type EndpointSlice = Resource<EndpointSliceSpec>;
pub type Secret = Resource<SecretSpec>;
pub type ConfigMap = Resource<ConfigMapSpec>;
pub type ClusterTrustBundle = Resource<ClusterTrustBundleSpec>;

impl Spec for NamespaceSpec {
    const KIND: &'static str = "Namespace";
    const GROUP: &'static str = "";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const NAMESPACED: bool = false;
    const FIELD: Option<&'static str> = None;
    const PARTIAL: bool = true;
}

impl Spec for ServiceSpec {
    const KIND: &'static str = "Service";
    const GROUP: &'static str = "";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const PARTIAL: bool = true;
}

impl Spec for EndpointSliceSpec {
    const KIND: &'static str = "EndpointSlice";
    const GROUP: &'static str = "discovery.k8s.io";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const FIELD: Option<&'static str> = None;
    const PARTIAL: bool = true;
}

impl Spec for SecretSpec {
    const KIND: &'static str = "Secret";
    const GROUP: &'static str = "";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const FIELD: Option<&'static str> = None;
    const PARTIAL: bool = true;
}

impl Spec for ConfigMapSpec {
    const KIND: &'static str = "ConfigMap";
    const GROUP: &'static str = "";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const FIELD: Option<&'static str> = None;
    const PARTIAL: bool = true;
}

impl Spec for ClusterTrustBundleSpec {
    const KIND: &'static str = "ClusterTrustBundle";
    const GROUP: &'static str = "certificates.k8s.io";
    const VERSIONS: &'static [&'static str] = &["v1", "v1beta1", "v1alpha1"];
    const NAMESPACED: bool = false;
    const PARTIAL: bool = true;
}

record! {
    /// Only its labels are asked for, and those are in the metadata.
    pub struct NamespaceSpec {}
}

record! {
    pub struct ServiceSpec {
        pub kind: ServiceType = "type" or ServiceType::ClusterIp,
        pub cluster_ip: Option<String> = "clusterIP",
        pub ports: Vec<ServicePort> = "ports",
        pub external_name: Option<String> = "externalName",
        pub session_affinity: SessionAffinity = "sessionAffinity" or SessionAffinity::None,
        pub session_affinity_config: Option<SessionAffinityConfig> = "sessionAffinityConfig",
        pub traffic_distribution: Option<String> = "trafficDistribution",
        pub selector: Map<String> = "selector",
    }
}

words! {
    pub enum ServiceType {
        ClusterIp = "ClusterIP",
        NodePort = "NodePort",
        LoadBalancer = "LoadBalancer",
        ExternalName = "ExternalName",
    }
}

words! {
    pub enum SessionAffinity {
        ClientIp = "ClientIP",
        None = "None",
    }
}

record! {
    pub struct SessionAffinityConfig {
        pub client_ip: Option<ClientIpConfig> = "clientIP",
    }
}

record! {
    pub struct ClientIpConfig {
        pub timeout_seconds: Option<i64> = "timeoutSeconds",
    }
}

record! {
    pub struct ServicePort {
        pub name: Option<String> = "name",
        pub protocol: TransportProtocol = "protocol" or TransportProtocol::Tcp,
        pub port: Port = "port",
        /// A number or the name of a container's port; only without EndpointSlices is it asked for.
        pub target_port: Option<TargetPort> = "targetPort",
        pub app_protocol: Option<String> = "appProtocol",
    }
}

words! {
    pub enum TransportProtocol {
        Tcp = "TCP",
        Udp = "UDP",
        Sctp = "SCTP",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    Number(u16),
    Name(String),
}

impl Read for TargetPort {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        if let Value::Text(name) = &node.value {
            return Some(Self::Name(name.as_ref().to_owned()));
        }
        Port::read(node, at).map(|port| Self::Number(crate::scalar::port_number(port)))
    }
}

record! {
    pub struct EndpointSliceSpec {
        pub address_type: EndpointAddressType = "addressType",
        pub endpoints: Vec<EndpointEntry> = "endpoints",
        pub ports: Vec<EndpointPort> = "ports",
    }
}

words! {
    pub enum EndpointAddressType {
        Ipv4 = "IPv4",
        Ipv6 = "IPv6",
        Fqdn = "FQDN",
    }
}

record! {
    pub struct EndpointEntry {
        pub addresses: Vec<String> = "addresses",
        pub conditions: Option<EndpointConditions> = "conditions",
        pub zone: Option<String> = "zone",
    }
}

record! {
    /// What is not said counts as good: ready, serving, not terminating.
    pub struct EndpointConditions {
        pub ready: Option<bool> = "ready",
        pub serving: Option<bool> = "serving",
        pub terminating: Option<bool> = "terminating",
    }
}

record! {
    pub struct EndpointPort {
        pub name: Option<String> = "name",
        pub protocol: TransportProtocol = "protocol" or TransportProtocol::Tcp,
        pub port: Option<Port> = "port",
    }
}

impl EndpointEntry {
    /// The addresses that are IP addresses.
    pub fn ip_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().filter_map(|address| address.parse().ok())
    }
}

/// The content of a Secret. It is never shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretSpec {
    pub kind: String,
    pub data: Map<Vec<u8>>,
}

impl std::fmt::Debug for SecretSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretSpec").field("keys", &self.data.keys()).finish_non_exhaustive()
    }
}

impl Read for SecretSpec {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        at.fields(node)?;
        let kind = at.field(node, "type", Some("Opaque".to_owned()));
        let data: Option<Map<Base64>> = at.field(node, "data", None);
        let plain: Option<Map<String>> = at.field(node, "stringData", None);
        let mut data: Map<Vec<u8>> = data?.into_iter().map(|(key, value)| (key, value.0)).collect();
        data.extend(plain?.into_iter().map(|(key, value)| (key, value.into_bytes())));
        Some(Self { kind: kind?, data })
    }
}

record! {
    pub struct ConfigMapSpec {
        pub data: Map<String> = "data",
        pub binary_data: Map<Base64> = "binaryData",
    }
}

impl ConfigMapSpec {
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let text = self.data.get(key).map(String::as_bytes);
        text.or_else(|| self.binary_data.get(key).map(|value| value.0.as_slice()))
    }
}

record! {
    pub struct ClusterTrustBundleSpec {
        pub signer_name: Option<String> = "signerName",
        pub trust_bundle: String = "trustBundle",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl Read for Base64 {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let text = text(node, at)?;
        let compact: String = text.split_ascii_whitespace().collect();
        match base64::engine::general_purpose::STANDARD.decode(compact) {
            Ok(bytes) => Some(Self(bytes)),
            Err(error) => {
                at.wrong(
                    "base64",
                    node,
                    format!("`{}` is not base64: {error}", shorten(text)),
                    "encode it with `base64 -w0`, or write plain text under `stringData`",
                );
                None
            }
        }
    }
}
