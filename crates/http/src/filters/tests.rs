use http::Request;
use tidegate_plan::{Fraction, Header, HeaderChange, Hostname, PathChange, Redirect, Rewrite, Target};

use super::*;
use crate::testing::lines;

fn request(uri: &str) -> Parts {
    Request::builder().uri(uri).header("host", "a.test:8080").body(()).unwrap().into_parts().0
}

fn passage<'a>(parts: &Parts, port: u16, matched: Option<&'a PathMatch>) -> Passage<'a> {
    Passage::new(parts, port == 443 || port == 8443, SocketAddr::from(([192, 0, 2, 1], port)), matched)
}

fn set(name: &str, value: &str) -> HeaderChange {
    let header = Header { name: name.into(), value: value.into() };
    HeaderChange { set: vec![header], ..HeaderChange::default() }
}

fn hostname(name: &str) -> Option<Hostname> {
    Some(Hostname::parse(name).unwrap())
}

fn redirected(filter: &Redirect, uri: &str, port: u16, matched: Option<&PathMatch>) -> (u16, String) {
    let mut parts = request(uri);
    let mut passage = passage(&parts, port, matched);
    let chain = Chain::compile(&[Filter::Redirect(filter.clone())]).unwrap();
    match chain.steps()[0].on_request(&mut parts, &mut passage) {
        Next::Answer(answer) => {
            assert!(answer.body().is_empty());
            (answer.status().as_u16(), answer.headers()["location"].to_str().unwrap().to_owned())
        }
        other => panic!("{other:?}"),
    }
}

/// Cases of the suite's HTTPRouteRedirect{HostAndStatus,Path,Port,Scheme,PortAndScheme} and of 303, 307, 308.
#[test]
fn http_route_redirect() {
    let plain = Redirect { scheme: None, hostname: None, port: None, path: None, status: 302 };
    let org = Redirect { hostname: hostname("example.org"), ..plain.clone() };
    let https = Redirect { scheme: Some("https".into()), ..org.clone() };
    let http = Redirect { scheme: Some("http".into()), ..org.clone() };
    let prefix = PathMatch::Prefix("/original-prefix".into());
    let path = |change| Redirect { path: Some(change), ..plain.clone() };
    for (redirect, uri, port, location) in [
        (&org, "/x?q=1", 80, "http://example.org/x?q=1"),
        (&org, "/x", 8080, "http://example.org:8080/x"),
        (&org, "/x", 443, "https://example.org/x"),
        (&Redirect { port: Some(80), ..org.clone() }, "/x", 8080, "http://example.org/x"),
        (&https, "/x", 8080, "https://example.org/x"),
        (&Redirect { port: Some(8443), ..https.clone() }, "/x", 80, "https://example.org:8443/x"),
        (&http, "/x", 443, "http://example.org/x"),
        (&plain, "/x", 80, "http://a.test/x"),
        (
            &path(PathChange::Prefix("/replacement-prefix".into())),
            "/original-prefix/lemon",
            80,
            "http://a.test/replacement-prefix/lemon",
        ),
        (&path(PathChange::Full("/full".into())), "/original-prefix/lemon?a=b", 80, "http://a.test/full?a=b"),
    ] {
        assert_eq!(
            redirected(redirect, uri, port, Some(&prefix)),
            (302, location.to_owned()),
            "{redirect:?}"
        );
    }
    for status in [301, 302, 303, 307, 308] {
        assert_eq!(redirected(&Redirect { status, ..plain.clone() }, "/", 80, None).0, status);
    }
    for status in [200, 404, 0] {
        let chain = Chain::compile(&[Filter::Redirect(Redirect { status, ..plain.clone() })]);
        assert_eq!(chain.unwrap_err(), FilterError::Status(status));
    }
}

#[test]
fn a_client_without_a_host_is_redirected_to_where_it_came_to() {
    let mut parts = request("/x");
    parts.headers.clear();
    let filter = Redirect { scheme: None, hostname: None, port: None, path: None, status: 302 };
    let passage = passage(&parts, 80, None);
    let answer = redirect(&filter, &parts, &passage).unwrap();
    assert_eq!(answer.headers()["location"], "http://192.0.2.1/x");
}

fn rewritten(filters: &[Vec<Filter>], uri: &str, matched: &PathMatch) -> (String, String) {
    let mut parts = request(uri);
    let mut passage = passage(&parts, 80, Some(matched));
    for filters in filters {
        let chain = Chain::compile(filters).unwrap();
        for step in chain.steps() {
            assert!(matches!(step.on_request(&mut parts, &mut passage), Next::On));
        }
    }
    (parts.uri.to_string(), parts.headers["host"].to_str().unwrap().to_owned())
}

