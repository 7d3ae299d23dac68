//! A `tidegate run` of a test's own, on a loopback address that nobody else uses, with a folder that the test changes
//! and what Tidegate tells of itself. What is sent through it is the tests' concern.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod h2;
pub(crate) mod manifests;
pub(crate) mod tls;
pub(crate) mod traffic;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::process::Process;
use crate::support::{PATIENCE, wait_for};

/// Every address of 127.0.0.0/8 is this machine: on one of its own a test can have any port, in parallel with all
/// other tests.
pub(crate) fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id();
    Ipv4Addr::new(127, 128 | (process >> 8 & 127) as u8, process as u8, NEXT.fetch_add(1, Relaxed))
}

pub(crate) struct Tidegate {
    pub(crate) ip: Ipv4Addr,
    folder: TempDir,
    process: Process,
}

impl Tidegate {
    /// Waits until it is ready.
    pub(crate) fn start(files: &[(&str, &str)], flags: &[&str]) -> Self {
        Self::start_on(own_address(), files, flags)
    }

    pub(crate) fn start_on(ip: Ipv4Addr, files: &[(&str, &str)], flags: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_tidegate")), ip, files, flags)
    }

    /// `command` is the program with whatever must come before its arguments.
    pub(crate) fn start_by(
        mut command: Command,
        ip: Ipv4Addr,
        files: &[(&str, &str)],
        flags: &[&str],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("manifests")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join("manifests").join(name), text).unwrap();
        }
        command
            .current_dir(folder.path())
            .args(["run", "manifests", "--log-format=json", "--workers=2"])
            .args([format!("--bind={ip}"), format!("--admin={ip}:9900")])
            .args(flags);
        if !flags.iter().any(|flag| flag.starts_with("--access-log")) {
            command.arg("--access-log=access.log");
        }
        let mut started = Self { ip, folder, process: Process::start(&mut command) };
        wait_for("/readyz", || {
            started.process.assert_alive();
            started.ask("/readyz").filter(|answer| answer == "ready\n")
        });
        started
    }

    pub(crate) fn at(&self, port: u16) -> SocketAddr {
        (self.ip, port).into()
    }

    pub(crate) fn connect(&self, port: u16) -> TcpStream {
        traffic::connect(self.at(port))
    }

    // What is served.

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().join("manifests")
    }

    /// Puts a file in place of the one that is there, whole at every moment.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let beside = self.folder.path().join("new");
        fs::write(&beside, text).unwrap();
        fs::rename(&beside, self.folder().join(name)).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.folder().join(name)).unwrap();
    }

    /// Makes a change and waits until it is served.
    pub(crate) fn change(&self, make: impl FnOnce(&Self)) {
        let before = self.changes();
        make(self);
        wait_for("the change is taken", || (self.changes() > before).then_some(()));
    }

    pub(crate) fn changes(&self) -> u64 {
        self.metric("tidegate_manifest_changes_total") as u64
    }

    // What it tells.

    /// `None` where nobody answers.
    pub(crate) fn ask(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect((self.ip, 9900)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = wait_for("metrics", || self.ask("/metrics"));
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
    }

    pub(crate) fn ended(&self, reason: &str) -> u64 {
        self.metric(&format!("tidegate_connections_ended_total{{reason=\"{reason}\"}}")) as u64
    }

    pub(crate) fn limit_reached(&self, limit: &str) -> u64 {
        self.metric(&format!("tidegate_limit_reached_total{{limit=\"{limit}\"}}")) as u64
    }

    pub(crate) fn active(&self) -> u64 {
        self.metric("tidegate_connections_active") as u64
    }

    /// Waits until so many connections are there.
    pub(crate) fn wait_active(&self, count: u64) {
        wait_for(format!("{count} connections"), || (self.active() == count).then_some(()));
    }

    /// One object with its status.
    pub(crate) fn status(&self, kind: &str, name: &str) -> Value {
        let list: Value =
            serde_json::from_str(&wait_for("status", || self.ask("/status?output=json"))).unwrap();
        let objects = list["items"].as_array().unwrap();
        let object =
            objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        object.unwrap_or_else(|| panic!("no {kind} {name} in {list}")).clone()
    }

    /// `Programmed` of a listener of the Gateway `edge`: status and message.
    pub(crate) fn programmed(&self, listener: &str) -> (String, String) {
        let gateway = self.status("Gateway", "edge");
        let listeners = gateway["status"]["listeners"].as_array().unwrap();
        let listener = listeners.iter().find(|status| status["name"] == listener).unwrap();
        let conditions = listener["conditions"].as_array().unwrap();
        let condition = conditions.iter().find(|condition| condition["type"] == "Programmed").unwrap();
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        (text("status"), text("message"))
    }

    /// The lines of the access log so far.
    pub(crate) fn lines(&self) -> Vec<Value> {
        lines(&self.folder.path().join("access.log"))
    }

    /// The line about the connection of this client, once it has ended.
    pub(crate) fn line_of(&self, client: SocketAddr) -> Value {
        let client = client.to_string();
        wait_for(format!("a line about {client}"), || {
            self.lines().into_iter().find(|line| line["client"] == client.as_str())
        })
    }

    pub(crate) fn ending_of(&self, client: SocketAddr) -> String {
        self.line_of(client)["ending"].as_str().unwrap().to_owned()
    }

    pub(crate) fn own_log(&self) -> String {
        self.process.stderr()
    }

    pub(crate) fn wait_told(&mut self, what: &str) {
        self.process.says(what);
    }

    // The process.

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Processor time used so far.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = self.proc("stat");
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: u64 = [11, 12].map(|at: usize| fields[at].parse::<u64>().unwrap()).iter().sum();
        Duration::from_millis(ticks * 10)
    }

    /// The numbers of its open files.
    pub(crate) fn files(&self) -> BTreeSet<usize> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
    }

    fn proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.process.id())).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub(crate) fn wait_end(&mut self) -> ExitStatus {
        self.process.wait()
    }
}

impl Drop for Tidegate {
    /// Whatever a test did to it, no thread of it may have panicked.
    fn drop(&mut self) {
        let log = self.own_log();
        assert!(std::thread::panicking() || !log.contains("panicked"), "{log}");
    }
}

/// Whole lines of a JSON log; the last may be in the writing.
fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
