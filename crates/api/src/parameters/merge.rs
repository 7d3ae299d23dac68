//! Parameters of a Gateway over those of its class.

use super::{
    BoundParameters, CertificateParameters, GatewayParametersSpec, HttpParameters, LogParameters, Resources,
    ServiceParameters, Workload, WorkloadKind,
};
use crate::read::Map;

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
        certificates: None,
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
        certificates: both(class.certificates, gateway.certificates, |under, over| CertificateParameters {
            issuer: over.issuer.or(under.issuer),
            acme_account: over.acme_account.or(under.acme_account),
            domains: over.domains.or(under.domains),
            limit: over.limit.or(under.limit),
            limit_per_namespace: over.limit_per_namespace.or(under.limit_per_namespace),
            until_issued: over.until_issued.or(under.until_issued),
        }),
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
        address_pool: over.address_pool.or(under.address_pool),
        resources: both(under.resources, over.resources, |under, over| Resources {
            requests: together(under.requests, over.requests),
            limits: together(under.limits, over.limits),
        }),
        node_selector: together(under.node_selector, over.node_selector),
        tolerations: over.tolerations.or(under.tolerations),
        affinity: over.affinity.or(under.affinity),
        priority_class_name: over.priority_class_name.or(under.priority_class_name),
        termination_delay: over.termination_delay.or(under.termination_delay),
        keep_plan: over.keep_plan.or(under.keep_plan),
        image_pull_secrets: over.image_pull_secrets.or(under.image_pull_secrets),
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
