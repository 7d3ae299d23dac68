//! Certificates for the names on routes: made, served, kept over restarts, and shown by the commands.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "../loopback/mod.rs"]
mod loopback;
#[path = "../../../certs/tests/pebble/server.rs"]
mod pebble;
#[path = "../support/mod.rs"]
mod support;

mod acme;
mod commands;
mod renewal;

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::loopback::{Tidegate, own_address};
use crate::support::{backend, wait_for};

/// HTTPS and terminated TLS, neither with a hostname.
const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: tidegate
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: web}]}}
  - {name: tls, port: 8443, protocol: TLS, tls: {mode: Terminate, certificateRefs: [{name: bytes}]}}
";

fn service(port: u16) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata:
  name: site
  annotations: {{gateway.tidegate.io/endpoints: \"127.0.0.1:{port}\"}}
spec: {{ports: [{{port: 80}}]}}
"
    )
}

fn route(kind: &str, name: &str, section: &str, hostname: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  parentRefs: [{{name: edge, sectionName: {section}}}]
  hostnames: [{hostname}]
  rules: [{{backendRefs: [{{name: site, port: 80}}]}}]
"
    )
}

/// The certificate that a client which trusts the root is shown for a name, if it is let in.
fn shown(tidegate: &Tidegate, port: u16, name: &str, root: &Path) -> Option<String> {
    let asked = Command::new("openssl")
        .args(["s_client", "-verify_return_error", "-verify_hostname", name, "-servername", name])
        .args(["-connect", &tidegate.at(port).to_string(), "-CAfile"])
        .arg(root)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    let (_, rest) = text.split_once("-----BEGIN CERTIFICATE-----")?;
    asked.status.success().then(|| rest.split("-----END").next().unwrap().to_owned())
}

