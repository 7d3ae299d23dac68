//! The Services in front of a data plane.

use serde_json::{Value as Json, json};
use tidegate_api::parameters::ExternalTrafficPolicy;
use tidegate_plan::Transport;

use super::drift::projection;
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

/// The ports of a Service as it is, without those that are not the Gateway's; `None`: it has none such. Applying alone
/// leaves what somebody else added, and a port that is open by hand is one that no Gateway speaks of.
pub(super) fn without_others(there: &Json, managed: &Managed) -> Option<Vec<Json>> {
    if managed.kind != ManagedKind::Service {
        return None;
    }
    let wanted = managed.body["spec"]["ports"].as_array()?;
    let is_ours = |port: &&Json| wanted.iter().any(|wanted| projection(port, wanted) == *wanted);
    let ports = there["spec"]["ports"].as_array()?;
    let ours: Vec<Json> = ports.iter().filter(is_ours).cloned().collect();
    // Where the API server made something else of ours, there is no telling whose is whose.
    (ours.len() == wanted.len() && ours.len() < ports.len()).then_some(ours)
}

fn service_port(port: u16, transport: Transport) -> Json {
    let (prefix, protocol) = match transport {
        Transport::Tcp => ("tcp", "TCP"),
        Transport::Udp => ("udp", "UDP"),
    };
    json!({"name": format!("{prefix}-{port}"), "port": port, "protocol": protocol, "targetPort": port})
}

#[cfg(test)]
mod tests {
    use tidegate_plan::ObjectName;

    use super::*;

    #[test]
    fn ports_that_somebody_added_are_told_from_ours() {
        let ours = service_port(80, Transport::Tcp);
        let name = ObjectName::new("shop", "tidegate-web");
        let body = json!({"spec": {"ports": [ours]}});
        let managed = Managed { kind: ManagedKind::Service, name: name.clone(), body: body.clone() };
        let mut given = ours.clone();
        given["nodePort"] = 31000.into();
        let other = json!({"name": "other", "port": 99, "protocol": "TCP", "targetPort": 99});
        let there = |ports: &[&Json]| json!({"spec": {"ports": ports}});
        assert_eq!(without_others(&there(&[&given, &other]), &managed), Some(vec![given.clone()]));
        assert_eq!(without_others(&there(&[&given]), &managed), None);
        assert_eq!(without_others(&there(&[&other]), &managed), None);
        let deployment = Managed { kind: ManagedKind::Deployment, name, body };
        assert_eq!(without_others(&there(&[&given, &other]), &deployment), None);
    }
}
