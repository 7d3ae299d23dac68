//! Random parts of plans over few names and paths, so that they meet often.

// Each test file uses its own part of this.
#![allow(dead_code, unreachable_pub)]

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use tidegate_plan::*;

use super::*;

const HOSTNAMES: [&str; 8] = [
    "",
    "a.example.com",
    "b.a.example.com",
    "*.example.com",
    "*.a.example.com",
    "*.com",
    "example.com",
    "a.example.org",
];

/// How clients write them: also in other ways, and names nobody has.
pub const ASKED: [&str; 12] = [
    "a.example.com",
    "A.Example.com.",
    "b.a.example.com",
    "c.a.example.com",
    "d.c.a.example.com",
    "example.com",
    "x.example.com",
    "a.example.org",
    "other.net",
    "com",
    "10.0.0.1",
    "a..example.com",
];

pub const PATHS: [&str; 9] = ["/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/a/B", "*", "/c/d/e/f"];

pub const LISTENERS: [&str; 6] = ["l0", "l1", "l2", "l3", "l4", "l5"];
pub const ROUTES: [&str; 6] = ["r0", "r1", "r2", "r3", "r4", "r5"];

/// HTTP on port 80, everything with TLS on port 443, some of it on one address only.
pub fn listener() -> impl Strategy<Value = Body> {
    let kind = select(vec![http as fn(&str, &str) -> Body, https, passthrough, terminate]);
    (select(&LISTENERS[..]), kind, select(&HOSTNAMES[..]), any::<bool>(), option::weighted(0.1, Just(())))
        .prop_map(|(name, make, hostname, own_address, refuse)| {
            let listener = make(name, hostname);
            let listener = if own_address { listener.at("10.0.0.1") } else { listener };
            if refuse.is_some() { listener.refuse(Reason::ListenerInvalid) } else { listener }
        })
}

pub fn route() -> impl Strategy<Value = Body> {
    let name = select(&ROUTES[..]);
    let listeners = subsequence(&LISTENERS[..], 1..5);
    let hostnames = subsequence(&HOSTNAMES[1..], 0..3);
    (name, listeners, hostnames, 0..3_i64, rules()).prop_map(
        |(name, listeners, hostnames, created, rules)| {
            let kind = match &rules {
                Rules::Http(_) => RouteKind::Http,
                Rules::Grpc(_) => RouteKind::Grpc,
                Rules::Stream(_) => RouteKind::Tls,
            };
            Body::Route(Route {
                id: route_id(kind, name),
                created,
                listeners: listeners.into_iter().map(listener_id).collect(),
                hostnames: hostnames.into_iter().map(hostname).collect(),
                rules,
            })
        },
    )
}

fn rules() -> impl Strategy<Value = Rules> {
    let take = |body| match body {
        Body::Route(route) => route.rules,
        _ => unreachable!(),
    };
    fn slices<T>(rules: &[Vec<T>]) -> Vec<&[T]> {
        rules.iter().map(Vec::as_slice).collect()
    }
    prop_oneof![
        4 => vec(vec(http_match(), 1..3), 1..3)
            .prop_map(move |rules| take(http_route("", "", &[], &slices(&rules)))),
        3 => vec(vec(grpc_match(), 1..3), 1..3)
            .prop_map(move |rules| take(grpc_route("", "", &[], &slices(&rules)))),
        2 => Just(take(tls_route("", "", &[]))),
    ]
}

fn http_match() -> impl Strategy<Value = HttpMatch> {
    let path = prop_oneof![
        2 => select(&PATHS[..7]).prop_map(exact),
        2 => select(&PATHS[..7]).prop_map(prefix),
        2 => Just(prefix("/")),
        1 => select(vec!["/a.*", "/[a-z]/b", "/(", ".*"]).prop_map(regex),
    ];
    // Mostly nothing but a path, so that equals meet and age has to decide.
    let value = || option::weighted(0.2, select(vec!["1", "2", "~[12]"]));
    let method = option::weighted(0.2, select(vec!["GET", "POST"]));
    (path, method, value(), value(), value()).prop_map(|(matched, method, h, i, q)| {
        let matched = method.into_iter().fold(matched, HttpMatch::method);
        let matched = h.into_iter().fold(matched, |matched, value| matched.header("h", value));
        let matched = i.into_iter().fold(matched, |matched, value| matched.header("i", value));
        q.into_iter().fold(matched, |matched, value| matched.query("q", value))
    })
}

fn grpc_match() -> impl Strategy<Value = GrpcMatch> {
    let name = || select(vec!["*", "a", "b", "B", "~[ab]"]);
    (name(), name(), option::weighted(0.3, select(vec!["1", "2"]))).prop_map(|(service, method, header)| {
        match header {
            Some(value) => rpc_with_header(service, method, "h", value),
            None => rpc(service, method),
        }
    })
}

/// A request that owns its parts.
#[derive(Clone, Debug)]
pub struct Asking {
    pub host: String,
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, String)>,
}

impl Asking {
    pub fn request(&self) -> Request<'_> {
        Request {
            host: Some(&self.host),
            method: &self.method,
            path: &self.path,
            query: Some(&self.query),
            headers: &self.headers,
        }
    }
}

pub fn asking() -> impl Strategy<Value = Asking> {
    let headers = vec((select(vec!["h", "I"]), select(vec!["1", "2", "3"])), 0..3);
    let query = select(vec!["", "q=1", "q=2&q=1", "x&q=%31"]);
    (select(&ASKED[..]), select(vec!["GET", "POST"]), select(&PATHS[..]), query, headers, any::<bool>())
        .prop_map(|(host, method, path, query, headers, grpc)| {
            let headers = headers.into_iter().chain(grpc.then_some(("content-type", "application/grpc")));
            Asking {
                host: host.into(),
                method: method.into(),
                path: path.into(),
                query: query.into(),
                headers: headers.map(|(name, value)| (name.into(), value.into())).collect(),
            }
        })
}
