//! The Pods of a data plane, and how many there are.

use std::net::IpAddr;

use serde_json::Value as Json;

use super::{LONGEST, is_network};
use crate::form::{is_qualified_name, is_quantity, is_subdomain};
use crate::meta::KEY_HELP;
use crate::read::{At, List, Map, Place, Read, Whole, record, words};
use crate::scalar::{Duration, LabelValue, quote};
use crate::tree::{Node, Value};

record! {
    /// The Pods of a data plane.
    pub struct Workload {
        pub kind: Option<WorkloadKind> = "kind",
        /// Left out, the number is nobody's here: an autoscaler or a person may set it.
        pub replicas: Option<Whole<0, 1000>> = "replicas",
        /// On the addresses of nodes, without a Service in front.
        pub host_network: Option<bool> = "hostNetwork",
        /// Addresses that lead to the nodes besides their own: each Gateway in the host's network gets one.
        pub address_pool: Option<List<String, 1, 64>> = "addressPool",
        pub resources: Option<Resources> = "resources",
        pub node_selector: Map<LabelValue> = "nodeSelector",
        pub tolerations: Option<List<Toleration, 0, 32>> = "tolerations",
        /// As in a Pod.
        pub affinity: Option<Verbatim> = "affinity",
        pub priority_class_name: Option<String> = "priorityClassName",
        /// How long a Pod that shall end goes on accepting, until nobody sends it anything new.
        pub termination_delay: Option<Duration> = "terminationDelay",
        /// Keeps the last plan on disk, for a container that starts while there is no controller.
        pub keep_plan: Option<bool> = "keepPlan",
        /// Secrets beside the Gateway that the image is pulled with.
        pub image_pull_secrets: Option<List<PullSecret, 0, 16>> = "imagePullSecrets",
    }
    rules: [
        a_daemon_set_has_no_replicas("kind"),
        a_pool_is_of_addresses("addressPool"),
        a_pool_goes_with_the_hosts_network("hostNetwork"),
        node_selector_has_label_keys("nodeSelector?"),
        priority_class_is_a_name("priorityClassName"),
        termination_delay_is_bounded("terminationDelay"),
    ]
}

words! {
    pub enum WorkloadKind {
        Deployment = "Deployment",
        DaemonSet = "DaemonSet",
    }
}

record! {
    pub struct PullSecret {
        pub name: String = "name",
    }
    rules: [pull_secret_is_a_name]
}

record! {
    pub struct Resources {
        pub requests: Map<Quantity> = "requests",
        pub limits: Map<Quantity> = "limits",
    }
    rules: [resources_have_names("requests?", "limits?"), requests_and_limits_are_plain]
}

record! {
    pub struct Toleration {
        pub key: Option<String> = "key",
        pub operator: TolerationOperator = "operator" or TolerationOperator::Equal,
        pub value: Option<String> = "value",
        pub effect: Option<TaintEffect> = "effect",
        pub toleration_seconds: Option<i64> = "tolerationSeconds",
    }
    rules: [
        toleration_of_all_keys_exists("key", "operator"),
        toleration_that_exists_has_no_value("operator", "value"),
        toleration_seconds_go_with_no_execute("effect"),
    ]
}

words! {
    pub enum TolerationOperator {
        Equal = "Equal",
        Exists = "Exists",
    }
}

words! {
    pub enum TaintEffect {
        NoSchedule = "NoSchedule",
        PreferNoSchedule = "PreferNoSchedule",
        NoExecute = "NoExecute",
    }
}

record! {
    pub struct Autoscaling {
        pub min_replicas: Whole<1, 1000> = "minReplicas" or Whole::new(1).expect("1 is in the range"),
        pub max_replicas: Whole<1, 1000> = "maxReplicas",
        /// Percent of the requested CPU.
        pub cpu_utilization: Whole<1, 100> = "cpuUtilization" or Whole::new(70).expect("70 is in the range"),
    }
    rules: [autoscaling_has_room("minReplicas", "maxReplicas")]
}

/// An amount of CPU or memory, as Kubernetes writes it: `500m`, `1.5`, `64Mi`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity(String);

impl Quantity {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Read for Quantity {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        // Kubernetes takes a bare number as well.
        let text = match &node.value {
            Value::Number(number) => number.to_string(),
            Value::BareNumber(_, raw) => raw.to_string(),
            _ => String::read(node, at)?,
        };
        if is_quantity(&text) {
            return Some(Self(text));
        }
        at.wrong(
            "form",
            node,
            format!("{} is not an amount", quote(&text)),
            "write one such as 500m, 2, 64Mi or 1Gi",
        );
        None
    }

    fn placeholder() -> Self {
        Self(String::new())
    }
}

/// A part of a Pod that is handed on as it is; the API server reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verbatim(pub Json);

impl Read for Verbatim {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        at.fields(node).map(|_| Self(node.to_json()))
    }

    fn placeholder() -> Self {
        Self(Json::Null)
    }
}

