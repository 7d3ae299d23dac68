//! `gateway.tidegate.io/endpoints: "127.0.0.1:8080, [::1]:8080"` on a Service stands for its EndpointSlices.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::core::{
    EndpointAddressType, EndpointEntry, EndpointPort, EndpointSlice, EndpointSliceSpec, Service, ServicePort,
    ServiceType,
};
use crate::problem::Problem;
use crate::read::List;
use crate::scalar::{Port, quote};
use crate::tree::Node;
use crate::{Kind, Meta, ObjectKey};

use super::wrong;

/// For files only: where a Service's endpoints are.
pub const ENDPOINTS_ANNOTATION: &str = "gateway.tidegate.io/endpoints";

/// The EndpointSlices that the annotation of a Service stands for, and what is wrong with it; `node` is where the
/// Service was read from.
///
/// A slice has one kind of address and one set of ports, so that there is one for each address family, port of
/// the Service and port of the endpoints. Where something is wrong there are none: half of the endpoints would
/// be worse than a message.
#[must_use]
pub fn endpoint_slices(service: &Service, node: &Node) -> (Vec<EndpointSlice>, Vec<Problem>) {
    let Some(annotation) = service.meta.annotation(ENDPOINTS_ANNOTATION) else { return Default::default() };
    let key = ObjectKey { kind: Kind::Service, name: service.meta.object_name() };
    let mut problems = Vec::new();
    let mut groups: BTreeMap<(usize, bool, u16), Vec<IpAddr>> = BTreeMap::new();
    for entry in annotation.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        match parse(entry, service) {
            Ok((port, address)) => {
                let group = groups.entry((port, address.is_ipv6(), address.port())).or_default();
                group.push(address.ip());
            }
            Err((message, help)) => {
                problems.push(wrong(
                    &key,
                    node,
                    ENDPOINTS_ANNOTATION,
                    "endpoints_annotation",
                    &message,
                    &help,
                ));
            }
        }
    }
    if !problems.is_empty() {
        return (Vec::new(), problems);
    }
    let parts =
        groups.iter().flat_map(|(group, addresses)| addresses.chunks(1000).map(move |part| (group, part)));
    let slices = parts.enumerate().filter_map(|(index, (group, part))| slice(service, index, *group, part));
    (slices.collect(), problems)
}

type Wrong = (String, String);

/// One entry: which port of the Service, and where it leads.
fn parse(entry: &str, service: &Service) -> Result<(usize, SocketAddr), Wrong> {
    if service.spec.kind == ServiceType::ExternalName {
        return Err((
            "a Service of type ExternalName has no endpoints".to_owned(),
            "remove the annotation".to_owned(),
        ));
    }
    let (name, address) = match entry.split_once('=') {
        Some((name, address)) => (Some(name.trim()), address.trim()),
        None => (None, entry),
    };
    let port = port_of(name, address, &service.spec.ports)?;
    let address: SocketAddr = address.parse().map_err(|_| {
        let message = format!("{} is not an IP address with a port", quote(address));
        (message, "write 127.0.0.1:8080 or [::1]:8080".to_owned())
    })?;
    if address.port() == 0 || address.ip().is_unspecified() {
        let message = format!("nothing can be reached at {address}");
        return Err((message, "write the address and port that the backend listens on".to_owned()));
    }
    Ok((port, address))
}

fn port_of(name: Option<&str>, address: &str, ports: &[ServicePort]) -> Result<usize, Wrong> {
    let named =
        |wanted: &str| ports.iter().position(|port| port.name.as_deref().unwrap_or_default() == wanted);
    let names: Vec<&str> = ports.iter().filter_map(|port| port.name.as_deref()).collect();
    match (name, ports) {
        (_, []) => {
            Err(("the Service has no port for these endpoints".to_owned(), "write `ports:`".to_owned()))
        }
        (None, [_]) => Ok(0),
        (None, _) => {
            let message =
                format!("the Service has several ports, and {} does not say for which it is", quote(address));
            Err((
                message,
                format!("write the port's name before it: {}={address}", names.first().unwrap_or(&"http")),
            ))
        }
        (Some(name), _) => named(name).ok_or_else(|| {
            let message = format!("the Service has no port with the name {}", quote(name));
            let help = if names.is_empty() {
                "leave the name out".to_owned()
            } else {
                format!("write one of {}", names.join(", "))
            };
            (message, help)
        }),
    }
}

