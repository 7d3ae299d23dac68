//! GatewayParameters: what the data planes of a Gateway, or of all Gateways of a class, shall be like. A kind of our own.

use serde_json::Value as Json;

use crate::form::{is_label, is_qualified_name, is_quantity, is_subdomain};
use crate::kind::{Resource, Spec};
use crate::meta::KEY_HELP;
use crate::read::{At, List, Map, Place, Read, Whole, record, words};
use crate::scalar::{AnnotationValue, Duration, LabelValue, quote};
use crate::tree::{Node, Value};

pub const PARAMETERS_GROUP: &str = "gateway.tidegate.io";
pub const PARAMETERS_KIND: &str = "GatewayParameters";

pub type GatewayParameters = Resource<GatewayParametersSpec>;

impl Spec for GatewayParametersSpec {
    const KIND: &'static str = PARAMETERS_KIND;
    const GROUP: &'static str = PARAMETERS_GROUP;
    const VERSIONS: &'static [&'static str] = &["v1alpha1"];
}

record! {
    pub struct GatewayParametersSpec {
        pub workload: Option<Workload> = "workload",
        pub autoscaling: Option<Autoscaling> = "autoscaling",
        pub service: Option<ServiceParameters> = "service",
        pub log: Option<LogParameters> = "log",
        pub http: Option<HttpParameters> = "http",
        pub bounds: Option<BoundParameters> = "bounds",
    }
    rules: [autoscaling_needs_a_deployment, replicas_are_said_once]
}

record! {
    /// The Pods of a data plane.
    pub struct Workload {
        pub kind: Option<WorkloadKind> = "kind",
        /// Left out, the number is nobody's here: an autoscaler or a person may set it.
        pub replicas: Option<Whole<0, 1000>> = "replicas",
        /// On the addresses of nodes, without a Service in front.
        pub host_network: Option<bool> = "hostNetwork",
        pub resources: Option<Resources> = "resources",
        pub node_selector: Map<LabelValue> = "nodeSelector",
        pub tolerations: Option<List<Toleration, 0, 32>> = "tolerations",
        /// As in a Pod.
        pub affinity: Option<Verbatim> = "affinity",
        pub priority_class_name: Option<String> = "priorityClassName",
        /// How long a Pod that shall end goes on accepting, until nobody sends it anything new.
        pub termination_delay: Option<Duration> = "terminationDelay",
    }
    rules: [a_daemon_set_has_no_replicas, node_selector_has_label_keys, priority_class_is_a_name, termination_delay_is_bounded]
}

words! {
    pub enum WorkloadKind {
        Deployment = "Deployment",
        DaemonSet = "DaemonSet",
    }
}

record! {
    pub struct Resources {
        pub requests: Map<Quantity> = "requests",
        pub limits: Map<Quantity> = "limits",
    }
    rules: [resources_have_names, requests_and_limits_are_plain]
}

record! {
    pub struct Toleration {
        pub key: Option<String> = "key",
        pub operator: TolerationOperator = "operator" or TolerationOperator::Equal,
        pub value: Option<String> = "value",
        pub effect: Option<TaintEffect> = "effect",
        pub toleration_seconds: Option<i64> = "tolerationSeconds",
    }
    rules: [toleration_of_all_keys_exists, toleration_that_exists_has_no_value, toleration_seconds_go_with_no_execute]
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
    rules: [autoscaling_has_room]
}

