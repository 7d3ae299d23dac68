//! Which rule answers an HTTP request: first the listener, then the hostname as written, then the match.

mod support;

use support::*;
use tidegate_plan::*;

/// Tables of one listener without hostname and one route for every host, with one rule for each list of matches.
fn rules(rules: &[&[HttpMatch]]) -> Tables {
    tables([http("web", ""), http_route("r", "web", &[], rules)])
}

/// The rule and the match that answer, or the status.
fn taken(tables: &Tables, request: &Request<'_>) -> String {
    let answer = plain(tables, request);
    answer.strip_prefix("web -> r/").map(str::to_owned).unwrap_or_else(|| answer[..3].to_owned())
}

#[test]
fn the_listener_with_the_most_specific_hostname_has_the_request_to_itself() {
    let at = |listener: &str| http_route(listener, listener, &[], &[&[prefix(&format!("/{listener}"))]]);
    let tables = tables([
        http("any", ""),
        http("wide", "*.example.com"),
        http("narrow", "*.foo.example.com"),
        http("exact", "abc.foo.example.com"),
        at("any"),
        at("wide"),
        at("narrow"),
        at("exact"),
    ]);
    for (host, listener) in [
        ("bar.com", "any"),
        ("example.com", "any"),
        ("10.0.0.1", "any"),
        ("[::1]:80", "any"),
        ("bar.example.com", "wide"),
        ("foo.example.com", "wide"),
        ("bar.foo.example.com", "narrow"),
        ("abc.foo.example.com", "exact"),
    ] {
        for path in ["any", "wide", "narrow", "exact"] {
            let expected = if path == listener {
                format!("{listener} -> {listener}/0/0")
            } else {
                "404 no_matching_rule".to_owned()
            };
            assert_eq!(plain(&tables, &get(host, &format!("/{path}"))), expected, "{host}/{path}");
        }
    }
}

#[test]
fn a_host_is_read_without_port_in_any_case_and_with_a_trailing_dot() {
    let tables =
        tables([http("web", "a.example.com"), http_route("r", "web", &["a.example.com"], &[&[prefix("/")]])]);
    for host in
        ["a.example.com", "A.Example.Com", "a.example.com.", "a.example.com:8080", "A.EXAMPLE.COM.:80"]
    {
        assert_eq!(plain(&tables, &get(host, "/")), "web -> r/0/0", "{host}");
    }
    assert_eq!(plain(&tables, &get("b.example.com", "/")), "404 no_listener_for_host");
    assert_eq!(plain(&tables, &Request { host: None, ..get("", "/") }), "404 no_listener_for_host");
}

#[test]
fn a_request_for_another_https_listener_is_misdirected() {
    // The listeners and the table of the suite's HTTPRouteHTTPSListenerDetectMisdirectedRequests.
    let tables = tables([
        https("any", ""),
        https("second", "second-example.org"),
        https("wild", "*.wildcard.org"),
        https("fourth", "fourth-example.wildcard.org"),
        http_route("r1", "any", &["example.org"], &[&[prefix("/")]]),
        http_route("r2", "second", &[], &[&[prefix("/")]]),
        http_route("r3", "wild", &[], &[&[prefix("/")]]),
        http_route("r4", "fourth", &[], &[&[prefix("/")]]),
    ]);
    for (sni, host, answer) in [
        ("example.org", "example.org", "any -> r1/0/0"),
        ("example.org", "second-example.org", "421 misdirected"),
        ("example.org", "unknown-example.org", "404 no_route"),
        ("second-example.org", "second-example.org", "second -> r2/0/0"),
        ("second-example.org", "SECOND-example.org.:443", "second -> r2/0/0"),
        ("second-example.org", "example.org", "421 misdirected"),
        ("second-example.org", "unknown-example.org", "421 misdirected"),
        ("third-example.wildcard.org", "third-example.wildcard.org", "wild -> r3/0/0"),
        ("third-example.wildcard.org", "fifth-example.wildcard.org", "wild -> r3/0/0"),
        ("third-example.wildcard.org", "fourth-example.wildcard.org", "421 misdirected"),
        ("third-example.wildcard.org", "second-example.org", "421 misdirected"),
        ("third-example.wildcard.org", "unknown-example.org", "421 misdirected"),
        ("fourth-example.wildcard.org", "fourth-example.wildcard.org", "fourth -> r4/0/0"),
        ("fourth-example.wildcard.org", "fifth-example.wildcard.org", "421 misdirected"),
        ("unknown-example.org", "example.org", "any -> r1/0/0"),
        ("unknown-example.org", "unknown-example.org", "404 no_route"),
    ] {
        assert_eq!(secure(&tables, sni, &get(host, "/")), answer, "{sni} {host}");
    }
}

