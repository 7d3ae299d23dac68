//! A program that a test has started. It ends with the test, and when the test fails it shows what it said.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::wait_for;

/// The Debian package of each program that tests start.
const PACKAGES: &[(&str, &str)] = &[
    ("curl", "curl"),
    ("dig", "bind9-dnsutils"),
    ("dnsmasq", "dnsmasq-base"),
    ("dropbear", "dropbear-bin"),
    ("dropbearkey", "dropbear-bin"),
    ("initdb", "postgresql"),
    ("mosquitto", "mosquitto"),
    ("mosquitto_pub", "mosquitto-clients"),
    ("mosquitto_sub", "mosquitto-clients"),
    ("nginx", "nginx"),
    ("openssl", "openssl"),
    ("psql", "postgresql-client"),
    ("redis-cli", "redis-tools"),
    ("redis-server", "redis-server"),
];

pub(crate) struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Output,
    stderr: Output,
}

impl Process {
    /// Its standard input stays open until [`close_input`](Self::close_input).
    pub(crate) fn start(command: &mut Command) -> Self {
        let path = command.get_program().to_string_lossy().into_owned();
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        command.env("PATH", path_with_servers());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}", advice(&name, &error)));
        Self {
            stdin: child.stdin.take(),
            stdout: Output::of(child.stdout.take()),
            stderr: Output::of(child.stderr.take()),
            name,
            child,
        }
    }

    /// A program to its end, with nothing on its standard input.
    pub(crate) fn run(command: &mut Command) -> Finished {
        let mut process = Self::start(command);
        process.close_input();
        process.finish()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("the input is still open");
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits until `words` stand on its standard output or error; programs differ in where they say what. Gives the
    /// whole of that line so far.
    pub(crate) fn says(&mut self, words: &str) -> String {
        wait_for(format!("{words:?} of {}", self.name), || {
            // Asked first: its last words may come out of the pipe after it has gone.
            let gone = self.has_been_read().then(|| self.child.try_wait().unwrap()).flatten();
            let found = [&self.stdout, &self.stderr].into_iter().find_map(|output| output.line_with(words));
            assert!(found.is_some() || gone.is_none(), "{} ended and never said {words:?}", self.name);
            found
        })
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn assert_alive(&mut self) {
        let status = self.child.try_wait().unwrap();
        assert!(status.is_none(), "{} has ended: {status:?}", self.name);
    }

    /// To a process that was not waited for yet, so that the id is still its own.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("an id of a process");
        kill_process(id, signal).unwrap();
    }

    /// Waits for its end and for the last of what it said.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = wait_for(format_args!("the end of {}", self.name), || self.child.try_wait().unwrap());
        wait_for(format_args!("the last words of {}", self.name), || self.has_been_read().then_some(()));
        status
    }

    pub(crate) fn finish(mut self) -> Finished {
        let status = self.wait();
        Finished { name: self.name.clone(), status, stdout: self.stdout(), stderr: self.stderr() }
    }

    fn has_been_read(&self) -> bool {
        self.stdout.lock().ended && self.stderr.lock().ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Only what was started here, by its id; both fail for one that has ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            for (stream, output) in [("out", &self.stdout), ("err", &self.stderr)] {
                output.text().lines().for_each(|line| eprintln!("[{} {stream}] {line}", self.name));
            }
        }
    }
}

/// Servers are often where only root looks.
fn path_with_servers() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let servers = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::join_paths(env::split_paths(&path).chain(servers)).expect("no folder of a path has a colon")
}

fn advice(name: &str, error: &std::io::Error) -> String {
    let package = PACKAGES.iter().find(|(program, _)| *program == name);
    let package = package.map(|(_, package)| format!("; it is in Debian's package {package}"));
    format!("{name} does not start: {error}{}", package.unwrap_or_default())
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Finished {
    name: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    #[track_caller]
    pub(crate) fn expect_success(self) -> Self {
        assert!(self.status.success(), "{self}");
        self
    }

    #[track_caller]
    pub(crate) fn expect_failure(self) -> Self {
        assert!(!self.status.success(), "{self}");
        self
    }

    /// On standard output or error.
    #[track_caller]
    pub(crate) fn expect(self, words: &str) -> Self {
        assert!(self.stdout.contains(words) || self.stderr.contains(words), "no {words:?}: {self}");
        self
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, status, stdout, stderr } = self;
        write!(f, "{name} ended with {status}\n{stdout}\n{stderr}")
    }
}

/// What came out of a pipe so far.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Said>>);

#[derive(Default)]
struct Said {
    bytes: Vec<u8>,
    ended: bool,
}

impl Output {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let output = Self::default();
        let said = output.clone();
        let mut pipe = pipe.expect("a pipe was asked for");
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                said.lock().bytes.extend_from_slice(&buffer[..count]);
            }
            said.lock().ended = true;
        });
        output
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().bytes).into_owned()
    }

    fn line_with(&self, words: &str) -> Option<String> {
        self.text().lines().find(|line| line.contains(words)).map(str::to_owned)
    }
}