record! {
    /// The Service in front of a data plane.
    pub struct ServiceParameters {
        pub kind: Option<ExposureType> = "type",
        pub load_balancer_class: Option<String> = "loadBalancerClass",
        pub external_traffic_policy: Option<ExternalTrafficPolicy> = "externalTrafficPolicy",
        pub annotations: Map<AnnotationValue> = "annotations",
        pub load_balancer_source_ranges: Option<List<String, 0, 64>> = "loadBalancerSourceRanges",
    }
    rules: [service_annotation_keys, load_balancer_class_is_a_name, source_ranges_are_networks, load_balancer_fields_go_with_its_type]
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

record! {
    pub struct LogParameters {
        /// The least important lines that are written.
        pub level: Option<LogLevel> = "level",
        pub format: Option<LogForm> = "format",
        /// A line for every connection and request.
        pub access: Option<bool> = "access",
    }
}

record! {
    /// How requests are answered.
    pub struct HttpParameters {
        /// Networks of proxies in front, which are believed when they say who a client is.
        pub trusted_proxies: Option<List<String, 0, 64>> = "trustedProxies",
        /// Whether an answer of our own says why.
        pub error_reasons: Option<bool> = "errorReasons",
    }
    rules: [trusted_proxies_are_networks]
}

words! {
    pub enum LogLevel {
        Info = "Info",
        Warning = "Warning",
        Error = "Error",
    }
}

words! {
    pub enum LogForm {
        Text = "Text",
        Json = "JSON",
    }
}

record! {
    /// The bounds of `tidegate run`, under the names that its flags have there.
    pub struct BoundParameters {
        pub max_connections: Option<Count> = "maxConnections",
        pub max_connections_per_listener: Option<Count> = "maxConnectionsPerListener",
        pub max_connections_per_source: Option<Count> = "maxConnectionsPerSource",
        pub hello_time: Option<Duration> = "helloTime",
        pub hello_size: Option<Whole<512, 1_048_576>> = "helloSize",
        pub handshake_time: Option<Duration> = "handshakeTime",
        pub connect_time: Option<Duration> = "connectTime",
        pub idle_time: Option<Duration> = "idleTime",
        pub half_open_time: Option<Duration> = "halfOpenTime",
        pub lifetime: Option<Duration> = "lifetime",
        pub max_udp_flows: Option<Count> = "maxUDPFlows",
        pub udp_idle_time: Option<Duration> = "udpIdleTime",
        pub header_time: Option<Duration> = "headerTime",
        pub header_size: Option<Whole<1024, 1_048_576>> = "headerSize",
        pub max_headers: Option<Whole<1, 10_000>> = "maxHeaders",
        pub uri_size: Option<Whole<64, 1_048_576>> = "uriSize",
        pub keep_alive_time: Option<Duration> = "keepAliveTime",
        pub body_time: Option<Duration> = "bodyTime",
        pub max_streams: Option<Whole<1, 100_000>> = "maxStreams",
        pub max_resets: Option<Whole<1, 1_000_000>> = "maxResets",
        pub max_idle_upstream: Option<Whole<0, 100_000>> = "maxIdleUpstream",
        pub idle_upstream_time: Option<Duration> = "idleUpstreamTime",
        pub retry_size: Option<Whole<0, 16_777_216>> = "retrySize",
        pub max_mirrors: Option<Whole<0, 1_000_000>> = "maxMirrors",
        pub drain: Option<Duration> = "drain",
    }
    rules: [drain_is_bounded]
}

pub type Count = Whole<1, 100_000_000>;

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
}

/// A part of a Pod that is handed on as it is; the API server reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verbatim(pub Json);

impl Read for Verbatim {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        at.fields(node).map(|_| Self(node.to_json()))
    }
}

/// An hour: nobody waits longer for a Pod to end.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(3600);

fn autoscaling_needs_a_deployment(spec: &GatewayParametersSpec, place: &mut Place<'_>) {
    let kind = spec.workload.as_ref().and_then(|workload| workload.kind);
    if spec.autoscaling.is_some() && kind == Some(WorkloadKind::DaemonSet) {
        place.wrong(
            "autoscaling",
            "a DaemonSet has one Pod on each node and cannot be scaled",
            "remove `autoscaling`, or write `workload.kind: Deployment`",
        );
    }
}