#[test]
fn a_host_that_no_https_listener_takes_is_not_found() {
    let tables = tables([
        https("a", "a.example.com"),
        passthrough("b", "b.example.com"),
        http_route("r", "a", &[], &[&[prefix("/")]]),
    ]);
    assert_eq!(secure(&tables, "a.example.com", &get("c.example.com", "/")), "404 no_listener_for_host");
    // A passthrough listener never answers requests: nobody was misdirected.
    assert_eq!(secure(&tables, "a.example.com", &get("b.example.com", "/")), "404 no_listener_for_host");
}

#[test]
fn requests_take_the_newest_tables_and_a_listener_that_went_takes_its_connections_along() {
    let with = |listeners: &[Body]| {
        tables(listeners.iter().cloned().chain([http_route("r", "b", &[], &[&[prefix("/")]])]))
    };
    let old = listener_id("a");
    let inbound = Inbound { local: local("10.0.0.1", 443), https: Some(&old) };
    let ask = |tables: &Tables| answered(tables, &inbound, &get("a.example.com", "/"));
    assert_eq!(ask(&with(&[https("b", "")])), "421 misdirected");
    assert_eq!(ask(&with(&[https("b", "b.example.com")])), "404 no_listener_for_host");
    assert_eq!(ask(&with(&[])), "404 no_listener");
}

#[test]
fn an_old_plain_connection_never_reaches_a_listener_that_wants_tls() {
    let tables = tables([https("a", "").port(80), http_route("r", "a", &[], &[&[prefix("/")]])]);
    assert_eq!(plain(&tables, &get("a.example.com", "/")), "404 no_listener_for_host");
}

#[test]
fn the_hostname_as_written_goes_first_and_what_it_does_not_match_falls_through() {
    let tables = tables([
        http("web", "*.example.com"),
        http_route("none", "web", &[], &[&[prefix("/")]]).created(1),
        http_route("wide", "web", &["*.com"], &[&[exact("/w"), exact("/x")]]).created(2),
        http_route("same", "web", &["*.example.com"], &[&[exact("/s"), exact("/x")]]).created(3),
        http_route("exact", "web", &["a.example.com"], &[&[prefix("/e"), prefix("/x")]]).created(4),
    ]);
    let answer = |path| plain(&tables, &get("a.example.com", path));
    // `exact` has the shortest match and is the youngest: its hostname alone decides.
    assert_eq!(answer("/x"), "web -> exact/0/1");
    assert_eq!(answer("/e/1"), "web -> exact/0/0");
    assert_eq!(answer("/s"), "web -> same/0/0");
    assert_eq!(answer("/w"), "web -> wide/0/0");
    assert_eq!(answer("/other"), "web -> none/0/0");
}

#[test]
fn hostnames_outside_the_listeners_never_count() {
    let tables = tables([
        http("web", "*.example.com"),
        http_route("r", "web", &["a.example.com", "a.example.net"], &[&[prefix("/")]]),
    ]);
    assert_eq!(plain(&tables, &get("a.example.com", "/")), "web -> r/0/0");
    assert_eq!(plain(&tables, &get("a.example.net", "/")), "404 no_listener_for_host");
    assert_eq!(plain(&tables, &get("b.example.com", "/")), "404 no_route");
}

#[test]
fn exact_paths_match_to_the_letter() {
    let tables = rules(&[&[exact("/abc")]]);
    for (path, answer) in
        [("/abc", "0/0"), ("/abc/", "404"), ("/Abc", "404"), ("/abcd", "404"), ("/abc?x=1", "0/0")]
    {
        assert_eq!(taken(&tables, &get("a", path)), answer, "{path}");
    }
}

