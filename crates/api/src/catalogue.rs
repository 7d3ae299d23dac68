//! All rules by name, so that documentation and tests can ask whether each of them is spoken of.

use crate::{
    Meta, core, filter, gateway, grpc_route, http_route, listener, parameters, policy, refs, route, selector,
    session,
};

/// The rules of every record that has some.
pub const ALL: &[&[&str]] = &[
    Meta::RULES,
    core::ClusterTrustBundleSpec::OBJECT_RULES,
    core::ClusterTrustBundleSpec::RULES,
    core::ConfigMapSpec::RULES,
    core::EndpointPort::RULES,
    core::EndpointSliceSpec::RULES,
    core::SecretSpec::RULES,
    core::ServicePort::RULES,
    core::ServiceSpec::RULES,
    filter::Cors::RULES,
    filter::ExternalAuth::RULES,
    filter::Fraction::RULES,
    filter::GrpcAuth::RULES,
    filter::GrpcFilter::RULES,
    filter::HeaderModifier::RULES,
    filter::HttpAuth::RULES,
    filter::HttpFilter::RULES,
    filter::HttpHeader::RULES,
    filter::PathModifier::RULES,
    filter::RequestMirror::RULES,
    gateway::FrontendTls::RULES,
    gateway::FrontendValidation::RULES,
    gateway::GatewayAddress::RULES,
    gateway::GatewaySpec::RULES,
    gateway::Infrastructure::RULES,
    gateway::ListenerNamespaces::RULES,
    gateway::ListenerSetSpec::RULES,
    grpc_route::GrpcBackendRef::RULES,
    grpc_route::GrpcMatch::RULES,
    grpc_route::GrpcMethodMatch::RULES,
    grpc_route::GrpcRouteSpec::RULES,
    grpc_route::GrpcRule::RULES,
    http_route::HttpBackendRef::RULES,
    http_route::HttpMatch::RULES,
    http_route::HttpPathMatch::RULES,
    http_route::HttpRetry::RULES,
    http_route::HttpRouteSpec::RULES,
    http_route::HttpRule::RULES,
    http_route::HttpTimeouts::RULES,
    listener::Listener::RULES,
    listener::ListenerFilter::RULES,
    listener::ListenerTls::RULES,
    listener::RouteNamespaces::RULES,
    parameters::Autoscaling::RULES,
    parameters::BoundParameters::RULES,
    parameters::GatewayParametersSpec::RULES,
    parameters::HttpParameters::RULES,
    parameters::PullSecret::RULES,
    parameters::Resources::RULES,
    parameters::ServiceParameters::RULES,
    parameters::Toleration::RULES,
    parameters::Workload::RULES,
    policy::BackendTlsPolicySpec::RULES,
    policy::BackendValidation::RULES,
    policy::EndpointSelector::RULES,
    policy::ExternalHostname::RULES,
    policy::RetryBudget::RULES,
    policy::RetryRate::RULES,
    policy::SubjectAltName::RULES,
    policy::XBackendSpec::RULES,
    policy::XBackendTls::RULES,
    policy::XBackendTrafficPolicySpec::RULES,
    refs::BackendObjectReference::RULES,
    route::Parents::RULES,
    route::TcpRouteSpec::RULES,
    route::TlsRouteSpec::RULES,
    route::UdpRouteSpec::RULES,
    selector::LabelSelector::RULES,
    selector::Requirement::RULES,
    session::SessionPersistence::RULES,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_record_with_rules_is_listed() {
        let listed: BTreeSet<&str> = ALL.iter().copied().flatten().copied().collect();
        let mut written = BTreeSet::new();
        collect(Path::new("src"), &mut written);
        let missing: Vec<_> = written.iter().filter(|rule| !listed.contains(rule.as_str())).collect();
        assert!(missing.is_empty(), "add the records with these rules to ALL: {missing:?}");
        assert!(written.len() > 20);
    }

    /// The names in `rules: [...]` of all sources.
    fn collect(folder: &Path, rules: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("the sources are there") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                collect(&path, rules);
            } else if path
                .file_name()
                .is_some_and(|name| name != "catalogue.rs" && name != "read.rs" && name != "tests.rs")
            {
                let source = fs::read_to_string(&path).expect("a source is text");
                for part in source.split("rules: [").skip(1) {
                    let without_paths: String = part.split(['(', ')']).step_by(2).collect();
                    let names = without_paths.split(']').next().unwrap_or_default().split(',').map(str::trim);
                    rules.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
                }
            }
        }
    }
}
