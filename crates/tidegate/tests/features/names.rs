//! That no feature is without a test of its name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const FEATURES: &str = include_str!("../../../translate/src/features.rs");

/// What of the features is HTTP's and gRPC's.
const OURS: [&str; 7] = [
    "BackendTLSPolicy",
    "GRPCRoute",
    "GatewayBackend",
    "GatewayFrontend",
    "GatewayHTTP",
    "GatewayListener",
    "HTTPRoute",
];

#[test]
fn every_feature_has_its_test() {
    let claimed: Vec<&str> = FEATURES
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","))
        .filter(|name| OURS.iter().any(|ours| name.starts_with(ours)))
        .collect();
    assert!(claimed.len() > 30, "the list is not where it was: {claimed:?}");
    let mut tests = BTreeSet::new();
    gather(Path::new(CRATES), &mut tests);
    let without: Vec<&&str> = claimed.iter().filter(|name| !tests.contains(&snake_case(name))).collect();
    assert!(without.is_empty(), "no test is named after {without:?}");
}

/// The names of functions right behind `#[test]`.
fn gather(folder: &Path, tests: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let behind = text.split("#[test]\n").skip(1);
            let functions =
                behind.filter_map(|text| text.trim_start().strip_prefix("fn ")?.split('(').next());
            tests.extend(functions.map(str::to_owned));
        }
    }
}

/// `HTTPRoute303Redirect` is `http_route_303_redirect`.
fn snake_case(feature: &str) -> String {
    let words = ["HTTPS", "HTTP", "GRPC", "CORS", "URL", "TLS", "SAN", "H2C"];
    let mut name = feature.to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        name = name.replace(word, &format!("{first}{}", rest.to_lowercase()));
    }
    let mut snake = String::new();
    let mut before = None;
    for letter in name.chars() {
        let is_number = letter.is_ascii_digit() && before.is_some_and(|letter: char| letter.is_lowercase());
        if before.is_some() && (letter.is_uppercase() || is_number) {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
        before = Some(letter);
    }
    snake
}

#[test]
fn names_of_features_as_names_of_tests() {
    for (feature, test) in [
        ("HTTPRoute", "http_route"),
        ("HTTPRoute303RedirectStatusCode", "http_route_303_redirect_status_code"),
        ("HTTPRouteBackendProtocolH2C", "http_route_backend_protocol_h2c"),
        ("HTTPRouteBackendProtocolWebSocket", "http_route_backend_protocol_web_socket"),
        ("HTTPRouteCORS", "http_route_cors"),
        ("GRPCRouteNamedRouteRule", "grpc_route_named_route_rule"),
        ("BackendTLSPolicySANValidation", "backend_tls_policy_san_validation"),
        (
            "GatewayHTTPSListenerDetectMisdirectedRequests",
            "gateway_https_listener_detect_misdirected_requests",
        ),
    ] {
        assert_eq!(snake_case(feature), test);
    }
}