#[test]
fn prefixes_match_by_element_and_a_slash_at_their_end_is_nothing() {
    for text in ["/abc", "/abc/"] {
        let tables = rules(&[&[prefix(text)]]);
        for (path, answer) in [
            ("/abc", "0/0"),
            ("/abc/", "0/0"),
            ("/abc/def", "0/0"),
            ("/abc//def", "0/0"),
            ("/abcd", "404"),
            ("/ab", "404"),
            ("/", "404"),
        ] {
            assert_eq!(taken(&tables, &get("a", path)), answer, "{text} {path}");
        }
    }
    let root = rules(&[&[prefix("/")]]);
    for path in ["/", "/a", "/a/b", "", "*"] {
        assert_eq!(taken(&root, &get("a", path)), "0/0", "{path}");
    }
}

#[test]
fn the_order_of_paths_is_exact_pattern_longest_prefix() {
    let tables = rules(&[
        &[prefix("/")],
        &[prefix("/a")],
        &[prefix("/a/b/")],
        &[regex("/a/b/[0-9]+")],
        &[regex("/a/b/[0-9]")],
        &[exact("/a/b/1")],
    ]);
    for (path, answer) in [
        ("/a/b/1", "5/0"),
        ("/a/b/2", "3/0"),
        ("/a/b/22", "3/0"),
        ("/a/b/x", "2/0"),
        ("/a/b", "2/0"),
        ("/a/x", "1/0"),
        ("/x", "0/0"),
    ] {
        assert_eq!(taken(&tables, &get("a", path)), answer, "{path}");
    }
}

#[test]
fn a_pattern_must_match_the_whole_path_and_a_broken_one_matches_nothing() {
    let tables = rules(&[&[regex("/a.c"), regex("/x("), prefix("/y").header("h", "~(")]]);
    for (path, answer) in
        [("/abc", "0/0"), ("/abcd", "404"), ("/x/abc", "404"), ("/x(", "404"), ("/y", "404")]
    {
        assert_eq!(taken(&tables, &Request { headers: &[("h", "(")], ..get("a", path) }), answer, "{path}");
    }
}

#[test]
fn under_one_path_method_headers_and_query_decide_in_this_order() {
    let tables = rules(&[
        &[prefix("/")],
        &[prefix("/").query("q", "1").query("r", "1")],
        &[prefix("/").header("h", "1")],
        &[prefix("/").header("h", "1").header("i", "1")],
        &[prefix("/").header("h", "1").query("q", "1")],
        &[prefix("/").method("POST")],
    ]);
    let answer = |method, query, headers: &[(&str, &str)]| {
        taken(&tables, &Request { host: Some("a"), method, path: "/", query: Some(query), headers: &headers })
    };
    let (h, i) = (("h", "1"), ("i", "1"));
    assert_eq!(answer("POST", "q=1&r=1", &[h, i]), "5/0");
    assert_eq!(answer("GET", "q=1&r=1", &[h, i]), "3/0");
    assert_eq!(answer("GET", "q=1&r=1", &[h]), "4/0");
    assert_eq!(answer("GET", "r=1", &[h]), "2/0");
    assert_eq!(answer("GET", "q=1&r=1", &[]), "1/0");
    assert_eq!(answer("GET", "q=1", &[]), "0/0");
    assert_eq!(answer("get", "", &[]), "0/0");
}

#[test]
fn the_older_route_then_the_first_by_name_then_the_first_rule_and_match() {
    let route = |name| http_route(name, "web", &[], &[&[exact("/x"), prefix("/")], &[prefix("/")]]);
    let taken = |routes: [Body; 2]| {
        let tables = tables(routes.into_iter().chain([http("web", "")]));
        plain(&tables, &get("a", "/"))
    };
    assert_eq!(taken([route("b").created(1), route("a").created(2)]), "web -> b/0/1");
    assert_eq!(taken([route("b"), route("a")]), "web -> a/0/1");
    assert_eq!(taken([route("a").namespace("y"), route("b").namespace("x")]), "web -> b/0/1");
}

