//! `tidegate proxy` as a process, and a controller's side of the link in the test: real TLS, real sockets, real bytes.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use support::process::Process;
use support::{PATIENCE, backend, port, wait_for};
use tempfile::TempDir;
use tidegate_link::{
    Authority, Denied, Event, Limits, ProxyIdentity, Publisher, Reports, Server, Tokens, Trust,
};
use tidegate_plan::*;
use tokio::runtime::Runtime;

struct OneToken;

impl Tokens for OneToken {
    async fn review(&self, token: &str) -> Result<ProxyIdentity, Denied> {
        match token {
            "good" => Ok(ProxyIdentity { gateway: gateway(), pod: "edge-1".to_owned() }),
            _ => Err(Denied::Refused("no such token".to_owned())),
        }
    }
}

struct Controller {
    runtime: Runtime,
    server: Server,
    publisher: Publisher,
    reports: Reports,
    address: SocketAddr,
}

impl Controller {
    fn start(authority: &Authority, address: SocketAddr) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let authority = Authority::from_pem(&authority.certificate_pem(), &authority.key_pem()).unwrap();
        let (server, publisher, reports, address) = runtime.block_on(async {
            let socket = tokio::net::TcpListener::bind(address).await.unwrap();
            let address = socket.local_addr().unwrap();
            let (server, publisher, reports) =
                Server::start(socket, Trust::new(authority), OneToken, Limits::default()).unwrap();
            (server, publisher, reports, address)
        });
        Self { runtime, server, publisher, reports, address }
    }

    fn served(&mut self, version: u64) -> Report {
        self.runtime.block_on(async {
            let served = async {
                loop {
                    match self.reports.next().await.unwrap() {
                        Event::Report(report) if report.version >= version => return report,
                        _ => {}
                    }
                }
            };
            tokio::time::timeout(PATIENCE, served).await.unwrap()
        })
    }

    fn stop(self) {
        let Self { runtime, server, .. } = self;
        runtime.block_on(server.stop());
    }
}

fn gateway() -> ObjectName {
    ObjectName::new("infra", "edge")
}

/// TCP listeners, each with a route to a backend on this machine.
fn plan(listeners: &[(&str, u16, u16)]) -> Plan {
    let mut plan = Plan::default();
    plan.insert(Body::Gateway(Gateway { id: gateway(), client_certificate: None }));
    for &(name, port, backend) in listeners {
        let id = ListenerId { gateway: gateway(), listener_set: None, name: name.into() };
        let object = ObjectName::new("infra", name);
        let endpoints = EndpointsId { service: object.clone(), port: "".into() };
        let service = BackendId {
            kind: BackendKind::Service,
            object: object.clone(),
            port: 80,
            transport: Transport::Tcp,
        };
        plan.insert(Body::Listener(Listener {
            id: id.clone(),
            addresses: vec![],
            port,
            hostname: None,
            handling: Handling::Tcp,
            external_auth: vec![],
            refuse: None,
        }));
        let target = Target::Backend(service.clone());
        plan.insert(Body::Route(Route {
            id: RouteId { kind: RouteKind::Tcp, object },
            created: 0,
            listeners: vec![id],
            hostnames: vec![],
            rules: Rules::Stream(StreamRule {
                name: None,
                backends: Group(vec![WeightedBackend { weight: 1, target, filters: vec![] }]),
            }),
        }));
        plan.insert(Body::Backend(Backend {
            id: service,
            addresses: Addresses::Endpoints(endpoints.clone()),
            protocol: Protocol::Unspecified,
            upstream: Upstream::Plain,
            affinity: None,
            session: None,
            retry_budget: None,
            prefer_close: false,
            allow_loopback: true,
        }));
        let address = Ipv4Addr::LOCALHOST.into();
        let endpoint = Endpoint { address, port: backend, state: EndpointState::Ready, zone: None };
        let made = Endpoints { id: endpoints.clone(), endpoints: vec![endpoint] };
        plan.endpoints.insert(endpoints, Arc::new(made));
    }
    plan
}

fn version(version: u64, plan: Plan) -> GatewayPlan {
    GatewayPlan { gateway: gateway(), version, plan, settings: DataPlaneSettings::default() }
}