fn a_daemon_set_has_no_replicas(workload: &Workload, place: &mut Place<'_>) {
    if workload.kind == Some(WorkloadKind::DaemonSet) && workload.replicas.is_some() {
        place.wrong(
            "replicas",
            "a DaemonSet has one Pod on each node",
            "remove `replicas`, or choose nodes with `nodeSelector`",
        );
    }
}

fn a_pool_is_of_addresses(workload: &Workload, place: &mut Place<'_>) {
    for (index, entry) in workload.address_pool.iter().flatten().enumerate() {
        if !is_network(entry) && entry.parse::<IpAddr>().is_err() {
            place.wrong(
                &format!("addressPool[{index}]"),
                format!("{} is neither an address nor a range of addresses", quote(entry)),
                "write one such as 192.0.2.7, 192.0.2.0/28 or 2001:db8::/124",
            );
        }
    }
}

fn a_pool_goes_with_the_hosts_network(workload: &Workload, place: &mut Place<'_>) {
    if workload.address_pool.is_some() && workload.host_network == Some(false) {
        place.wrong(
            "addressPool",
            "addresses out of a pool are for data planes in the host's network",
            "write `hostNetwork: true`, or let a load balancer give addresses and remove `addressPool`",
        );
    }
}

fn node_selector_has_label_keys(workload: &Workload, place: &mut Place<'_>) {
    for key in workload.node_selector.keys().filter(|key| !is_qualified_name(key)) {
        place.wrong_key("nodeSelector", key, format!("{} is not a key for a label", quote(key)), KEY_HELP);
    }
}

fn pull_secret_is_a_name(secret: &PullSecret, place: &mut Place<'_>) {
    if !is_subdomain(&secret.name) {
        place.wrong(
            "name",
            format!("{} is not the name of a Secret", quote(&secret.name)),
            "write its metadata.name",
        );
    }
}

fn priority_class_is_a_name(workload: &Workload, place: &mut Place<'_>) {
    if let Some(name) = workload.priority_class_name.as_ref().filter(|name| !is_subdomain(name)) {
        place.wrong(
            "priorityClassName",
            format!("{} is not the name of a PriorityClass", quote(name)),
            "write its metadata.name",
        );
    }
}

fn termination_delay_is_bounded(workload: &Workload, place: &mut Place<'_>) {
    if workload.termination_delay.is_some_and(|delay| delay.0 > LONGEST) {
        place.wrong(
            "terminationDelay",
            "no Pod waits longer than an hour before it ends",
            "write a shorter time, such as 5s",
        );
    }
}

fn resources_have_names(resources: &Resources, place: &mut Place<'_>) {
    for (field, map) in [("requests", &resources.requests), ("limits", &resources.limits)] {
        for key in map.keys().filter(|key| !is_qualified_name(key)) {
            place.wrong_key(
                field,
                key,
                format!("{} is not a resource", quote(key)),
                "write cpu, memory, or one with a domain before it",
            );
        }
    }
}

fn requests_and_limits_are_plain(resources: &Resources, place: &mut Place<'_>) {
    for (field, map) in [("requests", &resources.requests), ("limits", &resources.limits)] {
        for (key, amount) in map.iter().filter(|(_, amount)| amount.as_str().starts_with('-')) {
            place.wrong(
                &format!("{field}.{key}"),
                format!("{} is less than nothing", amount.as_str()),
                "write an amount without a sign",
            );
        }
    }
}

fn toleration_of_all_keys_exists(toleration: &Toleration, place: &mut Place<'_>) {
    let all_keys = toleration.key.as_deref().unwrap_or_default().is_empty();
    if all_keys && toleration.operator != TolerationOperator::Exists {
        place.wrong(
            "operator",
            "a toleration without a key is for all taints",
            "write `operator: Exists`, or a `key`",
        );
    }
}

fn toleration_that_exists_has_no_value(toleration: &Toleration, place: &mut Place<'_>) {
    let has_value = toleration.value.as_ref().is_some_and(|value| !value.is_empty());
    if toleration.operator == TolerationOperator::Exists && has_value {
        place.wrong(
            "value",
            "`operator: Exists` looks at no value",
            "remove `value`, or write `operator: Equal`",
        );
    }
}

fn toleration_seconds_go_with_no_execute(toleration: &Toleration, place: &mut Place<'_>) {
    if toleration.toleration_seconds.is_some() && toleration.effect != Some(TaintEffect::NoExecute) {
        place.wrong(
            "effect",
            "`tolerationSeconds` has a meaning for the effect NoExecute only",
            "write `effect: NoExecute`, or remove `tolerationSeconds`",
        );
    }
}

fn autoscaling_has_room(autoscaling: &Autoscaling, place: &mut Place<'_>) {
    if autoscaling.min_replicas > autoscaling.max_replicas {
        let message = format!(
            "{} replicas at least and {} at most",
            autoscaling.min_replicas.get(),
            autoscaling.max_replicas.get()
        );
        place.wrong("maxReplicas", message, "write a `maxReplicas` that is not below `minReplicas`");
    }
}
