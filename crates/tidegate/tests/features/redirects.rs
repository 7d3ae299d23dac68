//! Where redirects lead to.

use crate::loopback::Tidegate;
use crate::site::ask;
use crate::{PORT, with_rules};

/// One rule for each redirect, at a prefix of its own.
fn redirecting(redirects: &[(&str, &str)]) -> Tidegate {
    let rule = |(prefix, redirect): &(&str, &str)| {
        format!(
            "  - matches: [{{path: {{value: {prefix}}}}}]
    filters: [{{type: RequestRedirect, requestRedirect: {{{redirect}}}}}]
"
        )
    };
    with_rules(&redirects.iter().map(rule).collect::<String>())
}

#[track_caller]
fn lead(tidegate: &Tidegate, cases: &[(&str, u16, &str)]) {
    for (target, status, location) in cases {
        let answer = ask(tidegate.at(PORT), &format!("GET http://a.test:{PORT}{target}"), &[]);
        assert_eq!((answer.status, answer.header("location")), (*status, Some(*location)), "{target}");
    }
}

fn status_code(status: u16) {
    let to = format!("hostname: example.org, statusCode: {status}");
    let tidegate = redirecting(&[("/host", &to)]);
    lead(&tidegate, &[("/host/x?y=1", status, "http://example.org:8080/host/x?y=1")]);
}

#[test]
fn http_route_303_redirect_status_code() {
    status_code(303);
}

#[test]
fn http_route_307_redirect_status_code() {
    status_code(307);
}

#[test]
fn http_route_308_redirect_status_code() {
    status_code(308);
}

#[test]
fn http_route_scheme_redirect() {
    let tidegate = redirecting(&[
        ("/scheme", "scheme: https"),
        ("/permanent", "scheme: https, hostname: example.org, statusCode: 301"),
        ("/same", "scheme: http"),
    ]);
    lead(
        &tidegate,
        &[
            ("/scheme/x", 302, "https://a.test/scheme/x"),
            ("/permanent", 301, "https://example.org/permanent"),
            ("/same", 302, "http://a.test/same"),
        ],
    );
}

#[test]
fn http_route_port_redirect() {
    let tidegate = redirecting(&[
        ("/port", "port: 8083"),
        ("/usual", "port: 80"),
        ("/both", "port: 8443, scheme: https, hostname: example.org"),
        ("/implied", "port: 443, scheme: https"),
        ("/odd", "port: 80, scheme: https"),
    ]);
    lead(
        &tidegate,
        &[
            ("/port", 302, "http://a.test:8083/port"),
            ("/usual", 302, "http://a.test/usual"),
            ("/both", 302, "https://example.org:8443/both"),
            ("/implied", 302, "https://a.test/implied"),
            ("/odd", 302, "https://a.test:80/odd"),
        ],
    );
}

#[test]
fn http_route_path_redirect() {
    let prefix = |to: &str| format!("path: {{type: ReplacePrefixMatch, replacePrefixMatch: {to}}}, port: 80");
    let full = |to: &str| format!("path: {{type: ReplaceFullPath, replaceFullPath: {to}}}, port: 80");
    let tidegate = redirecting(&[
        ("/original-prefix", &prefix("/replacement-prefix")),
        ("/strip", &prefix("/")),
        ("/full", &full("/full-path-replacement")),
        ("/full-and-host", &format!("{}, hostname: example.org, statusCode: 301", full("/there"))),
    ]);
    lead(
        &tidegate,
        &[
            ("/original-prefix/lemon", 302, "http://a.test/replacement-prefix/lemon"),
            ("/original-prefix?q", 302, "http://a.test/replacement-prefix?q"),
            ("/strip/lemon", 302, "http://a.test/lemon"),
            ("/strip", 302, "http://a.test/"),
            ("/full/path/original", 302, "http://a.test/full-path-replacement"),
            ("/full-and-host/x", 301, "http://example.org/there"),
        ],
    );
}
