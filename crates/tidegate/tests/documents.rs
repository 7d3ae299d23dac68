//! What the documents say of flags, endings and metrics is what there is, all of it and nothing else.

#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use tidegate_proxy::{Bounds, Ending};

fn document(name: &str) -> String {
    fs::read_to_string(format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn tidegate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Words that begin so, up to the first character that no flag or metric has.
fn words(text: &str, beginning: &str, is_part: impl Fn(char) -> bool) -> BTreeSet<String> {
    let starts = text.match_indices(beginning).map(|(at, _)| &text[at..]);
    starts.map(|rest| rest.chars().take_while(|c| is_part(*c)).collect()).collect()
}

fn flags(text: &str) -> BTreeSet<String> {
    let flags = words(text, "--", |c| c.is_ascii_lowercase() || c == '-');
    flags.into_iter().filter(|flag| flag.len() > 2 && !flag.starts_with("---")).collect()
}

#[test]
fn every_flag_of_run_is_told() {
    let help = String::from_utf8(tidegate(&["run", "--help"]).output().unwrap().stdout).unwrap();
    // Of every command; commands.md has them.
    let common = ["--help", "--color"].map(str::to_owned).into();
    let there: BTreeSet<String> = flags(&help).difference(&common).cloned().collect();
    assert!(there.len() > 20, "{there:?}");
    assert_eq!(there.difference(&flags(&document("run.md"))).collect::<Vec<_>>(), Vec::<&String>::new());
    let told = flags(&document("bounds.md"));
    assert_eq!(told.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn every_flag_of_proxy_is_told() {
    let help = String::from_utf8(tidegate(&["proxy", "--help"]).output().unwrap().stdout).unwrap();
    let common = ["--help", "--color"].map(str::to_owned).into();
    let there: BTreeSet<String> = flags(&help).difference(&common).cloned().collect();
    assert!(there.len() > 10, "{there:?}");
    assert_eq!(there.difference(&flags(&document("link.md"))).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn every_flag_and_metric_of_controller_is_told() {
    let help = String::from_utf8(tidegate(&["controller", "--help"]).output().unwrap().stdout).unwrap();
    let common = ["--help", "--color"].map(str::to_owned).into();
    let there: BTreeSet<String> = flags(&help).difference(&common).cloned().collect();
    assert!(there.len() > 10, "{there:?}");
    let text = document("kubernetes.md");
    assert_eq!(there.difference(&flags(&text)).collect::<Vec<_>>(), Vec::<&String>::new());
    let told = words(&text, "tidegate_controller_", |c: char| c.is_ascii_lowercase() || c == '_');
    let told: BTreeSet<&str> = told.iter().map(|name| name.strip_suffix("_total").unwrap_or(name)).collect();
    let there: BTreeSet<&str> = tidegate_kubernetes::Metrics::ALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(told, there);
}

#[test]
fn every_ending_is_told() {
    let text = document("observability.md");
    let (_, endings) = text.split_once("## Endings").unwrap();
    let (endings, _) = endings.split_once("\n## ").unwrap();
    let told: BTreeSet<&str> = endings.lines().filter(|line| line.starts_with("| `")).collect();
    let rows: Vec<String> =
        Ending::all().map(|ending| format!("| `{}` | {} |", ending.as_str(), ending.text())).collect();
    let there: BTreeSet<&str> = rows.iter().map(String::as_str).collect();
    assert_eq!(told, there);
}

/// Asked of a process that runs, since two places have a part in it.
#[test]
fn every_metric_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let run = ["run", folder.path().to_str().unwrap(), "--admin", "127.0.0.1:0", "--access-log"];
    let mut child = tidegate(&run).arg(&log).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.filter_map(|line| line.split_once("http://").map(|(_, to)| to.to_owned())).next();
    let page = address.map(|address| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    });
    child.kill().unwrap();
    child.wait().unwrap();

    let page = page.unwrap();
    let there: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ").and_then(|line| line.split(' ').next()))
        .collect();
    let text = document("observability.md");
    let rows =
        text.lines().filter(|line| line.starts_with("| `tidegate_") || line.starts_with("| `process_"));
    let told: BTreeSet<&str> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
    assert_eq!(told, there);
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    for name in words(&document("bounds.md"), "tidegate_", is_part) {
        assert!(there.contains(name.as_str()), "{name}");
    }

    let bounds: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("tidegate_limit_reached_total{limit=\""))
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .collect();
    assert!(bounds.len() > 10, "{bounds:?}");
    for bound in bounds {
        assert!(document("bounds.md").contains(&format!("| `{bound}` |")), "{bound}");
    }
}

#[test]
fn every_bound_has_its_row_with_its_default() {
    let text = document("bounds.md");
    let bounds = Bounds::default();
    let shown = |time| humantime::format_duration(time).to_string();
    for (flag, default) in [
        ("--max-connections N", bounds.connections.to_string()),
        ("--max-connections-per-listener N", bounds.connections_per_listener.to_string()),
        ("--max-connections-per-source N", bounds.connections_per_source.to_string()),
        ("--hello-time TIME", shown(bounds.hello_time)),
        ("--hello-size BYTES", bounds.hello_size.to_string()),
        ("--handshake-time TIME", shown(bounds.handshake_time)),
        ("--connect-time TIME", shown(bounds.connect_time)),
        ("--idle-time TIME", shown(bounds.idle_time)),
        ("--half-open-time TIME", shown(bounds.half_open_time)),
        ("--lifetime TIME", bounds.lifetime.map_or("for ever".to_owned(), shown)),
        ("--max-udp-flows N", bounds.udp_flows.to_string()),
        ("--udp-idle-time TIME", shown(bounds.udp_idle_time)),
        ("--header-time TIME", shown(bounds.header_time)),
        ("--header-size BYTES", bounds.header_size.to_string()),
        ("--max-headers N", bounds.header_count.to_string()),
        ("--uri-size BYTES", bounds.uri_size.to_string()),
        ("--keep-alive-time TIME", shown(bounds.keep_alive_time)),
        ("--body-time TIME", shown(bounds.body_time)),
        ("--max-streams N", bounds.streams.to_string()),
        ("--max-resets N", bounds.resets.to_string()),
        ("--max-idle-upstream N", bounds.idle_upstream.to_string()),
        ("--idle-upstream-time TIME", shown(bounds.idle_upstream_time)),
        ("--retry-size BYTES", bounds.retry_size.to_string()),
        ("--max-mirrors N", bounds.mirrors.to_string()),
        ("--drain TIME", shown(bounds.drain_time)),
    ] {
        assert!(text.contains(&format!("| `{flag}` | {default} |")), "{flag}: {default}");
    }
    let names: BTreeSet<&str> = Ending::all().map(Ending::as_str).collect();
    for row in text.lines().filter(|line| line.starts_with("| `--")) {
        let endings = row.split('|').nth(4).unwrap();
        let all = endings.split('`').skip(1).step_by(2).collect::<Vec<_>>();
        assert!(!all.is_empty() && all.iter().all(|ending| names.contains(ending)), "{row}");
    }
}

#[test]
fn every_field_of_the_access_log_is_told() {
    let source =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../proxy/src/observe/line.rs")).unwrap();
    let (_, write) = source.split_once("fn write(&self, format").unwrap();
    let (write, _) = write.split_once("fields.end()").unwrap();
    let calls = write.split("field!(fields, \"").skip(1).filter_map(|call| call.split('"').next());
    let there: BTreeSet<&str> = calls.chain(["start"]).collect();
    let text = document("observability.md");
    let (fields, _) = text.split_once("## Endings").unwrap();
    let rows = fields.lines().filter(|line| line.starts_with("| `"));
    let told: BTreeSet<&str> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
    assert_eq!(told, there);
}

/// What SECURITY.md names as proof is there.
#[test]
fn every_proof_of_the_threat_model_exists() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = fs::read_to_string(format!("{root}/SECURITY.md")).unwrap();
    let (_, traffic) = text.split_once("### Traffic").unwrap();
    let (rows, _) = traffic.split_once("Paths without").unwrap();
    let mut named = 0;
    for row in rows.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let proofs = row.split('|').nth(2).unwrap();
        for proof in proofs.split('`').skip(1).step_by(2).filter(|proof| !proof.contains("::")) {
            named += 1;
            let places = [format!("{root}/{proof}"), format!("{root}/crates/proxy/src/{proof}")];
            let exists = places.iter().any(|path| Path::new(path).exists());
            assert!(exists || is_test(Path::new(&format!("{root}/crates")), proof), "{proof}");
        }
    }
    assert!(named > 20, "{named}");
}

fn is_test(folder: &Path, name: &str) -> bool {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() {
            return is_test(&path, name);
        }
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        is_source && fs::read_to_string(&path).unwrap().contains(&format!("fn {name}("))
    })
}

#[test]
fn links_lead_somewhere() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let folders = [root.to_owned(), root.join("docs"), root.join("examples")];
    let mut links = 0;
    for folder in folders {
        for page in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if page.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&page).unwrap();
            for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
                let file = link.split('#').next().unwrap();
                let is_there = link.contains("://") || folder.join(file).exists();
                assert!(is_there, "{} in {}", link, page.display());
                links += 1;
            }
        }
    }
    assert!(links > 20, "{links}");
}

/// Those of README.md that are about the examples; what would serve is only asked what it would.
#[test]
fn commands_of_the_readme_are_good_usage() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let text = fs::read_to_string(format!("{root}/README.md")).unwrap();
    let lines = text.lines().map(|line| line.trim_start_matches("$ "));
    let commands: Vec<&str> =
        lines.filter(|line| line.starts_with("tidegate ") && line.contains(" examples/")).collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for line in commands {
        let words: Vec<&str> = line.split('#').next().unwrap().split_whitespace().skip(1).collect();
        let dry_run = if words[0] == "run" { &["--dry-run"][..] } else { &[] };
        let output = tidegate(&words).args(dry_run).current_dir(root).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}
