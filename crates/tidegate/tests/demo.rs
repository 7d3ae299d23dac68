//! `make demo` does what it says, and leaves nothing behind, however it ends.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/demo.sh");
/// All that a demo starts has this in its environment.
const MARK: &str = "TIDEGATE_DEMO_MARK";

fn demo(mark: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--foreground", "300", DEMO, env!("CARGO_BIN_EXE_tidegate")]);
    command.env(MARK, mark).env_remove("DEMO").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The ids of living processes with this mark.
fn left(mark: &str) -> Vec<String> {
    let marked = format!("{MARK}={mark}");
    let ids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let has_mark = |id: &String| {
        // Of a process that is gone, or only waits to be, there is nothing to read.
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == marked.as_bytes())
    };
    ids.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())).filter(has_mark).collect()
}

fn mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[test]
fn it_ends_by_itself_when_told_to() {
    let mark = mark("once");
    let output = demo(&mark).env("DEMO", "once").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    assert!(!text.contains('\u{1b}'), "colours are for terminals");
    assert_eq!(left(&mark), Vec::<String>::new());
}

#[test]
fn it_runs_on_until_it_is_ended() {
    let mark = mark("on");
    let mut child = demo(&mark).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut seen = String::new();
    while !seen.contains("It goes on running") {
        assert!(lines.read_line(&mut seen).unwrap() > 0, "{seen}{}", errors(&mut child));
    }
    assert!(!left(&mark).is_empty());
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(left(&mark), Vec::<String>::new());
}

fn errors(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}
