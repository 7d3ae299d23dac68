//! The Service in front of a data plane.

use super::is_network;
use crate::form::{is_label, is_qualified_name};
use crate::meta::KEY_HELP;
use crate::read::{List, Map, Place, record, words};
use crate::scalar::{AnnotationValue, quote};

record! {
    /// The Service in front of a data plane.
    pub struct ServiceParameters {
        pub kind: Option<ExposureType> = "type",
        pub load_balancer_class: Option<String> = "loadBalancerClass",
        pub external_traffic_policy: Option<ExternalTrafficPolicy> = "externalTrafficPolicy",
        pub annotations: Map<AnnotationValue> = "annotations",
        pub load_balancer_source_ranges: Option<List<String, 0, 64>> = "loadBalancerSourceRanges",
    }
    rules: [
        service_annotation_keys("annotations?"),
        load_balancer_class_is_a_name("loadBalancerClass"),
        source_ranges_are_networks("loadBalancerSourceRanges[*]"),
        load_balancer_fields_go_with_its_type("type"),
    ]
}

words! {
    pub enum ExposureType {
        LoadBalancer = "LoadBalancer",
        NodePort = "NodePort",
        ClusterIp = "ClusterIP",
    }
}

words! {
    pub enum ExternalTrafficPolicy {
        Cluster = "Cluster",
        Local = "Local",
    }
}

fn service_annotation_keys(service: &ServiceParameters, place: &mut Place<'_>) {
    for key in service.annotations.keys().filter(|key| !is_qualified_name(key)) {
        place.wrong_key(
            "annotations",
            key,
            format!("{} is not a key for an annotation", quote(key)),
            KEY_HELP,
        );
    }
}

fn load_balancer_class_is_a_name(service: &ServiceParameters, place: &mut Place<'_>) {
    if let Some(name) =
        service.load_balancer_class.as_ref().filter(|name| !is_qualified_name(name) && !is_label(name))
    {
        place.wrong(
            "loadBalancerClass",
            format!("{} is not a class of load balancers", quote(name)),
            "write one such as example.com/internal",
        );
    }
}

fn source_ranges_are_networks(service: &ServiceParameters, place: &mut Place<'_>) {
    for (index, range) in service.load_balancer_source_ranges.iter().flatten().enumerate() {
        if !is_network(range) {
            place.wrong(
                &format!("loadBalancerSourceRanges[{index}]"),
                format!("{} is not a range of addresses", quote(range)),
                "write one such as 192.0.2.0/24 or 2001:db8::/32",
            );
        }
    }
}

fn load_balancer_fields_go_with_its_type(service: &ServiceParameters, place: &mut Place<'_>) {
    let is_internal = matches!(service.kind, Some(ExposureType::ClusterIp));
    for (field, written) in [
        ("loadBalancerClass", service.load_balancer_class.is_some()),
        ("loadBalancerSourceRanges", service.load_balancer_source_ranges.is_some()),
        ("externalTrafficPolicy", service.external_traffic_policy.is_some()),
    ] {
        if is_internal && written {
            place.wrong(
                field,
                format!(
                    "`{field}` has no meaning for a Service that is reached from inside the cluster only"
                ),
                "remove it, or write `type: LoadBalancer`",
            );
        }
    }
}
