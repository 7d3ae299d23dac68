//! Plans and flows in few words, for tests and benchmarks. Everything lives in namespace `default`, on Gateway
//! `gw`; a backend has the name of its route and rule, so that a decision can be read as a string.

// Each test file uses its own part of this, and clippy does not see that all of it is tests.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::net::{IpAddr, SocketAddr};

use tidegate_plan::*;

pub fn plan(parts: impl IntoIterator<Item = Body>) -> Plan {
    let mut plan = Plan::default();
    parts.into_iter().for_each(|part| plan.insert(part));
    plan
}

pub fn tables(parts: impl IntoIterator<Item = Body>) -> Tables {
    Tables::new(&plan(parts))
}

pub fn listener_id(name: &str) -> ListenerId {
    ListenerId { gateway: ObjectName::new("default", "gw"), listener_set: None, name: name.into() }
}

pub fn hostname(text: &str) -> Hostname {
    Hostname::parse(text).unwrap()
}

pub fn protocol(name: &str) -> ApplicationProtocol {
    ApplicationProtocol::parse(name).unwrap()
}

fn listener(name: &str, port: u16, hostname: &str, handling: Handling) -> Listener {
    Listener {
        id: listener_id(name),
        addresses: vec![],
        port,
        hostname: (!hostname.is_empty()).then(|| self::hostname(hostname)),
        handling,
        external_auth: vec![],
        refuse: None,
    }
}

/// A listener; an empty hostname is none.
pub fn http(name: &str, hostname: &str) -> Body {
    Body::Listener(listener(name, 80, hostname, Handling::Http))
}

pub fn https(name: &str, hostname: &str) -> Body {
    Body::Listener(listener(name, 443, hostname, Handling::Https(certificates(&[&["a.example"]]))))
}

pub fn passthrough(name: &str, hostname: &str) -> Body {
    Body::Listener(listener(name, 443, hostname, Handling::Passthrough))
}

pub fn terminate(name: &str, hostname: &str) -> Body {
    Body::Listener(listener(name, 443, hostname, Handling::Terminate(certificates(&[&["a.example"]]))))
}

pub fn tcp(name: &str, port: u16) -> Body {
    Body::Listener(listener(name, port, "", Handling::Tcp))
}

pub fn udp(name: &str, port: u16) -> Body {
    Body::Listener(listener(name, port, "", Handling::Udp))
}

/// One certificate for each list of names; its Secret is called `cert-0`, `cert-1` and so on.
pub fn certificates(names: &[&[&str]]) -> ServerTls {
    let certificate = |(index, names): (usize, &&[&str])| Certificate {
        id: BlobId(format!("blob-{index}").into()),
        secret: ObjectName::new("default", format!("cert-{index}")),
        names: names.iter().map(|name| hostname(name)).collect(),
        not_after: 0,
    };
    let certificates = names.iter().enumerate().map(certificate).collect();
    ServerTls { certificates, ..ServerTls::default() }
}

pub trait ChangeListener {
    fn change(self, change: impl FnOnce(&mut Listener)) -> Body;
    fn at(self, address: &str) -> Body;
    fn port(self, port: u16) -> Body;
    fn refuse(self, reason: Reason) -> Body;
}

impl ChangeListener for Body {
    fn change(mut self, change: impl FnOnce(&mut Listener)) -> Body {
        match &mut self {
            Body::Listener(listener) => change(listener),
            _ => panic!("not a listener"),
        }
        self
    }

    fn at(self, address: &str) -> Body {
        self.change(|listener| listener.addresses.push(address.parse().unwrap()))
    }

    fn port(self, port: u16) -> Body {
        self.change(|listener| listener.port = port)
    }

    fn refuse(self, reason: Reason) -> Body {
        self.change(|listener| listener.refuse = Some(reason))
    }
}

pub fn route_id(kind: RouteKind, name: &str) -> RouteId {
    RouteId { kind, object: ObjectName::new("default", name) }
}

fn route(kind: RouteKind, name: &str, listeners: &[&str], hostnames: &[&str], rules: Rules) -> Body {
    Body::Route(Route {
        id: route_id(kind, name),
        created: 0,
        listeners: listeners.iter().map(|name| listener_id(name)).collect(),
        hostnames: hostnames.iter().map(|name| hostname(name)).collect(),
        rules,
    })
}

pub fn group(name: &str) -> Group {
    let id = BackendId {
        kind: BackendKind::Service,
        object: ObjectName::new("default", name),
        transport: Transport::Tcp,
        port: 80,
    };
    Group(vec![WeightedBackend { weight: 1, target: Target::Backend(id), filters: vec![] }])
}

fn stream(name: &str) -> Rules {
    Rules::Stream(StreamRule { name: None, backends: group(name) })
}

pub fn tls_route(name: &str, listener: &str, hostnames: &[&str]) -> Body {
    route(RouteKind::Tls, name, &[listener], hostnames, stream(name))
}

pub fn tcp_route(name: &str, listener: &str) -> Body {
    route(RouteKind::Tcp, name, &[listener], &[], stream(name))
}

pub fn udp_route(name: &str, listener: &str) -> Body {
    route(RouteKind::Udp, name, &[listener], &[], stream(name))
}

/// One rule for each list of matches.
pub fn http_route(name: &str, listener: &str, hostnames: &[&str], rules: &[&[HttpMatch]]) -> Body {
    let rule = |matches: &&[HttpMatch]| HttpRule {
        name: None,
        matches: matches.to_vec(),
        filters: vec![],
        backends: group(name),
        timeouts: Timeouts::default(),
        retry: None,
        session: None,
        refuse: None,
    };
    route(RouteKind::Http, name, &[listener], hostnames, Rules::Http(rules.iter().map(rule).collect()))
}

