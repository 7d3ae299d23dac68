use super::*;
use crate::testing::{headers, lines};

fn cors(origins: &[&str], methods: &[&str], allow: &[&str], expose: &[&str], credentials: bool) -> Cors {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Cors::compile(&tidegate_plan::Cors {
        allow_origins: owned(origins),
        allow_credentials: credentials,
        allow_methods: owned(methods),
        allow_headers: owned(allow),
        expose_headers: owned(expose),
        max_age: 3600,
    })
    .unwrap()
}

fn preflight(cors: &Cors, origin: &str, method: &str, asked: Option<&str>) -> Response<Bytes> {
    let mut request = vec![("origin", origin), ("access-control-request-method", method)];
    request.extend(asked.map(|asked| ("access-control-request-headers", asked)));
    match cors.on_request(&Method::OPTIONS, &headers(&request)) {
        Preflight::Answered(answer) => answer,
        Preflight::None(_) => panic!("{origin} was not answered"),
    }
}

fn response(cors: &Cors, request: &[(&str, &str)], response: &[(&str, &str)]) -> HeaderMap {
    let Preflight::None(grant) = cors.on_request(&Method::GET, &headers(request)) else {
        panic!("a GET is no preflight")
    };
    let mut headers = headers(response);
    cors.on_response(&mut headers, grant.as_ref());
    headers
}

/// The routes and cases of the suite's HTTPRouteCORS.
#[test]
fn http_route_cors() {
    let first = cors(
        &["https://www.foo.com", "https://*.bar.com"],
        &["GET", "OPTIONS"],
        &["x-header-1", "x-header-2"],
        &["x-header-3", "x-header-4"],
        true,
    );
    for origin in ["https://www.foo.com", "https://www.bar.com", "https://xpto.www.bar.com"] {
        let answer = preflight(&first, origin, "GET", Some("x-header-1, x-header-2"));
        assert_eq!(answer.status(), 204);
        let expected = [
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-headers", "x-header-1, x-header-2"),
            ("access-control-allow-methods", "GET, OPTIONS"),
            ("access-control-allow-origin", origin),
            ("access-control-expose-headers", "x-header-3, x-header-4"),
            ("access-control-max-age", "3600"),
            ("vary", "origin"),
        ];
        assert_eq!(lines(answer.headers()), expected);
        let simple = response(&first, &[("origin", origin), ("access-control-request-method", "GET")], &[]);
        assert_eq!(simple["access-control-allow-origin"], origin);
    }
    let refused = preflight(&first, "https://foobar.com", "GET", None);
    assert_eq!(refused.status(), 403);
    assert!(!refused.headers().contains_key("access-control-allow-origin"));
    assert_eq!(lines(&response(&first, &[("origin", "https://foobar.com")], &[])), [("vary", "origin")]);

    let second = cors(&["https://www.foo.com"], &["*"], &[], &[], false);
    let answer = preflight(&second, "https://www.foo.com", "POST", None);
    let expected = [
        ("access-control-allow-methods", "POST"),
        ("access-control-allow-origin", "https://www.foo.com"),
        ("access-control-max-age", "3600"),
        ("vary", "origin"),
    ];
    assert_eq!(lines(answer.headers()), expected);
}

