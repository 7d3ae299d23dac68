//! How the data plane of a Gateway is reached, and what addresses that gives.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value as Json;
use tidegate_api::parameters::ExposureType;
use tidegate_api::status::{Reason, StatusAddress};
use tidegate_plan::ObjectName;
use tidegate_translate::Infrastructure;

use super::names;

/// As many as a status takes.
pub(crate) const MAX_ADDRESSES: usize = 16;

/// One Service for a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exposure {
    pub(crate) service: String,
    pub(crate) way: Way,
    /// The address that was asked for.
    pub(crate) ip: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    LoadBalancer,
    NodePort,
    ClusterIp,
    /// No address of its own: those of the nodes that the data plane is on.
    Nodes,
}

/// The Services that a Gateway needs: one for each address that it asks for, or one.
pub(crate) fn exposures(gateway: &ObjectName, asked: &Infrastructure) -> BTreeSet<Exposure> {
    let name = &*gateway.name;
    let workload = asked.parameters.workload.as_ref();
    if workload.and_then(|workload| workload.host_network) == Some(true) {
        return BTreeSet::from([Exposure { service: names::nodes(name), way: Way::Nodes, ip: None }]);
    }
    let way = match asked.parameters.service.as_ref().and_then(|service| service.kind) {
        None | Some(ExposureType::LoadBalancer) => Way::LoadBalancer,
        Some(ExposureType::NodePort) => Way::NodePort,
        Some(ExposureType::ClusterIp) => Way::ClusterIp,
    };
    let any = Exposure { service: names::plane(name), way, ip: None };
    let exposures = asked.addresses.iter().map(|address| match (address.ip, address.in_cluster) {
        // Ports of nodes are the same on all of them: there is no Service for one of their addresses.
        (Some(_), false) if way == Way::NodePort => any.clone(),
        (Some(ip), in_cluster) => Exposure {
            service: names::for_address(name, ip),
            way: if in_cluster { Way::ClusterIp } else { way },
            ip: Some(ip),
        },
        (None, true) if way != Way::ClusterIp => {
            Exposure { service: names::in_cluster(name), way: Way::ClusterIp, ip: None }
        }
        (None, _) => any.clone(),
    });
    let exposures: BTreeSet<Exposure> = exposures.collect();
    if exposures.is_empty() { BTreeSet::from([any]) } else { exposures }
}

/// The addresses that a Gateway has, and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) found: Vec<StatusAddress>,
    pub(crate) fault: Option<(Reason, String)>,
}

/// What there is to reach the data planes of a Gateway by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached<'a> {
    /// By name.
    pub(crate) services: &'a BTreeMap<&'a str, &'a Json>,
    /// Addresses of the ready Pods.
    pub(crate) pods: &'a BTreeSet<IpAddr>,
    /// Addresses of the nodes that these are on.
    pub(crate) nodes: &'a [IpAddr],
    /// What it has been given out of a pool, where there is one.
    pub(crate) pool: Option<&'a [IpAddr]>,
}

pub(crate) fn addresses(
    exposures: &BTreeSet<Exposure>,
    asked: &Infrastructure,
    reached: &Reached<'_>,
) -> Addresses {
    let mut found: Vec<StatusAddress> = Vec::new();
    let mut unusable = Vec::new();
    let mut waiting = Vec::new();
    for exposure in exposures {
        let service = reached.services.get(&*exposure.service).copied().unwrap_or(&Json::Null);
        let given = match exposure.way {
            Way::LoadBalancer => ingress(service),
            Way::ClusterIp => cluster_ips(service),
            Way::NodePort => reached.nodes.iter().copied().map(address).collect(),
            Way::Nodes => match reached.pool {
                Some(given) => given.iter().copied().map(address).collect(),
                None => reached.pods.iter().copied().map(address).collect(),
            },
        };
        let wanted: Vec<StatusAddress> = match exposure.way {
            // One Service has all addresses of nodes.
            Way::NodePort | Way::Nodes => asked
                .addresses
                .iter()
                .filter(|asked| !asked.in_cluster)
                .filter_map(|asked| asked.ip)
                .collect(),
            Way::LoadBalancer | Way::ClusterIp => exposure.ip.into_iter().collect::<Vec<_>>(),
        }
        .into_iter()
        .map(address)
        .collect();
        if given.is_empty() && wanted.is_empty() {
            waiting.push(match reached.pool {
                Some(_) if exposure.way == Way::Nodes => "all addresses of the pool are taken".to_owned(),
                _ => format!("Service {} has no address yet", exposure.service),
            });
        } else if wanted.is_empty() {
            found.extend(given);
        } else {
            let (usable, others): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|ip| given.contains(ip));
            found.extend(usable);
            unusable.extend(others.into_iter().map(|ip| ip.value));
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|address| seen.insert(address.value.clone()));
    found.truncate(MAX_ADDRESSES);
    let fault = if !unusable.is_empty() {
        let message = format!("the Gateway cannot have these addresses: {}", unusable.join(", "));
        Some((Reason::AddressNotUsable, message))
    } else if !waiting.is_empty() {
        Some((Reason::AddressNotAssigned, waiting.join("; ")))
    } else {
        None
    };
    Addresses { found, fault }
}