fn replicas_are_said_once(spec: &GatewayParametersSpec, place: &mut Place<'_>) {
    let said = spec.workload.as_ref().and_then(|workload| workload.replicas);
    if spec.autoscaling.is_some() && said.is_some() {
        place.wrong(
            "workload.replicas",
            "with `autoscaling` the number of replicas is the autoscaler's",
            "remove `replicas`, and write `autoscaling.minReplicas` if it must not be less",
        );
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

fn node_selector_has_label_keys(workload: &Workload, place: &mut Place<'_>) {
    for key in workload.node_selector.keys().filter(|key| !is_qualified_name(key)) {
        place.wrong_key("nodeSelector", key, format!("{} is not a key for a label", quote(key)), KEY_HELP);
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

fn drain_is_bounded(bounds: &BoundParameters, place: &mut Place<'_>) {
    if bounds.drain.is_some_and(|drain| drain.0 > LONGEST) {
        place.wrong(
            "drain",
            "no Pod waits longer than an hour before it ends",
            "write a shorter time, such as 30s",
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

fn trusted_proxies_are_networks(http: &HttpParameters, place: &mut Place<'_>) {
    for (index, range) in http.trusted_proxies.iter().flatten().enumerate() {
        if !is_network(range) {
            place.wrong(
                &format!("trustedProxies[{index}]"),
                format!("{} is not a range of addresses", quote(range)),
                "write one such as 192.0.2.0/24 or 2001:db8::/32",
            );
        }
    }
}

fn is_network(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(address) = address.parse::<std::net::IpAddr>() else { return false };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    !length.starts_with('+') && length.parse::<u8>().is_ok_and(|length| length <= longest)
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

/// Puts the fields of a Gateway's parameters over those of its class, one by one: what the Gateway leaves out is as
/// the class says. Maps are put together key by key; lists and `affinity` are taken whole.
#[must_use]
pub fn merged(
    class: Option<&GatewayParametersSpec>,
    gateway: Option<&GatewayParametersSpec>,
) -> GatewayParametersSpec {
    let empty = || GatewayParametersSpec {
        workload: None,
        autoscaling: None,
        service: None,
        http: None,
        log: None,
        bounds: None,
    };
    let class = class.cloned().unwrap_or_else(empty);
    let gateway = gateway.cloned().unwrap_or_else(empty);
    let workload = both(class.workload, gateway.workload, over_workload);
    // Who of the two says how many there are says it alone.
    let said_replicas =
        gateway.autoscaling.is_none() && workload.as_ref().is_some_and(|w| w.replicas.is_some());
    let is_daemon = workload.as_ref().is_some_and(|workload| workload.kind == Some(WorkloadKind::DaemonSet));
    let autoscaling = gateway.autoscaling.or(class.autoscaling).filter(|_| !said_replicas && !is_daemon);
    let workload = workload.map(|workload| Workload {
        replicas: workload.replicas.filter(|_| autoscaling.is_none() && !is_daemon),
        ..workload
    });
    GatewayParametersSpec {
        workload,
        autoscaling,
        service: both(class.service, gateway.service, |under, over| ServiceParameters {
            kind: over.kind.or(under.kind),
            load_balancer_class: over.load_balancer_class.or(under.load_balancer_class),
            external_traffic_policy: over.external_traffic_policy.or(under.external_traffic_policy),
            annotations: together(under.annotations, over.annotations),
            load_balancer_source_ranges: over
                .load_balancer_source_ranges
                .or(under.load_balancer_source_ranges),
        }),
        log: both(class.log, gateway.log, |under, over| LogParameters {
            level: over.level.or(under.level),
            format: over.format.or(under.format),
            access: over.access.or(under.access),
        }),
        http: both(class.http, gateway.http, |under, over| HttpParameters {
            trusted_proxies: over.trusted_proxies.or(under.trusted_proxies),
            error_reasons: over.error_reasons.or(under.error_reasons),
        }),
        bounds: both(class.bounds, gateway.bounds, |under, over| over_bounds(&under, &over)),
    }
}

fn both<T>(under: Option<T>, over: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (under, over) {
        (Some(under), Some(over)) => Some(merge(under, over)),
        (under, over) => over.or(under),
    }
}

fn together<V>(mut under: Map<V>, over: Map<V>) -> Map<V> {
    under.extend(over);
    under
}

fn over_workload(under: Workload, over: Workload) -> Workload {
    Workload {
        kind: over.kind.or(under.kind),
        replicas: over.replicas.or(under.replicas),
        host_network: over.host_network.or(under.host_network),
        resources: both(under.resources, over.resources, |under, over| Resources {
            requests: together(under.requests, over.requests),
            limits: together(under.limits, over.limits),
        }),
        node_selector: together(under.node_selector, over.node_selector),
        tolerations: over.tolerations.or(under.tolerations),
        affinity: over.affinity.or(under.affinity),
        priority_class_name: over.priority_class_name.or(under.priority_class_name),
        termination_delay: over.termination_delay.or(under.termination_delay),
    }
}

fn over_bounds(under: &BoundParameters, over: &BoundParameters) -> BoundParameters {
    BoundParameters {
        max_connections: over.max_connections.or(under.max_connections),
        max_connections_per_listener: over
            .max_connections_per_listener
            .or(under.max_connections_per_listener),
        max_connections_per_source: over.max_connections_per_source.or(under.max_connections_per_source),
        hello_time: over.hello_time.or(under.hello_time),
        hello_size: over.hello_size.or(under.hello_size),
        handshake_time: over.handshake_time.or(under.handshake_time),
        connect_time: over.connect_time.or(under.connect_time),
        idle_time: over.idle_time.or(under.idle_time),
        half_open_time: over.half_open_time.or(under.half_open_time),
        lifetime: over.lifetime.or(under.lifetime),
        max_udp_flows: over.max_udp_flows.or(under.max_udp_flows),
        udp_idle_time: over.udp_idle_time.or(under.udp_idle_time),
        header_time: over.header_time.or(under.header_time),
        header_size: over.header_size.or(under.header_size),
        max_headers: over.max_headers.or(under.max_headers),
        uri_size: over.uri_size.or(under.uri_size),
        keep_alive_time: over.keep_alive_time.or(under.keep_alive_time),
        body_time: over.body_time.or(under.body_time),
        max_streams: over.max_streams.or(under.max_streams),
        max_resets: over.max_resets.or(under.max_resets),
        max_idle_upstream: over.max_idle_upstream.or(under.max_idle_upstream),
        idle_upstream_time: over.idle_upstream_time.or(under.idle_upstream_time),
        retry_size: over.retry_size.or(under.retry_size),
        max_mirrors: over.max_mirrors.or(under.max_mirrors),
        drain: over.drain.or(under.drain),
    }
}
