//! The Services in front of a data plane.

use serde_json::{Value as Json, json};
use tidegate_api::parameters::ExternalTrafficPolicy;
use tidegate_plan::Transport;

use super::exposure::{Exposure, Way};
use super::kind::{Managed, ManagedKind};
use super::objects::Plane;

impl Plane<'_> {
    pub(super) fn service(&self, exposure: &Exposure) -> Managed {
        let parameters = self.parameters().service.as_ref();
        let ports: Vec<Json> =
            self.ports.iter().map(|(port, transport)| service_port(*port, *transport)).collect();
        let mut spec = json!({"selector": self.selector(), "ports": ports});
        spec["type"] = match exposure.way {
            Way::LoadBalancer => "LoadBalancer",
            Way::NodePort => "NodePort",
            Way::ClusterIp | Way::Nodes => "ClusterIP",
        }
        .into();
        match (exposure.way, exposure.ip) {
            (Way::Nodes, _) => spec["clusterIP"] = "None".into(),
            (Way::LoadBalancer, Some(ip)) => spec["loadBalancerIP"] = ip.to_string().into(),
            (Way::NodePort | Way::ClusterIp, Some(ip)) => spec["clusterIP"] = ip.to_string().into(),
            (_, None) => {}
        }
        if let Some(parameters) = parameters {
            if matches!(exposure.way, Way::LoadBalancer | Way::NodePort)
                && let Some(policy) = parameters.external_traffic_policy
            {
                spec["externalTrafficPolicy"] = match policy {
                    ExternalTrafficPolicy::Cluster => "Cluster",
                    ExternalTrafficPolicy::Local => "Local",
                }
                .into();
            }
            if exposure.way == Way::LoadBalancer {
                if let Some(class) = &parameters.load_balancer_class {
                    spec["loadBalancerClass"] = class.as_str().into();
                }
                if let Some(ranges) =
                    parameters.load_balancer_source_ranges.as_ref().filter(|list| !list.is_empty())
                {
                    spec["loadBalancerSourceRanges"] = ranges.iter().map(String::as_str).collect();
                }
            }
        }
        let mut service =
            self.managed(ManagedKind::Service, exposure.service.clone(), json!({ "spec": spec }));
        for (key, value) in parameters.iter().flat_map(|parameters| &parameters.annotations) {
            service.body["metadata"]["annotations"][key] = value.as_str().into();
        }
        service
    }
}

fn service_port(port: u16, transport: Transport) -> Json {
    let (prefix, protocol) = match transport {
        Transport::Tcp => ("tcp", "TCP"),
        Transport::Udp => ("udp", "UDP"),
    };
    json!({"name": format!("{prefix}-{port}"), "port": port, "protocol": protocol, "targetPort": port})
}
