//! What people expect of any command: usage errors, colour, pipes, completions and manual pages.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

fn tidegate(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(arguments)
        .current_dir(EXAMPLES)
        .stdin(Stdio::null())
        .env_remove("CLICOLOR_FORCE")
        .env_remove("NO_COLOR");
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn wrong_usage_exits_with_2_and_prints_no_result() {
    for arguments in [
        &["check"][..],
        &["check", "http", "-o", "xml"],
        &["explain", "http"],
        &["explain", "http", "--host", "a.test"],
        &["explain", "http", "--port", "80", "gateway/web"],
        &["explain", "http", "--port", "80", "--sni", "a.test", "--no-sni"],
        &["explain", "http", "--port", "80", "--udp", "--sni", "a.test"],
        &["explain", "http", "--port", "80", "--header", "x"],
        &["explain", "http", "--port", "80", "--path", "x"],
        &["explain", "http", "--port", "80", "--address", "localhost"],
        &["explain", "http", "gateway"],
        &["explain", "http", "deployment/web"],
        &["explain", "http", "gateway/nobody"],
        &["diff", "http"],
        &["serve"],
        &["run"],
        &["run", "http", "--once", "--watch"],
        &["run", "http", "--drain", "10"],
        &["run", "http", "--workers", "0"],
        &["status", "--admin", "localhost"],
        &["proxy"],
        &["proxy", "--controller", "localhost:1", "--ca", "a", "--token", "b", "--name", "c"],
        &[],
    ] {
        let output = tidegate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_read_exits_with_2_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    symlink("nowhere", folder.path().join("broken.yaml")).unwrap();
    let broken = folder.path().to_str().unwrap();
    for (arguments, named) in [
        (&["check", "no-such-folder"][..], "no-such-folder"),
        (&["explain", "no-such-folder", "--port", "80"], "no-such-folder"),
        (&["diff", "http", "no-such-folder"], "no-such-folder"),
        (&["check", broken], "broken.yaml"),
    ] {
        let output = tidegate(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(named), "{}", text(&output.stderr));
    }
}

#[test]
fn the_wrong_name_gets_advice() {
    let output = tidegate(&["explain", "mixed", "httproute/wwww"]);
    assert!(text(&output.stderr).contains("default/shop, default/www"), "{}", text(&output.stderr));
}

#[test]
fn help_has_an_example_for_each_command() {
    let mut asked = 0;
    let mut waiting = vec![Vec::new()];
    while let Some(words) = waiting.pop() {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let output = tidegate(&arguments);
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        let help = text(&output.stdout);
        if !words.is_empty() {
            assert!(help.contains(&format!("\n  tidegate {}", words.join(" "))), "{words:?}");
        }
        let commands = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
        let commands = commands.lines().take_while(|line| !line.is_empty());
        // A long description goes on further to the right.
        let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let names = names.filter(|name| !["", "help"].contains(name));
        waiting.extend(names.map(|name| [words.clone(), vec![name.to_owned()]].concat()));
        asked += 1;
    }
    assert!(asked > 16, "only {asked} commands were found");
}

#[test]
fn colour_is_only_there_when_asked_for() {
    let coloured = |output: &Output| output.stdout.contains(&0x1b) || output.stderr.contains(&0x1b);
    assert!(!coloured(&tidegate(&["check", "http"])));
    assert!(coloured(&tidegate(&["check", "http", "--color", "always"])));
    assert!(coloured(&tidegate(&["--color=always", "explain", "http", "--port", "8080"])));
    assert!(coloured(&tidegate(&["check", "--help", "--color=always"])));
    assert!(!coloured(
        &command(&["check", "http", "--color", "never"]).env("CLICOLOR_FORCE", "1").output().unwrap()
    ));
}

#[test]
fn a_terminal_gets_colour_unless_it_is_not_wanted() {
    let coloured = |words: &str, no_color: bool| {
        // `script` gives the command a terminal and passes on what it writes there.
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command"]);
        script.arg(format!("{} {words}", env!("CARGO_BIN_EXE_tidegate")));
        script.arg("/dev/null").current_dir(EXAMPLES).stdin(Stdio::null());
        script.env("TERM", "xterm").env_remove("CLICOLOR_FORCE").env_remove("NO_COLOR");
        if no_color {
            script.env("NO_COLOR", "1");
        }
        let output = script.output().unwrap();
        assert!(output.stdout.len() > 20, "{words}: {}", text(&output.stderr));
        output.stdout.contains(&0x1b)
    };
    for words in ["check http", "check --help", "check http --no-such"] {
        assert!(coloured(words, false), "{words}");
        assert!(!coloured(words, true), "NO_COLOR {words}");
        assert!(!coloured(&format!("{words} --color never"), false), "--color never {words}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child =
        command(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn the_version_names_the_gateway_api() {
    assert!(text(&tidegate(&["version"]).stdout).contains("Gateway API v1.7.0"));
    let json: serde_json::Value =
        serde_json::from_slice(&tidegate(&["version", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["gatewayApi"], "v1.7.0");
    assert!(text(&tidegate(&["--version"]).stdout).starts_with("tidegate "));
}

#[test]
fn completions_and_manual_pages_are_written() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&tidegate(&["completions", shell]).stdout).contains("explain"), "{shell}");
    }
    assert!(text(&tidegate(&["man"]).stdout).contains(".TH"));
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    assert_eq!(tidegate(&["man", "--out", pages.to_str().unwrap()]).status.code(), Some(0));
    let page = fs::read_to_string(pages.join("tidegate-check.1")).unwrap();
    assert!(page.contains("tidegate check manifests/"), "{page}");
}
