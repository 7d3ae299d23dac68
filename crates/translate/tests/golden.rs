//! Pairs to read: `golden/CHAPTER/NAME/in.yaml`, and beside it `plan.yaml` and `status.yaml`, what Tidegate makes
//! of it. `make golden` writes them anew; read the diff before you commit it.
//!
//! The inputs are manifests as in a folder: what they leave out is filled in. `{cert:NAME}` and `{key:NAME}` stand
//! for the PEM files in `golden/keys`, so that inputs stay short.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};
use tidegate_api::{Object, read_object, to_yaml, yaml};
use tidegate_translate::{Resources, Settings, Translation, translate};

#[test]
fn what_is_made_of_the_inputs_is_as_written_beside_them() {
    let update = std::env::var_os("UPDATE").is_some();
    let cases = cases(Path::new("tests/golden"));
    assert!(cases.len() > 50, "only {} cases", cases.len());
    let mut report = String::new();
    for case in &cases {
        let translation = translate(&resources(case), &Settings::folder());
        for (name, found) in [("plan.yaml", plan(&translation)), ("status.yaml", status(&translation))] {
            let file = case.join(name);
            if update {
                fs::write(&file, &found).unwrap();
            } else {
                difference(&file, &fs::read_to_string(&file).unwrap_or_default(), &found, &mut report);
            }
        }
    }
    assert!(report.is_empty(), "{report}\nIf this is what should be: make golden");
}

/// Every reason that a condition can have stands in some expectation.
#[test]
fn every_reason_has_its_case() {
    let all: String = cases(Path::new("tests/golden"))
        .iter()
        .map(|case| fs::read_to_string(case.join("status.yaml")).unwrap_or_default())
        .collect();
    let missing: Vec<&str> =
        REASONS.iter().filter(|reason| !all.contains(&format!("reason: {reason}\n"))).copied().collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

/// Those that a folder can show. The others need a data plane or a cluster, and have tests there.
const REASONS: &[&str] = &[
    "Accepted",
    "BackendNotFound",
    "ConfigurationChanged",
    "Conflicted",
    "HostnameConflict",
    "Invalid",
    "InvalidCACertificateKind",
    "InvalidCACertificateRef",
    "InvalidCertificateRef",
    "InvalidClientCertificateRef",
    "InvalidKind",
    "InvalidParameters",
    "InvalidRouteKinds",
    "ListenersNotResolved",
    "ListenersNotValid",
    "NoConflicts",
    "NoMatchingListenerHostname",
    "NoMatchingParent",
    "NoValidCACertificate",
    "NotAllowed",
    "NotAllowedByListeners",
    "OverlappingHostnames",
    "ParentNotAccepted",
    "Pending",
    "PortUnavailable",
    "ProtocolConflict",
    "RefNotPermitted",
    "ResolvedRefs",
    "SupportedVersion",
    "TargetNotFound",
    "UnsupportedAddress",
    "UnsupportedProtocol",
    "UnsupportedValue",
];

fn cases(folder: &Path) -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .flat_map(|path| if path.join("in.yaml").exists() { vec![path] } else { cases(&path) })
        .collect();
    cases.sort();
    cases
}

/// The objects of a case; each must be right by itself, or the case shows something else than it seems to.
fn resources(case: &Path) -> Resources {
    let source = with_keys(&fs::read_to_string(case.join("in.yaml")).unwrap());
    let (nodes, problems) = yaml::documents(&source);
    assert!(problems.is_empty(), "{}: {}", case.display(), problems[0]);
    let mut objects: Vec<Object> = Vec::new();
    for node in &nodes {
        let reading = read_object(node);
        let problems: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
        objects.push(reading.object.unwrap_or_else(|| panic!("{}: {}", case.display(), problems.join("\n"))));
    }
    let mut resources = Resources::default();
    objects.into_iter().for_each(|object| drop(resources.insert(object)));
    resources
}

fn with_keys(source: &str) -> String {
    let mut lines = String::new();
    for line in source.lines() {
        let marker = ["cert", "key"].iter().find_map(|kind| {
            let (before, rest) = line.split_once(&format!("{{{kind}:"))?;
            Some((before, rest.strip_suffix('}')?, if *kind == "cert" { "crt" } else { "key" }))
        });
        match marker {
            None => writeln!(lines, "{line}").unwrap(),
            Some((before, name, extension)) => {
                let pem = fs::read_to_string(format!("tests/golden/keys/{name}.{extension}")).unwrap();
                let indent = " ".repeat(before.len() - before.trim_start().len() + 2);
                writeln!(lines, "{before}|").unwrap();
                pem.lines().for_each(|line| writeln!(lines, "{indent}{line}").unwrap());
            }
        }
    }
    lines
}

/// The plan as a person reads it: hashes and key material are left out.
fn plan(translation: &Translation) -> String {
    let mut parts = Map::new();
    for (id, fragment) in &translation.plan.fragments {
        parts.insert(id.to_string(), serde_json::to_value(&fragment.body).unwrap());
    }
    let endpoints: Map<String, Value> = translation
        .plan
        .endpoints
        .iter()
        .map(|(id, endpoints)| (id.to_string(), serde_json::to_value(&endpoints.endpoints).unwrap()))
        .collect();
    let mut plan = json!({"fragments": parts});
    for (key, value) in [
        ("endpoints", Value::Object(endpoints)),
        ("wants", translation.wants.values().map(|wants| serde_json::to_value(&**wants).unwrap()).collect()),
    ] {
        if !(value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)) {
            plan[key] = value;
        }
    }
    to_yaml(&plan)
}

fn status(translation: &Translation) -> String {
    let mut statuses = Map::new();
    for (key, status) in &translation.statuses {
        let mut value = serde_json::to_value(&**status).unwrap();
        if value.get("supportedFeatures").is_some() {
            value["supportedFeatures"] = json!("as in features.rs");
        }
        statuses.insert(key.to_string(), value);
    }
    for (key, notes) in &translation.notes {
        let notes = notes.iter().map(|note| note.message.as_str());
        statuses.insert(format!("notes on {key}"), notes.collect());
    }
    to_yaml(&Value::Object(statuses))
}

fn difference(file: &Path, written: &str, found: &str, report: &mut String) {
    if written == found {
        return;
    }
    writeln!(report, "\n{}", file.display()).unwrap();
    for group in TextDiff::from_lines(written, found).grouped_ops(3) {
        let diff = TextDiff::from_lines(written, found);
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            write!(report, "{sign} {change}").unwrap();
        }
    }
}
