//! The examples as their READMEs run them: backends, `tidegate run`, and what a client gets.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::{port, wait_for};
use tempfile::TempDir;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
/// As the READMEs have it.
const OFFSET: u16 = 8000;

#[test]
fn passthrough() {
    run_as_written("passthrough");
}

#[test]
fn terminate() {
    run_as_written("terminate");
}

#[test]
fn mixed() {
    run_as_written("mixed");
}

#[test]
fn tcp_and_udp() {
    run_as_written("tcp-and-udp");
}

#[test]
fn http() {
    run_as_written("http");
}

#[test]
fn grpc() {
    run_as_written("grpc");
}

#[test]
fn reencrypt() {
    run_as_written("reencrypt");
}

/// Starts what a README starts and tries what it tries, on other ports.
fn run_as_written(example: &str) {
    let readme = fs::read_to_string(format!("{EXAMPLES}/{example}/README.md")).unwrap();
    let (servers, steps) = commands(&readme);
    assert!(servers.len() >= 2 && steps.len() >= 2, "{servers:?} {steps:?}");
    let place = Place::new(example);
    let _running: Vec<Server> = servers.iter().map(|server| place.start(server)).collect();
    for (step, expected) in &steps {
        place.take(step, expected);
    }
}

/// An example of one's own, with ports that nobody has.
struct Place {
    folder: TempDir,
    ports: BTreeMap<u16, u16>,
    admin: String,
}

impl Place {
    fn new(example: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let examples = folder.path().join("examples");
        copy(Path::new(&format!("{EXAMPLES}/{example}")), &examples.join(example));
        fs::copy(format!("{EXAMPLES}/ca.crt"), examples.join("ca.crt")).unwrap();
        let ports = move_ports(&examples.join(example));
        Self { folder, ports, admin: format!("--admin 127.0.0.1:{}", port::free()) }
    }

    /// Starts a server and waits until it serves.
    fn start(&self, server: &str) -> Server {
        let (folder, moved) = (self.folder.path(), with_ports(server, &self.ports));
        if server.starts_with("tidegate run") {
            let started = Server::start(&format!("{moved} {} --access-log off 2> log", self.admin), folder);
            let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
            wait_for(server, || log().contains("serving;").then_some(()));
            assert!(!log().contains("Not served"), "{}", log());
            return started;
        }
        let started = Server::start(&moved, folder);
        // Its ports are in the command, or in a file that it names.
        let files = moved.split(' ').map(|word| fs::read_to_string(folder.join(word)).unwrap_or_default());
        let told = files.chain([moved.clone()]).collect::<String>();
        let port = self.ports.values().find(|port| told.contains(&port.to_string())).unwrap();
        let table = if server.contains("UDP") { "udp" } else { "tcp" };
        wait_for(server, || is_bound(table, *port).then_some(()));
        started
    }

    /// Does a step; what it prints must have these words, or be nothing.
    fn take(&self, step: &str, expected: &[String]) {
        let (folder, moved) = (self.folder.path(), with_ports(step, &self.ports));
        if let Some(more) = moved.strip_prefix("tidegate refused") {
            let ask = format!("tidegate refused {}{more}", self.admin);
            // A connection is written down just after the client was told.
            wait_for(step, || {
                let (stdout, _) = shell(&ask, folder);
                expected.iter().all(|words| stdout.contains(words)).then_some(())
            });
            return;
        }
        let (stdout, stderr) = shell(&moved, folder);
        assert!(!expected.is_empty() || stdout.is_empty(), "{step}: {stdout}");
        for words in expected {
            let found = stdout.contains(words) || stderr.contains(words);
            assert!(found, "{step}: no {words:?} in\n{stdout}{stderr}");
        }
    }
}

/// Of a README: lines that end in `&`, and lines that begin with `$`, each with the lines below it.
fn commands(readme: &str) -> (Vec<String>, Vec<(String, Vec<String>)>) {
    let (_, run) = readme.split_once("## Run it").unwrap();
    let (mut servers, mut steps) = (Vec::new(), Vec::<(String, Vec<String>)>::new());
    for block in run.split("```").skip(1).step_by(2) {
        for line in block.lines().filter(|line| !line.is_empty()) {
            if let Some(server) = line.strip_suffix(" &") {
                servers.push(server.to_owned());
            } else if let Some(step) = line.strip_prefix("$ ") {
                steps.push((step.to_owned(), Vec::new()));
            } else {
                steps.last_mut().unwrap().1.push(line.to_owned());
            }
        }
    }
    (servers, steps)
}

/// Gives every listener and endpoint of an example a port that nobody has, and tells which one for which.
fn move_ports(folder: &Path) -> BTreeMap<u16, u16> {
    let mut ports = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "yaml" && extension != "conf") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let mut moved = String::new();
        for line in text.lines() {
            let listener = line.trim().strip_prefix("port: ").filter(|_| file.ends_with("gateway.yaml"));
            if let Some(port) = listener.map(|port| port.parse::<u16>().unwrap()) {
                let free = *ports.entry(port + OFFSET).or_insert_with(port::free);
                moved.push_str(&line.replace(&port.to_string(), &(free - OFFSET).to_string()));
            } else {
                for (_, after) in line.match_indices("127.0.0.1:").map(|(at, _)| line.split_at(at + 10)) {
                    let digits = after.split(|c: char| !c.is_ascii_digit()).next().unwrap();
                    ports.entry(digits.parse().unwrap()).or_insert_with(port::free);
                }
                moved.push_str(&with_ports(line, &ports));
            }
            moved.push('\n');
        }
        fs::write(&file, moved).unwrap();
    }
    ports
}

/// The same text with other ports wherever they follow `127.0.0.1:` or `LISTEN:` and the like.
fn with_ports(text: &str, ports: &BTreeMap<u16, u16>) -> String {
    let mut parts = text.split(':');
    let mut moved = parts.next().unwrap().to_owned();
    for part in parts {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap();
        let port = digits.parse().ok().and_then(|port: u16| ports.get(&port));
        let new = port.map(ToString::to_string);
        moved.push(':');
        moved.push_str(new.as_deref().unwrap_or(digits));
        moved.push_str(&part[digits.len()..]);
    }
    moved
}

fn is_bound(table: &str, port: u16) -> bool {
    let sockets = fs::read_to_string(format!("/proc/net/{table}")).unwrap();
    sockets.contains(&format!(" 0100007F:{port:04X} 00000000:0000 "))
}

/// What a command writes to standard output and to standard error.
fn shell(command: &str, folder: &Path) -> (String, String) {
    let mut shell = Command::new("timeout");
    shell.args(["60", "bash", "-c", command]).stdin(Stdio::null());
    let output = in_folder(&mut shell, folder).output().unwrap();
    assert_ne!(output.status.code(), Some(124), "it does not end: {command}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// With `tidegate` where a shell finds it.
fn in_folder<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap().display();
    command.current_dir(folder).env("PATH", format!("{binary}:{}", std::env::var("PATH").unwrap()))
}

/// A process that ends with the test, and with it all that it started.
struct Server(Child);

impl Server {
    fn start(command: &str, folder: &Path) -> Self {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("exec {command}")]).process_group(0);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(in_folder(&mut shell, folder).spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
