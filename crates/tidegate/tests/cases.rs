//! What the command prints, word for word.
//!
//! `tests/cases/NAME/command` has the arguments and the exit status; it runs in that folder, with `stdin` if there is such
//! a file. `UPDATE=1 cargo test -p tidegate --test cases` writes `stdout` and `stderr` anew.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use similar::TextDiff;

#[test]
fn every_case_prints_what_stands_beside_it() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = String::new();
    let cases = cases();
    assert!(cases.len() > 10, "the cases are not where they should be");
    for case in cases {
        let name = case.file_name().unwrap().display();
        let (arguments, exit) = command(&case);
        let output = run(&case, &arguments);
        if output.status.code() != Some(exit) {
            let _ = writeln!(wrong, "{name}: exit {:?} instead of {exit}", output.status.code());
        }
        for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            let file = case.join(stream);
            let found = String::from_utf8_lossy(bytes);
            if update {
                fs::write(&file, &*found).unwrap();
            }
            let expected = fs::read_to_string(&file).unwrap_or_default();
            if expected != found {
                let diff = TextDiff::from_lines(expected.as_str(), &found);
                let _ =
                    writeln!(wrong, "{name}: {stream}\n{}", diff.unified_diff().header("expected", "found"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// `tidegate diff old new | head -1` has the status that it has without `head`.
#[test]
fn a_closed_pipe_does_not_change_the_exit_status() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    for name in ["diff-text", "diff-json", "check-refused", "diff-nothing"] {
        let case = folder.join(name);
        let (arguments, exit) = command(&case);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(&arguments)
            .current_dir(&case)
            .stdin(Stdio::null())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(exit), "{name}");
    }
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut cases: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

/// `tidegate check in` and `exit 1`, each on its line.
fn command(case: &Path) -> (Vec<String>, i32) {
    let text = fs::read_to_string(case.join("command")).unwrap();
    let mut lines = text.lines();
    let words = lines.next().unwrap().split_whitespace().skip(1).map(str::to_owned).collect();
    let exit = lines.next().and_then(|line| line.strip_prefix("exit ")).expect("a line `exit N`");
    (words, exit.parse().unwrap())
}

fn run(case: &Path, arguments: &[String]) -> Output {
    let stdin = case.join("stdin");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .current_dir(case)
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&fs::read(stdin).unwrap_or_default()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}