#[test]
fn header_names_match_in_any_case_and_values_to_the_letter() {
    let tables = rules(&[&[prefix("/").header("version", "Two")]]);
    let answer = |headers: &[(&str, &str)]| taken(&tables, &Request { headers: &headers, ..get("a", "/") });
    assert_eq!(answer(&[("VERSION", "Two")]), "0/0");
    assert_eq!(answer(&[("version", "two")]), "404");
    assert_eq!(answer(&[("other", "Two")]), "404");
    assert_eq!(answer(&[]), "404");
}

#[test]
fn several_lines_of_a_header_are_one_value_with_commas() {
    let tables = rules(&[&[prefix("/").header("h", "a,b")], &[prefix("/").header("h", "~[xy](,[xy])*")]]);
    let answer = |headers: &[(&str, &str)]| taken(&tables, &Request { headers: &headers, ..get("a", "/") });
    assert_eq!(answer(&[("h", "a,b")]), "0/0");
    assert_eq!(answer(&[("h", "a"), ("H", "b")]), "0/0");
    assert_eq!(answer(&[("h", "a"), ("h", "b"), ("h", "c")]), "404");
    assert_eq!(answer(&[("h", "b"), ("h", "a")]), "404");
    assert_eq!(answer(&[("h", "a")]), "404");
    assert_eq!(answer(&[("h", "x"), ("h", "y"), ("h", "x")]), "1/0");
    assert_eq!(answer(&[("h", "x"), ("h", "z")]), "404");
}

#[test]
fn of_two_entries_for_one_name_the_second_is_ignored() {
    let tables = rules(&[
        &[prefix("/").header("h", "1").header("H", "2").query("q", "1").query("q", "2")],
        &[prefix("/").header("h", "1").header("i", "1")],
    ]);
    let answer =
        |headers: &[(&str, &str)]| taken(&tables, &Request { headers: &headers, ..get("a", "/?q=1") });
    assert_eq!(answer(&[("h", "1")]), "0/0");
    // The ignored one does not count among the headers either.
    assert_eq!(answer(&[("h", "1"), ("i", "1")]), "1/0");
}

#[test]
fn query_parameters_are_compared_unescaped_and_the_first_of_a_name_counts() {
    let tables = rules(&[&[prefix("/").query("animal", "blue whale")], &[prefix("/").query("n", "~[0-9]+")]]);
    for (query, answer) in [
        ("animal=blue%20whale", "0/0"),
        ("animal=blue+whale", "0/0"),
        ("x=1&%61nimal=blue%20wh%61le&y", "0/0"),
        ("animal=blue%20whale&animal=dog", "0/0"),
        ("animal=dog&animal=blue%20whale", "404"),
        ("ANIMAL=blue%20whale", "404"),
        ("animal=blue%2520whale", "404"),
        ("animal", "404"),
        ("animal=blue%2", "404"),
        ("n=12", "1/0"),
        ("n=%31%32", "1/0"),
        ("n=1x", "404"),
        ("", "404"),
    ] {
        assert_eq!(taken(&tables, &get("a", &format!("/?{query}"))), answer, "{query}");
    }
    assert_eq!(taken(&tables, &get("a", "/")), "404");
}

#[test]
fn a_rule_that_cannot_be_carried_out_answers_for_itself() {
    let tables = tables([
        http("web", ""),
        http_route("r", "web", &[], &[&[prefix("/a")], &[prefix("/")]]).change_route(|route| {
            let Rules::Http(rules) = &mut route.rules else { unreachable!() };
            rules[0].refuse = Some(Reason::FilterUnsupported);
        }),
    ]);
    assert_eq!(plain(&tables, &get("a", "/a")), "500 filter_unsupported");
    assert_eq!(plain(&tables, &get("a", "/b")), "web -> r/1/0");
}

#[test]
fn the_match_says_which_prefix_is_to_be_replaced() {
    let tables = rules(&[&[prefix("/a"), prefix("/a/b/")]]);
    let inbound = Inbound { local: local("10.0.0.1", 80), https: None };
    let matched = tables.matched(&inbound, &get("a", "/a/b/c"), &mut ()).unwrap();
    assert_eq!(matched.path(), Some(&PathMatch::Prefix("/a/b/".into())));
    assert_eq!(matched.rule.group(), &group("r"));
}