/// Cases of the suite's HTTPRouteRewritePath, HTTPRouteRewriteHost and HTTPRouteBackendURLRewrite.
#[test]
fn http_route_rewrite() {
    let prefix = |to: &str| Rewrite { hostname: None, path: Some(PathChange::Prefix(to.into())) };
    let full = |to: &str| Rewrite { hostname: None, path: Some(PathChange::Full(to.into())) };
    for (rewrite, matched, uri, expected) in [
        (prefix("/one"), "/prefix/one", "/prefix/one/two", "/one/two"),
        (prefix("/"), "/strip-prefix", "/strip-prefix/three?q=1", "/three?q=1"),
        (prefix(""), "/strip-prefix", "/strip-prefix", "/"),
        (full("/one"), "/full/one", "/full/one/two?q=1", "/one?q=1"),
        (full("/a?c#d"), "/", "/x", "/a%3Fc%23d"),
        (full("one"), "/", "/x", "/one"),
    ] {
        let matched = PathMatch::Prefix(matched.into());
        let result = rewritten(&[vec![Filter::Rewrite(rewrite)]], uri, &matched);
        assert_eq!(result, (expected.to_owned(), "a.test:8080".to_owned()));
    }
    let wrong = Chain::compile(&[Filter::Rewrite(full("/a b"))]).unwrap_err();
    assert_eq!(wrong, FilterError::Path("/a b".into()));
    let host = Rewrite { hostname: hostname("one.example.org"), path: None };
    let matched = PathMatch::Prefix("/prefix".into());
    let result = rewritten(&[vec![Filter::Rewrite(host)]], "/one", &matched);
    assert_eq!(result, ("/one".to_owned(), "one.example.org".to_owned()));
    // A backend's rewrite takes the place of the rule's.
    let rule = vec![Filter::Rewrite(prefix("/rule"))];
    let backend = vec![Filter::Rewrite(prefix("/rewritten-prefix"))];
    let result = rewritten(&[rule, backend], "/prefix/original?a", &matched);
    assert_eq!(result.0, "/rewritten-prefix/original?a");
}

#[test]
fn filters_apply_in_the_order_they_are_written() {
    let mirror = Filter::Mirror { target: Target::Invalid(Reason::NoEndpoints), share: Fraction::ALL };
    let filters = [Filter::RequestHeaders(set("x-a", "1")), mirror, Filter::RequestHeaders(set("x-a", "2"))];
    let chain = Chain::compile(&filters).unwrap();
    let mut parts = request("/");
    let mut passage = passage(&parts, 80, None);
    let mut mirrored = None;
    for step in chain.steps() {
        match step.on_request(&mut parts, &mut passage) {
            Next::On => {}
            Next::Mirror(mirror) if mirror.is_due() => mirrored = mirror.copy(&parts),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(mirrored.unwrap().headers["x-a"], "1");
    assert_eq!(parts.headers["x-a"], "2");
    // A WebSocket has no copy.
    passage.upgrade = true;
    let go_on = |step: &Step| matches!(step.on_request(&mut parts, &mut passage), Next::On);
    assert!(chain.steps().iter().all(go_on));
}

#[test]
fn responses_get_the_changes_for_responses_alone() {
    let filters = [Filter::RequestHeaders(set("x-q", "1")), Filter::ResponseHeaders(set("x-a", "2"))];
    let chain = Chain::compile(&filters).unwrap();
    let parts = request("/");
    let mut headers = HeaderMap::new();
    chain.on_response(&mut headers, &passage(&parts, 80, None));
    assert_eq!(lines(&headers), [("x-a", "2")]);
}

#[test]
fn an_origin_is_remembered_for_the_way_back() {
    let cors = tidegate_plan::Cors {
        allow_origins: vec!["https://b.test".into()],
        allow_credentials: false,
        allow_methods: vec![],
        allow_headers: vec![],
        expose_headers: vec![],
        max_age: 5,
    };
    let chain = Chain::compile(&[Filter::Cors(cors)]).unwrap();
    let mut parts = request("/");
    parts.headers.insert("origin", HeaderValue::from_static("https://b.test"));
    let mut passage = passage(&parts, 80, None);
    assert!(matches!(chain.steps()[0].on_request(&mut parts, &mut passage), Next::On));
    let mut headers = HeaderMap::new();
    chain.on_response(&mut headers, &passage);
    assert_eq!(headers["access-control-allow-origin"], "https://b.test");
}
