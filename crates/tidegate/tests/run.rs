//! `tidegate run` as a process: what it says, what it follows, how it ends.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

fn tidegate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

/// One that runs; whatever happens to the test, it ends.
struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
    /// The addresses of `--admin` and `--health`.
    addresses: Vec<SocketAddr>,
}

impl Running {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let mut child = tidegate()
            .arg("run")
            .arg(folder)
            .args(["--admin", "127.0.0.1:0", "--log-format", "json", "--access-log", "off"])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut running = Self { child, log, addresses: Vec::new() };
        let ready = running.wait_for("ready");
        let addresses = ready.split("http://").skip(1);
        running.addresses =
            addresses.map(|text| text.trim_end_matches([',', ' ']).parse().unwrap()).collect();
        running
    }

    /// Reads the log up to an event, and gives its message.
    fn wait_for(&mut self, event: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "it ended before {event}: {seen}");
            let entry: Value = serde_json::from_str(&line).unwrap();
            if entry["event"] == event {
                return entry["message"].as_str().unwrap().to_owned();
            }
            seen.push_str(&line);
        }
    }

    fn get(&self, path: &str) -> (u16, String) {
        ask(self.addresses[0], &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    fn objects(&self) -> Vec<Value> {
        let (code, body) = self.get("/status?output=json");
        assert_eq!(code, 200);
        serde_json::from_str::<Value>(&body).unwrap()["items"].as_array().unwrap().clone()
    }

    fn object(&self, kind: &str, name: &str) -> Option<Value> {
        self.objects().into_iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
    }

    fn command(&self, name: &str, more: &[&str]) -> Output {
        tidegate().args([name, "--admin", &self.addresses[0].to_string()]).args(more).output().unwrap()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    fn end(mut self) -> Option<i32> {
        self.signal("TERM");
        self.wait_for("ended");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The code and the body of what a server says to these bytes.
fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn gateway(port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: edge}}\nspec:\n  \
         gatewayClassName: tidegate\n  listeners:\n  - {{name: tls, port: {port}, protocol: TLS, tls: {{mode: Passthrough}}}}\n"
    )
}

fn route(name: &str, backend: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {{name: {name}}}\nspec:\n  \
         parentRefs: [{{name: edge}}]\n  hostnames: [{name}.example.com]\n  \
         rules: [{{backendRefs: [{{name: {backend}, port: 80}}]}}]\n---\napiVersion: v1\nkind: Service\n\
         metadata: {{name: {backend}, annotations: {{gateway.tidegate.io/endpoints: \"127.0.0.1:1\"}}}}\n\
         spec: {{ports: [{{port: 80}}]}}\n"
    )
}

/// A port of loopback that is taken for as long as the socket lives.
fn taken() -> (TcpListener, u16) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

/// One that nobody has.
fn free() -> u16 {
    taken().1
}

fn folder(files: &[(&str, String)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn replace(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join("new.tmp"), text).unwrap();
    fs::rename(folder.join("new.tmp"), folder.join(name)).unwrap();
}

fn programmed(status: &Value) -> (&str, &str, &str) {
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == "Programmed").unwrap();
    assert!(found["lastTransitionTime"].as_str().unwrap() > "2026");
    let text = |field: &str| found[field].as_str().unwrap();
    (text("status"), text("reason"), text("message"))
}

#[test]
fn changes_are_followed_and_mistakes_are_not() {
    let folder = folder(&[("gateway.yaml", gateway(free())), ("a.yaml", route("a", "web"))]);
    let mut running = Running::start(folder.path(), &["--bind", "127.0.0.1"]);
    let edge = running.object("Gateway", "edge").unwrap();
    assert_eq!(programmed(&edge["status"]).0, "True");
    assert_eq!(programmed(&edge["status"]["listeners"][0]).0, "True");
    assert_eq!(edge["status"]["addresses"][0]["value"], "127.0.0.1");

    replace(folder.path(), "b.yaml", &route("b", "other"));
    assert!(running.wait_for("applied").contains("TLSRoute default/b"));
    assert_eq!(running.object("Gateway", "edge").unwrap()["status"]["listeners"][0]["attachedRoutes"], 2);

    replace(folder.path(), "b.yaml", &route("b", "other").replace("b.example.com", "not a name"));
    let invalid = running.wait_for("invalid");
    assert!(invalid.contains("b.yaml:6") && invalid.contains("last good state"), "{invalid}");
    let kept = running.object("TLSRoute", "b").unwrap();
    assert_eq!(kept["spec"]["hostnames"][0], "b.example.com");
    assert!(kept["metadata"]["annotations"].to_string().contains("b.yaml:6"), "{kept}");
    assert!(running.get("/metrics").1.contains("tidegate_manifest_problems 1\n"));
    let table = running.command("status", &[]);
    assert_eq!(table.status.code(), Some(1));
    assert!(String::from_utf8(table.stdout).unwrap().contains("last good state"));

    fs::remove_file(folder.path().join("b.yaml")).unwrap();
    assert!(running.wait_for("applied").contains("removed"));
    assert!(running.object("TLSRoute", "b").is_none());
    assert_eq!(running.command("status", &[]).status.code(), Some(0));
    assert_eq!(running.end(), Some(0));
}

#[test]
fn a_port_that_somebody_has_is_told_and_the_others_serve() {
    let (_socket, port) = taken();
    let other = gateway(free()).replace("edge", "other");
    let folder = folder(&[("a.yaml", gateway(port)), ("b.yaml", other)]);
    let running = Running::start(folder.path(), &["--bind", "127.0.0.1"]);
    let edge = running.object("Gateway", "edge").unwrap();
    let (status, reason, message) = programmed(&edge["status"]["listeners"][0]);
    assert_eq!((status, reason), ("False", "PortUnavailable"));
    assert!(message.contains(&port.to_string()), "{message}");
    assert_eq!(programmed(&edge["status"]).0, "False");
    let other = running.object("Gateway", "other").unwrap();
    assert_eq!(programmed(&other["status"]).0, "True");
    assert_eq!(running.get("/readyz"), (200, "ready\n".to_owned()));
}

#[test]
fn a_hangup_reads_what_was_not_watched() {
    let folder = folder(&[("gateway.yaml", gateway(free()))]);
    let mut running = Running::start(folder.path(), &["--bind", "127.0.0.1", "--once"]);
    replace(folder.path(), "a.yaml", &route("a", "web"));
    running.signal("HUP");
    assert!(running.wait_for("applied").contains("TLSRoute default/a"));
    assert_eq!(running.end(), Some(0));
}

#[test]
fn the_admin_server_is_careful() {
    let folder = folder(&[("gateway.yaml", gateway(free()))]);
    let running = Running::start(folder.path(), &["--bind", "127.0.0.1", "--health", "127.0.0.1:0"]);
    let [admin, health] = running.addresses[..] else { panic!("{:?}", running.addresses) };
    for (path, on_admin, on_health) in [
        ("/healthz", 200, 200),
        ("/readyz", 200, 200),
        ("/metrics", 200, 200),
        ("/status", 200, 404),
        ("/refused", 200, 404),
        ("/status?output=xml", 400, 404),
        ("/", 200, 404),
        ("/../etc/passwd", 404, 404),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((ask(admin, &request).0, ask(health, &request).0), (on_admin, on_health), "{path}");
    }
    let request = |head: &str| ask(admin, &format!("{head}\r\nHost: a\r\n\r\n"));
    assert_eq!(request("POST /status HTTP/1.1\r\nContent-Length: 0").0, 405);
    assert_eq!(request("HEAD /healthz HTTP/1.1"), (200, String::new()));
    assert_eq!(request(&format!("GET / HTTP/1.1\r\nA: {}", "a".repeat(64 * 1024))).0, 431);
    assert!(request("GET /status HTTP/1.1").1.starts_with("apiVersion: v1\n"));
    assert!(request("GET /status HTTP/1.1\r\nAccept: application/json").1.starts_with('{'));
    assert!(!request("GET /status?output=table HTTP/1.1").1.contains('\x1b'), "colours nobody asked for");
    assert!(request("GET /status?output=table&color=always HTTP/1.1").1.contains('\x1b'));
    let refused = running.command("refused", &["-o", "json", "--last", "1"]);
    assert_eq!(
        serde_json::from_slice::<Value>(&refused.stdout).unwrap()["refused"],
        Value::Array(Vec::new())
    );
}

/// A listener on the admin port would never be reached, or worse.
#[test]
fn ports_of_its_own_are_none_for_listeners() {
    let folder = folder(&[("a.yaml", gateway(9900)), ("b.yaml", gateway(1900).replace("edge", "offset"))]);
    for (more, refused) in
        [(&[][..], "Gateway default/edge"), (&["--port-offset", "8000"], "Gateway default/offset")]
    {
        let output = tidegate().args(["run", "--dry-run"]).arg(folder.path()).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, not_served) = text.split_once("Not served as written").unwrap();
        assert!(not_served.contains(refused), "{text}");
    }
}

#[test]
fn a_dry_run_shows_no_port_that_cannot_be() {
    let folder = folder(&[("a.yaml", gateway(60_000))]);
    let output = tidegate().args(["run", "--dry-run", "--port-offset", "8000"]).arg(folder.path()).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(text.contains("port 60000: beyond 65535"), "{text}");
}

#[test]
fn what_keeps_it_from_starting_is_said() {
    let (_socket, port) = taken();
    let good = folder(&[("gateway.yaml", gateway(free()))]);
    let address = format!("127.0.0.1:{port}");
    let missing = good.path().join("missing");
    for (path, admin, named) in
        [(good.path(), address.as_str(), address.as_str()), (&missing, "127.0.0.1:0", "missing")]
    {
        let output = tidegate().arg("run").arg(path).args(["--admin", admin]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(named), "{text}");
    }
    let nobody = tidegate().args(["status", "--admin", &format!("127.0.0.1:{}", free())]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    assert!(String::from_utf8(nobody.stderr).unwrap().contains("tidegate run"));
}
