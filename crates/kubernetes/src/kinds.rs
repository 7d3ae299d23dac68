//! The kinds of `api` as the API server names them.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use tidegate_api::{Kind, ObjectKey};

/// `httproutes`, `gatewayclasses`, `backendtlspolicies`.
pub(crate) fn plural(kind: Kind) -> String {
    let name = kind.as_str().to_lowercase();
    if name.ends_with("ss") {
        format!("{name}es")
    } else if name.ends_with('s') {
        name
    } else if let Some(stem) = name.strip_suffix('y').filter(|stem| !stem.ends_with('a')) {
        format!("{stem}ies")
    } else {
        format!("{name}s")
    }
}

/// Kinds that a CRD brings, and that may be missing.
pub(crate) fn is_custom(kind: Kind) -> bool {
    kind.group().starts_with("gateway.")
}

/// Kinds with a status of ours.
pub(crate) const fn has_status(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::GatewayClass
            | Kind::Gateway
            | Kind::ListenerSet
            | Kind::HttpRoute
            | Kind::GrpcRoute
            | Kind::TlsRoute
            | Kind::TcpRoute
            | Kind::UdpRoute
            | Kind::BackendTlsPolicy
            | Kind::XBackend
            | Kind::XBackendTrafficPolicy
    )
}

/// The name of the CRD.
pub(crate) fn crd(kind: Kind) -> String {
    format!("{}.{}", plural(kind), kind.group())
}

pub(crate) fn resource(kind: Kind, version: &str) -> ApiResource {
    let (group, plural) = (kind.group().to_owned(), plural(kind));
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource { group, version: version.to_owned(), api_version, kind: kind.as_str().to_owned(), plural }
}

/// Where this one object is.
pub(crate) fn api(client: &Client, key: &ObjectKey, version: &str) -> Api<DynamicObject> {
    let resource = resource(key.kind, version);
    if key.kind.is_namespaced() {
        Api::namespaced_with(client.clone(), &key.name.namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_crds() {
        for (kind, name) in [
            (Kind::GatewayClass, "gatewayclasses.gateway.networking.k8s.io"),
            (Kind::Gateway, "gateways.gateway.networking.k8s.io"),
            (Kind::ListenerSet, "listenersets.gateway.networking.k8s.io"),
            (Kind::HttpRoute, "httproutes.gateway.networking.k8s.io"),
            (Kind::GrpcRoute, "grpcroutes.gateway.networking.k8s.io"),
            (Kind::BackendTlsPolicy, "backendtlspolicies.gateway.networking.k8s.io"),
            (Kind::GatewayParameters, "gatewayparameters.gateway.tidegate.io"),
            (Kind::XBackend, "xbackends.gateway.networking.x-k8s.io"),
            (Kind::XBackendTrafficPolicy, "xbackendtrafficpolicies.gateway.networking.x-k8s.io"),
        ] {
            assert_eq!(crd(kind), name);
            assert!(is_custom(kind));
        }
        for (kind, name) in [
            (Kind::EndpointSlice, "endpointslices"),
            (Kind::ConfigMap, "configmaps"),
            (Kind::ClusterTrustBundle, "clustertrustbundles"),
        ] {
            assert_eq!(plural(kind), name);
            assert!(!is_custom(kind));
        }
    }
}
