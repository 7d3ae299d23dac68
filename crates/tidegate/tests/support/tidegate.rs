//! The built binary, serving a folder of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::process::Process;
use super::{PATIENCE, wait_for};

/// `tidegate run` on loopback, ready to serve. Its access log is JSON on standard output.
pub(crate) struct Tidegate {
    process: Process,
    admin: SocketAddr,
    folder: TempDir,
}

impl Tidegate {
    /// Serves what one file says, which must be right in all its parts.
    pub(crate) fn serving(manifests: &str) -> Self {
        Self::serving_with(manifests, &[])
    }

    /// The same with more arguments for `run`.
    pub(crate) fn serving_with(manifests: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("manifests.yaml"), manifests).unwrap();
        let tidegate = Self::start(folder, arguments);
        let (status, table) = tidegate.get("/status?output=table");
        assert_eq!(status, 200, "not all is served as written:\n{table}{manifests}");
        tidegate
    }

    /// Serves a folder that is there already. `--bind`, `--admin`, `--drain` and the log have values for tests
    /// unless `arguments` say otherwise.
    pub(crate) fn start(folder: TempDir, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("run").arg(folder.path()).args(arguments);
        for (flag, value) in [
            ("--bind", "127.0.0.1"),
            ("--admin", "127.0.0.1:0"),
            ("--workers", "2"),
            ("--drain", "1s"),
            ("--access-log", "-"),
            ("--log-format", "json"),
        ] {
            if !arguments.iter().any(|argument| argument.split('=').next() == Some(flag)) {
                command.args([flag, value]);
            }
        }
        let mut process = Process::start(&mut command);
        let ready = process.says("status and metrics at http://");
        let address = ready.split("http://").nth(1).unwrap();
        let address = address.split(['"', ',', ' ']).next().unwrap();
        let admin = address.parse().unwrap_or_else(|_| panic!("no address: {ready}"));
        let tidegate = Self { process, admin, folder };
        wait_for("/readyz", || (tidegate.get("/readyz").0 == 200).then_some(()));
        tidegate
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Writes a file of the folder in one step, as editors and mounts do, and waits until the change is served.
    pub(crate) fn change(&self, file: &str, manifests: &str) {
        let before = self.metric("tidegate_manifest_changes_total");
        // Not a name that is looked at.
        let next = self.folder().join(format!(".{file}.next"));
        fs::write(&next, manifests).unwrap();
        fs::rename(&next, self.folder().join(file)).unwrap();
        wait_for("the change to be served", || {
            (self.metric("tidegate_manifest_changes_total") > before).then_some(())
        });
    }

    /// Takes a file away and waits until that is served.
    pub(crate) fn remove(&self, file: &str) {
        let before = self.metric("tidegate_manifest_changes_total");
        fs::remove_file(self.folder().join(file)).unwrap();
        wait_for("the removal to be served", || {
            (self.metric("tidegate_manifest_changes_total") > before).then_some(())
        });
    }

    /// What the admin server answers: status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{head:?}")), body.to_owned())
    }

    /// The sum of a metric over all its labels, or over those series that hold `name` with its labels as written.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, page) = self.get("/metrics");
        let series = page.lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ', ',', '}']))
        });
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// The lines of the access log so far. They are written after a connection has ended, a little later than its
    /// peers notice.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = self.process.stdout();
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"))).collect()
    }

    /// The first line whose `field` is `value`, once it is there.
    pub(crate) fn line(&self, field: &str, value: &str) -> Value {
        wait_for(format_args!("a line with {field} {value:?}"), || {
            self.lines().into_iter().find(|line| line[field] == value)
        })
    }

    /// The first `count` lines, once they are there. Each worker writes its own, so that they are in no order.
    pub(crate) fn first_lines(&self, count: usize) -> Vec<Value> {
        wait_for(format_args!("{count} lines of the access log"), || {
            let mut lines = self.lines();
            (lines.len() >= count).then(|| {
                lines.truncate(count);
                lines
            })
        })
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.process.signal(Signal::TERM);
        self.process.wait()
    }
}

impl Drop for Tidegate {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.process.is_alive() {
            // A process that does not end when asked fails the test that started it.
            self.terminate();
        }
    }
}