/// A TLS connection that stays open.
struct Session {
    client: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn begin(tidegate: &Tidegate, port: u16, name: &str) -> Self {
        let mut client = Command::new("openssl")
            .args(["s_client", "-servername", name, "-connect", &tidegate.at(port).to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let mut session = Self { client, lines };
        // The handshake is over when its certificate is told.
        assert!(session.says("-----END CERTIFICATE-----"));
        session
    }

    fn send(&mut self, text: &str) {
        self.client.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Whether this comes before the connection ends.
    fn says(&mut self, words: &str) -> bool {
        self.lines.any(|line| line.unwrap().contains(words))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

/// The status that curl gets over HTTPS, if it trusts what it is shown.
fn status(tidegate: &Tidegate, name: &str, root: &Path) -> Option<String> {
    let asked = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--noproxy", "*", "--cacert"])
        .arg(root)
        .args(["--connect-to", &format!("::{}", tidegate.at(443)), &format!("https://{name}/")])
        .output()
        .unwrap();
    asked.status.success().then(|| String::from_utf8(asked.stdout).unwrap())
}

/// What `tidegate certs` says, with its exit status.
fn certs(arguments: &[&str]) -> (Option<i32>, String) {
    let told = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("certs").args(arguments).output().unwrap();
    (told.status.code(), String::from_utf8(told.stdout).unwrap())
}

fn root(state: &Path) -> std::path::PathBuf {
    let root = state.with_extension("crt");
    let told =
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(["certs", "root", "--state"]).arg(state).output();
    let told = told.unwrap();
    let (pem, how) = (String::from_utf8(told.stdout).unwrap(), String::from_utf8(told.stderr).unwrap());
    assert!(
        pem.starts_with("-----BEGIN CERTIFICATE-----") && pem.matches("-----BEGIN").count() == 1,
        "{pem}"
    );
    assert!(how.contains("curl --cacert") && !how.contains("-----BEGIN"), "{how}");
    fs::write(&root, pem).unwrap();
    root
}

fn condition(tidegate: &Tidegate, listener: &str) -> Value {
    condition_of(tidegate, "edge", listener)
}

fn condition_of(tidegate: &Tidegate, gateway: &str, listener: &str) -> Value {
    let gateway = tidegate.status("Gateway", gateway);
    let listeners = gateway["status"]["listeners"].as_array().unwrap();
    let listener = listeners.iter().find(|status| status["name"] == listener).unwrap();
    let conditions = listener["conditions"].as_array().unwrap();
    let ours = |condition: &&Value| condition["type"] == "gateway.tidegate.io/CertificatesIssued";
    conditions.iter().find(ours).cloned().unwrap_or(Value::Null)
}

#[test]
fn a_route_that_is_added_is_served_and_a_restart_asks_for_nothing_again() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let flags = ["--certs=embedded", "--state", state.to_str().unwrap()];
    let backend = service(backend::site());
    let first = route("TLSRoute", "first", "tls", "a.example.com");
    let files = [("gateway.yaml", GATEWAY), ("service.yaml", &backend), ("first.yaml", &first)];
    let ip = own_address();
    let tidegate = Tidegate::start_on(ip, &files, &flags);
    let root = root(&state);
    let certificate = shown(&tidegate, 8443, "a.example.com", &root).expect("served when it is ready");
    assert_eq!(condition(&tidegate, "tls")["status"], "True");
    assert_eq!(condition(&tidegate, "https"), Value::Null, "nothing is wanted there");

    tidegate.write("second.yaml", &route("HTTPRoute", "second", "https", "b.example.com"));
    wait_for("the new name", || status(&tidegate, "b.example.com", &root).filter(|code| code == "200"));
    let page = tidegate.ask("/metrics").unwrap();
    assert!(
        page.contains("tidegate_certificate_not_after_seconds{namespace=\"default\",secret=\"web\""),
        "{page}"
    );
    let page = tidegate.ask("/status?output=table").unwrap();
    assert!(page.contains("Secret default/web (b.example.com; until 20"), "{page}");

    // Nobody is shown the certificate of another name; whoever came for the new one too early was not, either.
    let before = tidegate.ended("no_certificate");
    assert_eq!(status(&tidegate, "z.example.com", &root), None);
    wait_for("the reason", || (tidegate.ended("no_certificate") > before).then_some(()));

    // The commands look at the state beside its owner.
    let (state_text, folder_text) = (state.to_str().unwrap(), tidegate.folder());
    let (code, list) = certs(&["list", "--state", state_text]);
    assert!(code == Some(0) && list.contains("default/web") && list.contains("b.example.com"), "{list}");
    let plan = ["plan", folder_text.to_str().unwrap(), "--certs=embedded", "--state", state_text];
    let (code, plan) = certs(&plan);
    assert!(code == Some(0) && plan.contains("Secret default/web is there until"), "{plan}");
    assert!(plan.split_whitespace().collect::<Vec<_>>().join(" ").contains("(2/3 of life): "), "{plan}");

    // A second process is refused, and the first is not disturbed.
    let run = ["run", tidegate.folder().to_str().unwrap(), "--admin=127.0.0.1:0"].map(str::to_owned);
    let second = Command::new(env!("CARGO_BIN_EXE_tidegate")).args(run).args(flags).output().unwrap();
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(2) && told.contains("in use by another process"), "{told}");
    drop(tidegate);

    // Killed and started again, it has what it had.
    let again = Tidegate::start_on(ip, &files, &flags);
    assert_eq!(shown(&again, 8443, "a.example.com", &root).unwrap(), certificate);
    assert_eq!(again.metric("tidegate_certificate_orders_total") as u64, 0);
}

#[test]
fn short_lives_are_renewed_under_live_connections_and_strangers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let flags = ["--certs=embedded", "--leaf-lifetime=6s", "--state", state.to_str().unwrap()];
    let backend = service(backend::site());
    let first = route("TLSRoute", "first", "tls", "a.example.com");
    let files = [("gateway.yaml", GATEWAY), ("service.yaml", backend.as_str()), ("first.yaml", &first)];
    let tidegate = Tidegate::start(&files, &flags);
    let root = root(&state);
    let before = shown(&tidegate, 8443, "a.example.com", &root).unwrap();
    let mut live = Session::begin(&tidegate, 8443, "a.example.com");
    wait_for("the next certificate", || {
        shown(&tidegate, 8443, "a.example.com", &root).filter(|now| *now != before)
    });
    // Who came before stays connected.
    live.send("GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n");
    assert!(live.says("HTTP/1.1 200"));
    assert_eq!(shown(&tidegate, 8443, "z.example.com", &root), None);
}

#[test]
fn a_secret_that_is_not_ours_is_used_and_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let flags = ["--certs=embedded", "--state", state.to_str().unwrap()];
    let authority = support::certificate::Authority::new("somebody else's");
    let secret = support::manifest::secret("bytes", &authority.issue(&["a.example.com"]));
    let backend = service(backend::site());
    let first = route("TLSRoute", "first", "tls", "a.example.com");
    let files = [
        ("gateway.yaml", GATEWAY),
        ("service.yaml", &backend),
        ("first.yaml", &first),
        ("secret.yaml", &secret),
    ];
    let tidegate = Tidegate::start(&files, &flags);
    let theirs = authority.write(folder.path());
    assert!(shown(&tidegate, 8443, "a.example.com", &theirs).is_some());
    assert!(fs::read_dir(state.join("certificates")).unwrap().next().is_none());
    tidegate.remove("secret.yaml");
    let root = root(&state);
    wait_for("one of ours in its place", || shown(&tidegate, 8443, "a.example.com", &root));
}

#[test]
fn a_stand_in_is_shown_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    // A CA that nobody is at.
    let away = format!("--acme-directory=https://localhost:{}/dir", support::port::free());
    let flags = ["--certs=acme", &away, "--until-issued=stand-in", "--state", state.to_str().unwrap()];
    let backend = service(backend::site());
    let first = route("TLSRoute", "first", "tls", "a.example.com");
    let files = [("gateway.yaml", GATEWAY), ("service.yaml", backend.as_str()), ("first.yaml", &first)];
    let tidegate = Tidegate::start(&files, &flags);
    let told = wait_for("the failure", || {
        let condition = condition(&tidegate, "tls");
        (condition["reason"] == "IssuanceFailed" || condition["reason"] == "Pending").then_some(condition)
    });
    assert_eq!(told["status"], "False");
    let asked = Command::new("openssl")
        .args(["s_client", "-servername", "a.example.com", "-connect", &tidegate.at(8443).to_string()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(text.contains("Tidegate stand-in"), "{text}");
}

#[test]
fn a_gateway_whose_issuer_is_not_there_says_what_to_do() {
    let asking = "metadata: {name: edge, annotations: {gateway.tidegate.io/issuer: embedded}}";
    let gateway = GATEWAY.replace("metadata: {name: edge}", asking);
    let backend = service(backend::site());
    let web = route("HTTPRoute", "web", "https", "a.example.com");
    let tidegate =
        Tidegate::start(&[("gateway.yaml", &gateway), ("service.yaml", &backend), ("web.yaml", &web)], &[]);
    let told = condition(&tidegate, "https");
    assert_eq!((&told["status"], &told["reason"]), (&"False".into(), &"IssuanceFailed".into()));
    assert!(told["message"].as_str().unwrap().contains("start with --certs and --state"), "{told}");
}
