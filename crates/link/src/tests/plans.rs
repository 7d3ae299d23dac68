//! Plans in few words. Services have the name of their route.

use std::sync::Arc;

use tidegate_plan::*;

pub(crate) fn gateway() -> ObjectName {
    ObjectName::new("default", "gw")
}

pub(crate) fn listener_id(gateway: &ObjectName, name: &str) -> ListenerId {
    ListenerId { gateway: gateway.clone(), listener_set: None, name: name.into() }
}

pub(crate) fn listener(gateway: &ObjectName, name: &str, port: u16, handling: Handling) -> Body {
    Body::Listener(Listener {
        id: listener_id(gateway, name),
        addresses: vec![],
        port,
        hostname: None,
        handling,
        external_auth: vec![],
        refuse: None,
    })
}

pub(crate) fn endpoints_id(name: &str) -> EndpointsId {
    EndpointsId { service: ObjectName::new("default", name), port: "".into() }
}

fn backend_id(name: &str) -> BackendId {
    let object = ObjectName::new("default", name);
    BackendId { kind: BackendKind::Service, object, port: 80, transport: Transport::Tcp }
}

pub(crate) fn endpoints(name: &str, ports: &[u16]) -> Arc<Endpoints> {
    let endpoint = |&port: &u16| Endpoint {
        address: [127, 0, 0, 1].into(),
        port,
        state: EndpointState::Ready,
        zone: None,
    };
    Arc::new(Endpoints { id: endpoints_id(name), endpoints: ports.iter().map(endpoint).collect() })
}

/// A TCPRoute with its Service.
pub(crate) fn add_route(plan: &mut Plan, name: &str, listener: &ListenerId, ports: &[u16]) {
    let target = Target::Backend(backend_id(name));
    let backends = Group(vec![WeightedBackend { weight: 1, target, filters: vec![] }]);
    plan.insert(Body::Route(Route {
        id: RouteId { kind: RouteKind::Tcp, object: ObjectName::new("default", name) },
        created: 0,
        listeners: vec![listener.clone()],
        hostnames: vec![],
        rules: Rules::Stream(StreamRule { name: None, backends }),
    }));
    plan.insert(Body::Backend(Backend {
        id: backend_id(name),
        addresses: Addresses::Endpoints(endpoints_id(name)),
        protocol: Protocol::Unspecified,
        upstream: Upstream::Plain,
        affinity: None,
        session: None,
        retry_budget: None,
        prefer_close: false,
        allow_loopback: true,
    }));
    plan.endpoints.insert(endpoints_id(name), endpoints(name, ports));
}

/// A Gateway with a TCP listener `tcp` and so many routes.
pub(crate) fn plan(gateway: &ObjectName, routes: usize) -> Plan {
    let mut plan = Plan::default();
    plan.insert(Body::Gateway(Gateway { id: gateway.clone(), client_certificate: None }));
    plan.insert(listener(gateway, "tcp", 9000, Handling::Tcp));
    for number in 0..routes {
        add_route(&mut plan, &format!("web-{number}"), &listener_id(gateway, "tcp"), &[8080]);
    }
    plan
}

/// A listener that terminates TLS with a key of its own.
pub(crate) fn add_terminating(plan: &mut Plan, gateway: &ObjectName, name: &str, key: &[u8]) {
    let blob = Blob::Key(CertifiedKey { chain: vec![b"certificate".to_vec()], key: key.to_vec() });
    let certificate = Certificate {
        id: blob.id(),
        secret: ObjectName::new("default", "secret"),
        names: vec![],
        not_after: 0,
    };
    plan.blobs.insert(blob.id(), Arc::new(blob));
    let tls = ServerTls { certificates: vec![certificate], ..ServerTls::default() };
    plan.insert(listener(gateway, name, 443, Handling::Terminate(tls)));
}

pub(crate) fn version(version: u64, plan: &Plan) -> GatewayPlan {
    GatewayPlan { gateway: gateway(), version, plan: plan.clone(), settings: DataPlaneSettings::default() }
}