/// `tidegate proxy` on loopback.
struct DataPlane {
    process: Process,
    admin: SocketAddr,
    health: SocketAddr,
    _folder: TempDir,
}

impl DataPlane {
    fn start(controller: SocketAddr, authority: &Authority, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("proxy").args(["--controller", &controller.to_string(), "--name", "edge-1"]);
        command.arg("--ca").arg(file("ca.pem", &authority.certificate_pem()));
        command.arg("--token").arg(file("token", "good\n"));
        command.args(["--bind", "127.0.0.1", "--admin", "127.0.0.1:0", "--health", "127.0.0.1:0"]);
        command.args(["--workers", "2", "--access-log", "off"]).args(arguments);
        if !arguments.contains(&"--drain") {
            command.args(["--drain", "5s"]);
        }
        let mut process = Process::start(&mut command);
        let line = process.says("status and metrics at http://");
        let mut addresses =
            line.split("http://").skip(1).map(|rest| rest.split(',').next().unwrap().trim().parse().unwrap());
        let (admin, health) = (addresses.next().unwrap(), addresses.next().unwrap());
        Self { process, admin, health, _folder: folder }
    }

    fn get(&self, path: &str) -> (u16, String) {
        get(self.admin, path)
    }

    fn ready(&self) {
        wait_for("/readyz", || (get(self.health, "/readyz").0 == 200).then_some(()));
    }

    fn terminate(mut self) {
        self.process.signal(Signal::TERM);
        assert!(self.process.wait().success());
    }
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn echoes(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"hello")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"hello");
    Ok(())
}

fn authority() -> Authority {
    Authority::generate(Duration::from_secs(3600)).unwrap()
}

const ANYWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[test]
fn traffic_goes_on_without_a_controller_and_changes_come_with_the_next() {
    let (authority, echo) = (authority(), backend::echo());
    let (first, second) = (port::free(), port::free());
    let mut controller = Controller::start(&authority, ANYWHERE);
    let address = controller.address;
    let proxy = DataPlane::start(address, &authority, &["--pre-stop-delay", "0s"]);
    assert_eq!(get(proxy.health, "/healthz").0, 200);
    assert_eq!(get(proxy.health, "/readyz"), (503, "starting\n".to_owned()), "there is no plan yet");
    assert_eq!(get(proxy.health, "/status").0, 404, "that is not for everybody");

    controller.publisher.publish(version(1, plan(&[("one", first, echo)])));
    let report = controller.served(1);
    assert_eq!((&*report.proxy, report.failed, report.listeners.len()), ("edge-1", None, 1));
    assert!(report.listeners.values().all(Result::is_ok));
    proxy.ready();
    let mut live = connect(first);
    echoes(&mut live).unwrap();

    controller.stop();
    wait_for("the loss to be noticed", || {
        proxy.get("/metrics").1.contains("tidegate_link_connected 0").then_some(())
    });
    echoes(&mut live).unwrap();
    echoes(&mut connect(first)).unwrap();
    assert_eq!(get(proxy.health, "/readyz").0, 200);

    let mut controller = Controller::start(&authority, address);
    controller.publisher.publish(version(1, plan(&[("one", first, echo), ("two", second, echo)])));
    controller.served(1);
    echoes(&mut connect(second)).unwrap();
    echoes(&mut live).unwrap();
    let (status, body) = proxy.get("/status");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["connected"], &body["version"]), (200, &true.into(), &1.into()));
    assert_eq!(body["listeners"].as_array().unwrap().len(), 2);
    assert!(proxy.get("/plan").1.contains("\"one\""));
    drop(live);
    proxy.terminate();
}

#[test]
fn a_port_that_somebody_has_is_reported_and_the_rest_serves() {
    let (authority, echo) = (authority(), backend::echo());
    let (open, taken) = (port::free(), backend::echo());
    let mut controller = Controller::start(&authority, ANYWHERE);
    let wanted = plan(&[("open", open, echo), ("taken", taken, echo)]);
    controller.publisher.publish(version(1, wanted));
    let proxy = DataPlane::start(controller.address, &authority, &["--pre-stop-delay", "0s"]);
    let report = controller.served(1);
    let id = |name: &str| ListenerId { gateway: gateway(), listener_set: None, name: name.into() };
    assert_eq!(report.listeners[&id("open")], Ok(()));
    assert!(report.listeners[&id("taken")].as_ref().unwrap_err().contains(&taken.to_string()));
    proxy.ready();
    echoes(&mut connect(open)).unwrap();
    proxy.terminate();
}