#[test]
fn http_route_cors_wildcards() {
    let any = cors(&["*"], &["PUT"], &[], &[], false);
    for origin in ["https://foobar.com", "https://foobar.com:12345", "null"] {
        let answer = preflight(&any, origin, "PUT", None);
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        assert_eq!(answer.headers()["access-control-allow-methods"], "PUT");
        assert!(!answer.headers().contains_key("access-control-allow-credentials"));
        assert!(!answer.headers().contains_key("vary"));
    }
    let trusting = cors(&["*"], &["*"], &["*"], &["*"], true);
    let answer = preflight(&trusting, "https://other.foo.com", "PUT", Some("x-header-1, authorization"));
    let expected = [
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-headers", "x-header-1, authorization"),
        ("access-control-allow-methods", "PUT"),
        ("access-control-allow-origin", "https://other.foo.com"),
        ("access-control-max-age", "3600"),
        ("vary", "origin"),
    ];
    assert_eq!(lines(answer.headers()), expected);
    let answer = preflight(&trusting, "https://other.foo.com", "PUT", None);
    assert!(!answer.headers().contains_key("access-control-allow-headers"));
    let answer = response(
        &trusting,
        &[("origin", "https://other.foo.com")],
        &[("x-a", "1"), ("set-cookie", "a=b"), ("vary", "Accept, Origin")],
    );
    let expected = [
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-origin", "https://other.foo.com"),
        ("access-control-expose-headers", "x-a, vary"),
        ("set-cookie", "a=b"),
        ("vary", "Accept, Origin"),
        ("x-a", "1"),
    ];
    assert_eq!(lines(&answer), expected);
    let open = cors(&["*"], &["*"], &["*"], &["*"], false);
    let answer = response(&open, &[("origin", "https://other.foo.com")], &[]);
    assert_eq!(answer["access-control-expose-headers"], "*");
    assert!(!answer.contains_key("access-control-allow-credentials"));
}

#[test]
fn origins_are_compared_with_their_scheme_and_port() {
    for (pattern, inside, outside) in [
        (
            "https://a.test",
            &["https://a.test", "https://a.test:443", "https://A.TEST"][..],
            &["http://a.test", "https://a.test:8443", "https://b.a.test"][..],
        ),
        ("http://a.test:80", &["http://a.test"], &["http://a.test:8080", "https://a.test:80"]),
        (
            "https://*.a.test",
            &["https://b.a.test", "https://c.b.a.test"],
            &["https://a.test", "https://.a.test", "https://ba.test", "https://b.a.test.evil"],
        ),
        ("https://*.a.test:8443", &["https://b.a.test:8443"], &["https://b.a.test"]),
        ("https://*", &["https://a.test", "https://b.c"], &["http://a.test", "https://a.test:8443"]),
        ("https://*:8443", &["https://a.test:8443"], &["https://a.test"]),
        ("http://127.0.0.1:3000", &["http://127.0.0.1:3000"], &["http://127.0.0.1"]),
    ] {
        let cors = cors(&[pattern], &[], &[], &[], false);
        let allowed = |origin| cors.grant(&HeaderValue::from_str(origin).unwrap()).is_some();
        assert!(inside.iter().all(|origin| allowed(origin)), "{pattern} {inside:?}");
        assert!(!outside.iter().any(|origin| allowed(origin)), "{pattern} {outside:?}");
        for nonsense in
            ["null", "", "a.test", "ftp://a.test", "https://a.test/", "https://a.test https://b.test"]
        {
            assert!(!allowed(nonsense), "{pattern} {nonsense}");
        }
    }
    for wrong in [
        "a.test",
        "https://",
        "https://a*b",
        "https://**",
        "https://*a.test",
        "ftp://a.test",
        "https://a.test:0",
        "https://*.:1",
    ] {
        assert_eq!(Pattern::parse(wrong), Err(FilterError::Origin(wrong.to_owned())));
    }
}

#[test]
fn the_filter_has_the_say_over_the_backend() {
    let strict = cors(&["https://a.test"], &[], &[], &[], false);
    let theirs =
        [("access-control-allow-origin", "*"), ("access-control-allow-credentials", "true"), ("x", "y")];
    let other = response(&strict, &[("origin", "https://b.test")], &theirs);
    assert_eq!(lines(&other), [("vary", "origin"), ("x", "y")]);
    let allowed = response(&strict, &[("origin", "https://a.test")], &theirs);
    let expected = [("access-control-allow-origin", "https://a.test"), ("vary", "origin"), ("x", "y")];
    assert_eq!(lines(&allowed), expected);
}

#[test]
fn only_a_whole_preflight_is_answered() {
    let strict = cors(&["https://a.test"], &[], &[], &[], false);
    for request in [
        &[("origin", "https://a.test")][..],
        &[("access-control-request-method", "GET")],
        &[("access-control-request-headers", "x")],
    ] {
        assert!(
            matches!(strict.on_request(&Method::OPTIONS, &headers(request)), Preflight::None(_)),
            "{request:?}"
        );
    }
}
