//! EndpointSlices: where the Pods of a Service are.

use std::net::IpAddr;

use crate::form::{is_label, is_subdomain};
use crate::kind::{Resource, Spec};
use crate::read::{List, Place, record, words};
use crate::rules::repeated;
use crate::scalar::{Port, quote};

use super::TransportProtocol;

pub type EndpointSlice = Resource<EndpointSliceSpec>;

impl Spec for EndpointSliceSpec {
    const KIND: &'static str = "EndpointSlice";
    const GROUP: &'static str = "discovery.k8s.io";
    const VERSIONS: &'static [&'static str] = &["v1"];
    const FIELD: Option<&'static str> = None;
}

record! {
    pub struct EndpointSliceSpec {
        pub address_type: EndpointAddressType = "addressType",
        pub endpoints: List<EndpointEntry, 0, 1000> = "endpoints",
        pub ports: List<EndpointPort, 0, 20000> = "ports",
    }
    rules: [
        endpoint_addresses_fit_the_type("addressType", "endpoints[*].addresses[*]"),
        endpoint_addresses_can_be_reached("endpoints[*].addresses[*]"),
        endpoint_port_names_are_unique("ports[].name"),
    ]
    others: ["apiVersion", "kind", "metadata"]
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
        pub addresses: List<String, 1, 100> = "addresses",
        pub conditions: Option<EndpointConditions> = "conditions",
        pub zone: Option<String> = "zone",
        pub node_name: Option<String> = "nodeName",
        pub target: Option<EndpointTarget> = "targetRef",
    }
    others: ["hostname", "hints", "deprecatedTopology"]
}

record! {
    /// What is behind an endpoint.
    pub struct EndpointTarget {
        pub kind: Option<String> = "kind",
        pub name: Option<String> = "name",
    }
    others: ["apiVersion", "namespace", "uid", "resourceVersion", "fieldPath"]
}

impl EndpointEntry {
    /// The addresses that are IP addresses.
    pub fn ip_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().filter_map(|address| address.parse().ok())
    }

    /// The Pod that it is.
    #[must_use]
    pub fn pod(&self) -> Option<&str> {
        let target = self.target.as_ref().filter(|target| target.kind.as_deref() == Some("Pod"))?;
        target.name.as_deref()
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
    rules: [endpoint_port_name_is_a_label("name")]
    others: ["appProtocol"]
}

fn endpoint_addresses_fit_the_type(slice: &EndpointSliceSpec, place: &mut Place<'_>) {
    for (field, address) in addresses(slice) {
        let (fits, example) = match (slice.address_type, address.parse::<IpAddr>()) {
            (EndpointAddressType::Ipv4, ip) => (ip.is_ok_and(|ip| ip.is_ipv4()), "192.0.2.1"),
            (EndpointAddressType::Ipv6, ip) => (ip.is_ok_and(|ip| ip.is_ipv6()), "2001:db8::1"),
            (EndpointAddressType::Fqdn, ip) => {
                (ip.is_err() && address.len() <= 253 && is_subdomain(address), "db.example.com")
            }
        };
        if !fits {
            place.wrong(
                &field,
                format!("{} is not an address of type {}", quote(address), slice.address_type),
                format!(
                    "write one such as {example}; addresses of another type go into another EndpointSlice"
                ),
            );
        }
    }
}

/// The API server also refuses loopback addresses; in files they are welcome.
fn endpoint_addresses_can_be_reached(slice: &EndpointSliceSpec, place: &mut Place<'_>) {
    for (field, address) in addresses(slice) {
        let special = match address.parse() {
            Ok(IpAddr::V4(ip)) if ip.is_unspecified() => "stands for no host",
            Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "stands for no host",
            Ok(IpAddr::V4(ip)) if ip.is_link_local() => "holds on one link only",
            Ok(IpAddr::V6(ip)) if ip.is_unicast_link_local() => "holds on one link only",
            Ok(IpAddr::V4(ip)) if ip.is_multicast() => "is for many hosts at once",
            Ok(IpAddr::V6(ip)) if ip.is_multicast() => "is for many hosts at once",
            _ => continue,
        };
        place.wrong(&field, format!("the address {address} {special}"), "write the address of one host");
    }
}

/// Each address with its path.
fn addresses(slice: &EndpointSliceSpec) -> impl Iterator<Item = (String, &String)> {
    slice.endpoints.iter().enumerate().flat_map(|(endpoint, entry)| {
        entry
            .addresses
            .iter()
            .enumerate()
            .map(move |(index, address)| (format!("endpoints[{endpoint}].addresses[{index}]"), address))
    })
}

fn endpoint_port_names_are_unique(slice: &EndpointSliceSpec, place: &mut Place<'_>) {
    for (index, first, port) in repeated(&slice.ports, |port| port.name.as_deref().unwrap_or_default()) {
        let message = match port.name.as_deref().unwrap_or_default() {
            "" => format!("this port has no name, and neither has ports[{first}]"),
            name => format!("the name `{name}` is taken by ports[{first}]"),
        };
        place.wrong(&format!("ports[{index}]"), message, "give each port the name it has in the Service");
    }
}

fn endpoint_port_name_is_a_label(port: &EndpointPort, place: &mut Place<'_>) {
    let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) else { return };
    if name.len() > 63 || !is_label(name) {
        place.wrong(
            "name",
            format!("{} is not a name for a port", quote(name)),
            "write the name that the port has in the Service",
        );
    }
}