fn address(ip: IpAddr) -> StatusAddress {
    StatusAddress { kind: "IPAddress".to_owned(), value: ip.to_string() }
}

fn ingress(service: &Json) -> Vec<StatusAddress> {
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    ingress
        .filter_map(|entry| match (entry["ip"].as_str(), entry["hostname"].as_str()) {
            (Some(ip), _) if !ip.is_empty() => ip.parse().ok().map(address),
            (_, Some(name)) if !name.is_empty() => {
                Some(StatusAddress { kind: "Hostname".to_owned(), value: name.to_owned() })
            }
            _ => None,
        })
        .collect()
}

fn cluster_ips(service: &Json) -> Vec<StatusAddress> {
    let ips = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    ips.filter_map(|ip| ip.as_str()?.parse().ok()).map(address).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_api::parameters::{GatewayParametersSpec, ServiceParameters, Workload, merged};
    use tidegate_translate::AskedAddress;

    use super::*;

    fn asked(addresses: &[(Option<&str>, bool)], parameters: GatewayParametersSpec) -> Infrastructure {
        let addresses = addresses
            .iter()
            .map(|(ip, in_cluster)| AskedAddress {
                ip: ip.map(|ip| ip.parse().expect("an IP")),
                in_cluster: *in_cluster,
            })
            .collect();
        Infrastructure {
            uid: "u".to_owned(),
            addresses,
            parameters,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }

    fn plain(addresses: &[(Option<&str>, bool)]) -> Infrastructure {
        asked(addresses, merged(None, None))
    }

    fn gateway() -> ObjectName {
        ObjectName::new("shop", "web")
    }

    fn balancer(ips: &[&str]) -> Json {
        let ingress: Vec<Json> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        json!({"status": {"loadBalancer": {"ingress": ingress}}})
    }

    /// The addresses of a Gateway whose Services, in the order of their names, are these.
    fn told(asked: &Infrastructure, services: &[Json], nodes: &[&str]) -> (Vec<String>, Option<Reason>) {
        let exposures = exposures(&gateway(), asked);
        let services = exposures.iter().map(|exposure| exposure.service.as_str()).zip(services).collect();
        let nodes: Vec<IpAddr> = nodes.iter().map(|ip| ip.parse().expect("an IP")).collect();
        let pods = nodes.iter().copied().collect();
        let reached = Reached { services: &services, pods: &pods, nodes: &nodes, pool: None };
        let addresses = addresses(&exposures, asked, &reached);
        let found = addresses.found.into_iter().map(|address| format!("{} {}", address.kind, address.value));
        (found.collect(), addresses.fault.map(|(reason, _)| reason))
    }

    #[test]
    fn without_a_wish_there_is_one_service() {
        for wish in [plain(&[]), plain(&[(None, false)])] {
            let all = exposures(&gateway(), &wish);
            assert_eq!(
                all,
                BTreeSet::from([Exposure {
                    service: "tidegate-web".to_owned(),
                    way: Way::LoadBalancer,
                    ip: None
                }])
            );
            assert_eq!(told(&wish, &[Json::Null], &[]), (vec![], Some(Reason::AddressNotAssigned)));
            assert_eq!(told(&wish, &[balancer(&[])], &[]), (vec![], Some(Reason::AddressNotAssigned)));
            assert_eq!(
                told(&wish, &[balancer(&["192.0.2.1"])], &[]),
                (vec!["IPAddress 192.0.2.1".to_owned()], None)
            );
        }
    }

    #[test]
    fn a_load_balancer_may_have_a_name() {
        let service = json!({"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}});
        assert_eq!(told(&plain(&[]), &[service], &[]), (vec!["Hostname lb.example.com".to_owned()], None));
    }

    #[test]
    fn each_address_has_a_service_and_the_unusable_ones_are_told() {
        let wish = plain(&[(Some("192.0.2.1"), false), (Some("10.1.2.3"), false)]);
        let all = exposures(&gateway(), &wish);
        assert_eq!(all.len(), 2);
        let services: Vec<Json> = all
            .iter()
            .map(|exposure| {
                balancer(if exposure.ip == Some(IpAddr::from([192, 0, 2, 1])) { &["192.0.2.1"] } else { &[] })
            })
            .collect();
        let usable = vec!["IPAddress 192.0.2.1".to_owned()];
        assert_eq!(told(&wish, &services, &[]), (usable.clone(), Some(Reason::AddressNotUsable)));

        let wish = plain(&[(Some("192.0.2.1"), false)]);
        assert_eq!(told(&wish, &[balancer(&["192.0.2.1"])], &[]), (usable, None));
        assert_eq!(told(&wish, &[balancer(&["192.0.2.9"])], &[]), (vec![], Some(Reason::AddressNotUsable)));
    }

    #[test]
    fn an_address_inside_the_cluster_is_a_cluster_ip() {
        let wish = plain(&[(None, true)]);
        let all = exposures(&gateway(), &wish);
        assert_eq!(all.iter().map(|exposure| exposure.way).collect::<Vec<_>>(), [Way::ClusterIp]);
        let service = json!({"spec": {"clusterIPs": ["10.0.0.7", "fd00::7"]}});
        assert_eq!(told(&wish, &[service], &[]).0, ["IPAddress 10.0.0.7", "IPAddress fd00::7"]);
        assert_eq!(exposures(&gateway(), &plain(&[(None, true), (None, false)])).len(), 2);
    }

    #[test]
    fn parameters_choose_the_type() {
        let service = ServiceParameters {
            kind: Some(ExposureType::ClusterIp),
            load_balancer_class: None,
            external_traffic_policy: None,
            annotations: BTreeMap::new(),
            load_balancer_source_ranges: None,
        };
        let parameters = GatewayParametersSpec { service: Some(service), ..merged(None, None) };
        let wish = asked(&[(None, true)], parameters);
        let all = exposures(&gateway(), &wish);
        assert_eq!(
            all.iter().map(|one| (one.way, one.service.as_str())).collect::<Vec<_>>(),
            [(Way::ClusterIp, "tidegate-web")]
        );
    }

    #[test]
    fn on_ports_of_nodes_the_nodes_are_the_addresses() {
        let service = ServiceParameters {
            kind: Some(ExposureType::NodePort),
            load_balancer_class: None,
            external_traffic_policy: None,
            annotations: BTreeMap::new(),
            load_balancer_source_ranges: None,
        };
        let parameters = GatewayParametersSpec { service: Some(service), ..merged(None, None) };
        let service = json!({"spec": {"clusterIPs": ["10.0.0.7"]}});
        let wish = asked(&[], parameters.clone());
        let both = vec!["IPAddress 192.0.2.1".to_owned(), "IPAddress 192.0.2.2".to_owned()];
        assert_eq!(told(&wish, std::slice::from_ref(&service), &["192.0.2.1", "192.0.2.2"]), (both, None));
        assert_eq!(told(&wish, std::slice::from_ref(&service), &[]).1, Some(Reason::AddressNotAssigned));
        let wish = asked(&[(Some("192.0.2.2"), false), (Some("192.0.2.3"), false)], parameters.clone());
        assert_eq!(exposures(&gateway(), &wish).len(), 1);
        assert_eq!(
            told(&wish, std::slice::from_ref(&service), &["192.0.2.1", "192.0.2.2"]),
            (vec!["IPAddress 192.0.2.2".to_owned()], Some(Reason::AddressNotUsable))
        );
        let wish = asked(&[(Some("192.0.2.2"), false), (None, true)], parameters);
        let (found, fault) = told(&wish, &[service.clone(), service], &["192.0.2.2"]);
        assert_eq!((found.len(), fault), (2, None), "{found:?}");
    }

    fn in_the_hosts_network() -> GatewayParametersSpec {
        let workload = Workload {
            kind: None,
            replicas: None,
            host_network: Some(true),
            address_pool: None,
            resources: None,
            node_selector: BTreeMap::new(),
            tolerations: None,
            affinity: None,
            priority_class_name: None,
            termination_delay: None,
            keep_plan: None,
            image_pull_secrets: None,
        };
        GatewayParametersSpec { workload: Some(workload), ..merged(None, None) }
    }

    #[test]
    fn in_the_hosts_network_the_nodes_are_the_addresses() {
        let parameters = in_the_hosts_network();
        let wish = asked(&[], parameters.clone());
        assert_eq!(told(&wish, &[Json::Null], &["192.0.2.1", "192.0.2.2"]).0.len(), 2);
        assert_eq!(told(&wish, &[Json::Null], &[]).1, Some(Reason::AddressNotAssigned));
        let wish = asked(&[(Some("192.0.2.2"), false), (Some("192.0.2.3"), false)], parameters);
        let (found, fault) = told(&wish, &[Json::Null], &["192.0.2.1", "192.0.2.2"]);
        assert_eq!((found, fault), (vec!["IPAddress 192.0.2.2".to_owned()], Some(Reason::AddressNotUsable)));
    }

    #[test]
    fn a_pool_takes_the_place_of_the_nodes() {
        let parameters = in_the_hosts_network();
        let pods = BTreeSet::from([IpAddr::from([192, 0, 2, 1])]);
        let told = |addresses: &[(Option<&str>, bool)], given: &[IpAddr]| {
            let wish = asked(addresses, parameters.clone());
            let reached = Reached { services: &BTreeMap::new(), pods: &pods, nodes: &[], pool: Some(given) };
            let all = super::addresses(&exposures(&gateway(), &wish), &wish, &reached);
            (all.found.into_iter().map(|each| each.value).collect::<Vec<_>>(), all.fault.map(|(why, _)| why))
        };
        let given = [IpAddr::from([198, 51, 100, 1])];
        assert_eq!(told(&[], &given), (vec!["198.51.100.1".to_owned()], None));
        assert_eq!(told(&[], &[]), (vec![], Some(Reason::AddressNotAssigned)));
        let wish = &[(Some("192.0.2.1"), false)];
        assert_eq!(told(wish, &[]), (vec![], Some(Reason::AddressNotUsable)), "a node's own is not in it");
    }
}