#[test]
fn bounds_change_while_it_runs() {
    let (authority, echo, port) = (authority(), backend::echo(), port::free());
    let mut controller = Controller::start(&authority, ANYWHERE);
    controller.publisher.publish(version(1, plan(&[("one", port, echo)])));
    let proxy = DataPlane::start(controller.address, &authority, &["--pre-stop-delay", "0s"]);
    controller.served(1);
    let mut live = connect(port);
    echoes(&mut live).unwrap();
    let mut bounded = version(2, plan(&[("one", port, echo)]));
    bounded.settings.bounds.connections = Some(1);
    bounded.settings.log_level = Some(LogLevel::Warning);
    controller.publisher.publish(bounded);
    controller.served(2);
    wait_for("the bound to hold", || echoes(&mut connect(port)).is_err().then_some(()));
    echoes(&mut live).unwrap();
    controller.publisher.publish(version(3, plan(&[("one", port, echo)])));
    controller.served(3);
    wait_for("the bound to be gone", || echoes(&mut connect(port)).ok());
    drop(live);
    proxy.terminate();
}

#[test]
fn it_goes_on_accepting_for_a_while_after_sigterm() {
    let (authority, echo, port) = (authority(), backend::echo(), port::free());
    let mut controller = Controller::start(&authority, ANYWHERE);
    controller.publisher.publish(version(1, plan(&[("one", port, echo)])));
    let mut proxy = DataPlane::start(controller.address, &authority, &["--pre-stop-delay", "3s"]);
    controller.served(1);
    proxy.ready();
    proxy.process.signal(Signal::TERM);
    wait_for("readiness to go", || (get(proxy.health, "/readyz").0 == 503).then_some(()));
    echoes(&mut connect(port)).unwrap();
    assert!(proxy.process.wait().success());
}

/// Its sockets are closed then, which is no trouble of the Gateway's: others serve it.
#[test]
fn one_that_drains_reports_no_listener_as_failed() {
    let (authority, echo) = (authority(), backend::echo());
    let (first, second) = (port::free(), port::free());
    let mut controller = Controller::start(&authority, ANYWHERE);
    controller.publisher.publish(version(1, plan(&[("one", first, echo)])));
    let mut proxy =
        DataPlane::start(controller.address, &authority, &["--pre-stop-delay", "0s", "--drain", "60s"]);
    controller.served(1);
    let mut live = connect(first);
    echoes(&mut live).unwrap();
    proxy.process.signal(Signal::TERM);
    proxy.process.says("to end");
    wait_for("the port is closed", || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, first)).is_err().then_some(())
    });
    controller.publisher.publish(version(2, plan(&[("one", first, echo), ("two", second, echo)])));
    let report = controller.served(2);
    assert_eq!((report.listeners.len(), report.failed), (2, None));
    assert!(report.listeners.values().all(Result::is_ok), "{:?}", report.listeners);
    echoes(&mut live).unwrap();
    drop(live);
    assert!(proxy.process.wait().success());
}

#[test]
fn it_starts_from_the_plan_it_kept() {
    let (authority, echo, port) = (authority(), backend::echo(), port::free());
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let arguments = ["--pre-stop-delay", "0s", "--cache", cache.to_str().unwrap()];
    let mut controller = Controller::start(&authority, ANYWHERE);
    let address = controller.address;
    controller.publisher.publish(version(1, plan(&[("one", port, echo)])));
    let proxy = DataPlane::start(address, &authority, &arguments);
    controller.served(1);
    wait_for("the plan on disk", || Path::new(&cache).join("plan").exists().then_some(()));
    proxy.terminate();
    controller.stop();

    let proxy = DataPlane::start(address, &authority, &arguments);
    proxy.ready();
    echoes(&mut connect(port)).unwrap();
    proxy.terminate();
}