fn slice(
    service: &Service,
    index: usize,
    (port, is_ipv6, number): (usize, bool, u16),
    addresses: &[IpAddr],
) -> Option<EndpointSlice> {
    let service_port = service.spec.ports.get(port)?;
    let name: Arc<str> = format!("{}-endpoints-{index}", service.meta.name).into();
    let mut meta = Meta::new(Arc::clone(&service.meta.namespace), name);
    meta.labels.insert("kubernetes.io/service-name".to_owned(), service.meta.name.to_string());
    let endpoint = |address: &IpAddr| {
        let addresses = List::new(vec![address.to_string()])?;
        Some(EndpointEntry { addresses, conditions: None, zone: None, node_name: None, target: None })
    };
    let port = EndpointPort {
        name: service_port.name.clone(),
        protocol: service_port.protocol,
        port: Port::new(number.into()),
    };
    let spec = EndpointSliceSpec {
        address_type: if is_ipv6 { EndpointAddressType::Ipv6 } else { EndpointAddressType::Ipv4 },
        endpoints: List::new(addresses.iter().filter_map(endpoint).collect())?,
        ports: List::new(vec![port])?,
    };
    Some(EndpointSlice { meta, spec })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;
    use crate::folder::tests::read;

    const ONE: &str = "[{port: 80, protocol: UDP}]";
    const TWO: &str = "[{port: 80, name: http}, {port: 443, name: https}]";

    fn slices(ports: &str, annotation: &str) -> (Vec<String>, Vec<String>) {
        let source = format!(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: shop\n  annotations:\n    \
             gateway.tidegate.io/endpoints: \"{annotation}\"\nspec: {{ports: {ports}, clusterIP: None}}\n"
        );
        let (object, node) = read(&source).remove(0);
        let Object::Service(service) = object else { panic!("{object:?}") };
        let (slices, problems) = endpoint_slices(&service, &node);
        for problem in &problems {
            assert!(source[problem.span.start..problem.span.end].starts_with('"'), "{problem:?}");
        }
        let shown = slices.iter().map(|slice| {
            assert_eq!(slice.meta.labels["kubernetes.io/service-name"], "web");
            let addresses: Vec<String> = slice
                .spec
                .endpoints
                .iter()
                .flat_map(EndpointEntry::ip_addresses)
                .map(|ip| ip.to_string())
                .collect();
            let port = &slice.spec.ports[0];
            let (name, number) = (port.name.as_deref().unwrap_or("-"), port.port.map_or(0, Port::get));
            let kind = slice.spec.address_type;
            format!(
                "{}: {kind} {} {name} {} {number}",
                slice.meta.object_name(),
                addresses.join(" "),
                port.protocol
            )
        });
        (shown.collect(), problems.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn one_slice_for_each_family_and_port() {
        assert_eq!(
            slices(ONE, "127.0.0.1:8080, [::1]:8080,127.0.0.2:8080").0,
            [
                "shop/web-endpoints-0: IPv4 127.0.0.1 127.0.0.2 - UDP 8080",
                "shop/web-endpoints-1: IPv6 ::1 - UDP 8080"
            ]
        );
        assert_eq!(
            slices(ONE, "127.0.0.1:8080, 127.0.0.1:8081").0,
            [
                "shop/web-endpoints-0: IPv4 127.0.0.1 - UDP 8080",
                "shop/web-endpoints-1: IPv4 127.0.0.1 - UDP 8081"
            ]
        );
        assert_eq!(
            slices(TWO, "http=127.0.0.1:8080, https = 127.0.0.1:8443").0,
            [
                "shop/web-endpoints-0: IPv4 127.0.0.1 http TCP 8080",
                "shop/web-endpoints-1: IPv4 127.0.0.1 https TCP 8443"
            ]
        );
        assert_eq!(slices(ONE, ""), (vec![], vec![]));
    }

    #[test]
    fn what_cannot_be_an_endpoint() {
        for (ports, annotation, message) in [
            (ONE, "localhost:8080", "`localhost:8080` is not an IP address with a port"),
            (ONE, "127.0.0.1", "`127.0.0.1` is not an IP address with a port"),
            (ONE, "::1:8080", "`::1:8080` is not an IP address with a port"),
            (ONE, "127.0.0.1:0", "nothing can be reached at 127.0.0.1:0"),
            (ONE, "0.0.0.0:80", "nothing can be reached at 0.0.0.0:80"),
            (ONE, "http=127.0.0.1:80", "the Service has no port with the name `http`"),
            (TWO, "dns=127.0.0.1:80", "the Service has no port with the name `dns`"),
            (
                TWO,
                "127.0.0.1:80",
                "the Service has several ports, and `127.0.0.1:80` does not say for which it is",
            ),
            ("[]", "127.0.0.1:80", "the Service has no port for these endpoints"),
        ] {
            assert_eq!(slices(ports, annotation), (vec![], vec![message.to_owned()]), "{annotation}");
        }
        assert_eq!(slices(ONE, "127.0.0.1:80, a, b").1.len(), 2);
    }
}
