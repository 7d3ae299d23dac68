//! The features that we claim, by the names the conformance suite has for them.

use tidegate_api::status::SupportedFeature;

use crate::settings::Channel;

const STANDARD: &[&str] = &[
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "GRPCRouteRequestHeaderModifier",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructure",
    "GatewayPort8080",
    "GatewayRouteHostnameIntersectionPrecedence",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteBackendURLRewrite",
    "HTTPRouteCORS",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetryCodes",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

const EXPERIMENTAL: &[&str] = &[
    "ClusterTrustBundle",
    "GatewayAddressRoutability",
    "GatewayAddressRoutabilityCluster",
    "GatewayListenerFilters",
    "HTTPRouteDestinationPortMatching",
];

/// Sorted, as the specification asks for it.
pub(crate) fn supported(channel: Channel) -> Vec<SupportedFeature> {
    let experimental: &[&str] = match channel {
        Channel::Standard => &[],
        Channel::Experimental => EXPERIMENTAL,
    };
    let mut features: Vec<_> =
        STANDARD.iter().chain(experimental).map(|name| SupportedFeature { name }).collect();
    features.sort();
    features
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server takes at most 64, and the specification wants them in order.
    #[test]
    fn features_are_sorted_and_fit() {
        for (channel, count) in [
            (Channel::Standard, STANDARD.len()),
            (Channel::Experimental, STANDARD.len() + EXPERIMENTAL.len()),
        ] {
            let features = supported(channel);
            assert!(features.is_sorted_by(|a, b| a.name < b.name), "twice, or not in order");
            assert_eq!(features.len(), count);
            assert!(features.len() <= 64, "{}", features.len());
        }
    }
}
