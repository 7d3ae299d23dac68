//! Services: what a backend reference points to.

use crate::form::{is_label, is_label_value, is_port_name, is_qualified_name, is_subdomain};
use crate::kind::{Resource, Spec};
use crate::meta::NameForm;
use crate::read::{At, Map, Place, Read, Whole, record, words};
use crate::rules::repeated;
use crate::scalar::{Port, port_number, quote, shorten};
use crate::tree::{Node, Value};

pub type Service = Resource<ServiceSpec>;

impl Spec for ServiceSpec {
    const KIND: &'static str = "Service";
    const GROUP: &'static str = "";
    const VERSIONS: &'static [&'static str] = &["v1"];
    /// Older API servers also want a letter first; newer ones may not.
    const NAME: NameForm = NameForm::Label;
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
    rules: [
        service_has_ports("type", "clusterIP", "ports?"),
        service_ports_have_names("ports[*].name"),
        service_port_names_are_unique("ports[].name"),
        service_ports_are_distinct("ports[].port", "ports[].protocol"),
        external_name_is_a_hostname("type", "externalName"),
        external_name_has_no_cluster_ip("type", "clusterIP"),
        cluster_ip_is_an_address("clusterIP"),
        affinity_config_goes_with_client_ip("sessionAffinity"),
        traffic_distribution_is_known("trafficDistribution"),
        service_selector_has_labels("selector"),
    ]
    others: [
        "allocateLoadBalancerNodePorts",
        "clusterIPs",
        "externalIPs",
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "internalTrafficPolicy",
        "ipFamilies",
        "ipFamilyPolicy",
        "loadBalancerClass",
        "loadBalancerIP",
        "loadBalancerSourceRanges",
        "publishNotReadyAddresses",
    ]
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
        /// Up to a day.
        pub timeout_seconds: Option<Whole<1, 86400>> = "timeoutSeconds",
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
    rules: [service_port_name_is_a_label("name"), app_protocol_is_a_qualified_name("appProtocol")]
    others: ["nodePort"]
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
        let Value::Text(name) = &node.value else {
            return Port::read(node, at).map(|port| Self::Number(port_number(port)));
        };
        if !is_port_name(name) {
            at.wrong(
                "form",
                node,
                format!("{} is neither a port nor the name of one", quote(name)),
                "write a number without quotes, or at most 15 lower-case letters, digits and single `-` with a letter",
            );
            return None;
        }
        Some(Self::Name(name.as_ref().to_owned()))
    }

    fn placeholder() -> Self {
        Self::Name(String::new())
    }
}

fn service_has_ports(spec: &ServiceSpec, place: &mut Place<'_>) {
    let headless = spec.cluster_ip.as_deref() == Some("None");
    if spec.ports.is_empty() && spec.kind != ServiceType::ExternalName && !headless {
        place.wrong("ports", "a Service needs a port", "write `ports:` with a `port:` below it");
    }
}

fn service_ports_have_names(spec: &ServiceSpec, place: &mut Place<'_>) {
    for (index, port) in spec.ports.iter().enumerate() {
        if spec.ports.len() > 1 && port.name.as_deref().unwrap_or_default().is_empty() {
            place.wrong(
                &format!("ports[{index}]"),
                "where there are several ports, each has a name",
                "write `name:`, such as http",
            );
        }
    }
}

fn service_port_names_are_unique(spec: &ServiceSpec, place: &mut Place<'_>) {
    for (index, first, port) in repeated(&spec.ports, |port| &port.name) {
        if let Some(name) = &port.name {
            place.wrong(
                &format!("ports[{index}].name"),
                format!("the name `{name}` is taken by ports[{first}]"),
                "give each port a name of its own",
            );
        }
    }
}

fn service_ports_are_distinct(spec: &ServiceSpec, place: &mut Place<'_>) {
    for (index, first, port) in repeated(&spec.ports, |port| (port.port, port.protocol)) {
        place.wrong(
            &format!("ports[{index}].port"),
            format!("port {} for {} is that of ports[{first}] too", port.port.get(), port.protocol),
            "remove one of them, or change its port or protocol",
        );
    }
}

fn external_name_is_a_hostname(spec: &ServiceSpec, place: &mut Place<'_>) {
    if spec.kind != ServiceType::ExternalName {
        return;
    }
    let name = spec.external_name.as_deref().unwrap_or_default();
    let plain = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        place.wrong(
            "externalName",
            "a Service of type ExternalName needs a name to lead to",
            "write `externalName:` with a name such as db.example.com",
        );
    } else if plain.len() > 253 || !is_subdomain(plain) {
        place.wrong(
            "externalName",
            format!("{} is not a hostname", quote(name)),
            "write a name such as db.example.com, in lower case, without a port or scheme",
        );
    }
}

fn external_name_has_no_cluster_ip(spec: &ServiceSpec, place: &mut Place<'_>) {
    let has_ip = spec.cluster_ip.as_deref().is_some_and(|ip| !ip.is_empty());
    if spec.kind == ServiceType::ExternalName && has_ip {
        place.wrong("clusterIP", "a Service of type ExternalName has no cluster IP", "remove `clusterIP`");
    }
}

fn cluster_ip_is_an_address(spec: &ServiceSpec, place: &mut Place<'_>) {
    let Some(ip) = spec.cluster_ip.as_deref() else { return };
    if !ip.is_empty() && ip != "None" && ip.parse::<std::net::IpAddr>().is_err() {
        place.wrong(
            "clusterIP",
            format!("{} is not an IP address", quote(ip)),
            "write `None` for a headless Service, or leave it out",
        );
    }
}

fn affinity_config_goes_with_client_ip(spec: &ServiceSpec, place: &mut Place<'_>) {
    if spec.session_affinity == SessionAffinity::None && spec.session_affinity_config.is_some() {
        place.wrong(
            "sessionAffinityConfig",
            "there is no session affinity to configure",
            "write `sessionAffinity: ClientIP`, or remove this",
        );
    }
}

fn traffic_distribution_is_known(spec: &ServiceSpec, place: &mut Place<'_>) {
    const KNOWN: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(wanted) = spec.traffic_distribution.as_deref().filter(|wanted| !KNOWN.contains(wanted)) {
        place.wrong(
            "trafficDistribution",
            format!("{} is not a distribution of traffic", quote(wanted)),
            format!("write one of {}", KNOWN.join(", ")),
        );
    }
}

fn service_selector_has_labels(spec: &ServiceSpec, place: &mut Place<'_>) {
    for (key, value) in &spec.selector {
        if !is_qualified_name(key) || !is_label_value(value) {
            let message =
                format!("`{}: {}` is not a label that a Pod can have", shorten(key), shorten(value));
            place.wrong_key("selector", key, message, "write the labels of the Pods as they are");
        }
    }
}

fn service_port_name_is_a_label(port: &ServicePort, place: &mut Place<'_>) {
    let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) else { return };
    if name.len() > 63 || !is_label(name) {
        place.wrong(
            "name",
            format!("{} is not a name for a port", quote(name)),
            "write at most 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit",
        );
    }
}

fn app_protocol_is_a_qualified_name(port: &ServicePort, place: &mut Place<'_>) {
    let Some(protocol) = port.app_protocol.as_deref().filter(|protocol| !protocol.is_empty()) else { return };
    if !is_qualified_name(protocol) {
        place.wrong(
            "appProtocol",
            format!("{} is not an application protocol", quote(protocol)),
            "write one such as kubernetes.io/h2c, https or example.com/name",
        );
    }
}