pub fn grpc_route(name: &str, listener: &str, hostnames: &[&str], rules: &[&[GrpcMatch]]) -> Body {
    let rule = |matches: &&[GrpcMatch]| GrpcRule {
        name: None,
        matches: matches.to_vec(),
        filters: vec![],
        backends: group(name),
        session: None,
        refuse: None,
    };
    route(RouteKind::Grpc, name, &[listener], hostnames, Rules::Grpc(rules.iter().map(rule).collect()))
}

pub trait ChangeRoute {
    fn change_route(self, change: impl FnOnce(&mut Route)) -> Body;
    fn created(self, seconds: i64) -> Body;
    fn namespace(self, namespace: &str) -> Body;
}

impl ChangeRoute for Body {
    fn change_route(mut self, change: impl FnOnce(&mut Route)) -> Body {
        match &mut self {
            Body::Route(route) => change(route),
            _ => panic!("not a route"),
        }
        self
    }

    fn created(self, seconds: i64) -> Body {
        self.change_route(|route| route.created = seconds)
    }

    fn namespace(self, namespace: &str) -> Body {
        self.change_route(|route| route.id.object.namespace = namespace.into())
    }
}

pub fn path(path: PathMatch) -> HttpMatch {
    HttpMatch { path, method: None, headers: vec![], query: vec![] }
}

pub fn exact(text: &str) -> HttpMatch {
    path(PathMatch::Exact(text.into()))
}

pub fn prefix(text: &str) -> HttpMatch {
    path(PathMatch::Prefix(text.into()))
}

pub fn regex(text: &str) -> HttpMatch {
    path(PathMatch::Regex(text.into()))
}

fn value(name: &str, value: &str) -> ValueMatch {
    let value = match value.strip_prefix('~') {
        Some(pattern) => TextMatch::Regex(pattern.into()),
        None => TextMatch::Exact(value.into()),
    };
    ValueMatch { name: name.into(), value }
}

/// A value that begins with `~` is a regular expression.
pub trait Conditions {
    fn header(self, name: &str, value: &str) -> Self;
    fn query(self, name: &str, value: &str) -> Self;
    fn method(self, method: &str) -> Self;
}

impl Conditions for HttpMatch {
    fn header(mut self, name: &str, text: &str) -> Self {
        self.headers.push(value(name, text));
        self
    }

    fn query(mut self, name: &str, text: &str) -> Self {
        self.query.push(value(name, text));
        self
    }

    fn method(mut self, method: &str) -> Self {
        self.method = Some(method.into());
        self
    }
}

/// `*` for either is none, and one that begins with `~` is a regular expression.
pub fn rpc(service: &str, method: &str) -> GrpcMatch {
    let name = |text: &str| (text != "*").then(|| value("", text).value);
    GrpcMatch { service: name(service), method: name(method), headers: vec![] }
}

pub fn rpc_with_header(service: &str, method: &str, header: &str, text: &str) -> GrpcMatch {
    GrpcMatch { headers: vec![value(header, text)], ..rpc(service, method) }
}

pub fn local(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().unwrap(), port)
}

pub fn hello_to(local: SocketAddr, sni: Option<&str>) -> Connection<'_> {
    Connection { local, transport: Transport::Tcp, hello: Some(Hello { sni, alpn: &[] }) }
}

/// A ClientHello on port 443.
pub fn hello(sni: Option<&str>) -> Connection<'_> {
    hello_to(local("10.0.0.1", 443), sni)
}

pub fn bytes(port: u16, transport: Transport) -> Connection<'static> {
    Connection { local: local("10.0.0.1", port), transport, hello: None }
}

/// A GET of `host/path?query`, without headers.
pub fn get<'a>(host: &'a str, target: &'a str) -> Request<'a> {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    Request { host: Some(host), method: "GET", path, query, headers: &() }
}

/// Who takes the connection: `listener -> route`, `listener` for HTTPS, `HTTP`, or the reason why not.
pub fn admitted(tables: &Tables, connection: &Connection<'_>) -> String {
    match tables.admit(connection, &mut ()) {
        Ok(Admission::Stream { listener, rule, .. }) => {
            format!("{} -> {}", listener.id.name, rule.route().id.object.name)
        }
        Ok(Admission::Https { listener, .. }) => listener.id.name.to_string(),
        Ok(Admission::Http) => "HTTP".to_owned(),
        Err(refusal) => refusal.reason.to_string(),
    }
}

/// Who takes the request: `listener -> route/rule/match`, or the status and the reason why not.
pub fn answered(tables: &Tables, inbound: &Inbound<'_>, request: &Request<'_>) -> String {
    match tables.matched(inbound, request, &mut ()) {
        Ok(matched) => {
            let route = &matched.rule.route().id.object.name;
            format!("{} -> {route}/{}/{}", matched.listener.id.name, matched.rule.index(), matched.which)
        }
        Err(refusal) => format!("{} {}", refusal.reason.http_status(), refusal.reason),
    }
}

/// A plain request to port 80.
pub fn plain(tables: &Tables, request: &Request<'_>) -> String {
    answered(tables, &Inbound { local: local("10.0.0.1", 80), https: None }, request)
}

/// A request on the HTTPS connection that this server name gave.
pub fn secure(tables: &Tables, sni: &str, request: &Request<'_>) -> String {
    let connection = hello(Some(sni));
    match tables.admit(&connection, &mut ()) {
        Ok(Admission::Https { listener, .. }) => {
            answered(tables, &Inbound { local: connection.local, https: Some(&listener.id) }, request)
        }
        other => panic!("{sni} is not HTTPS: {other:?}"),
    }
}
