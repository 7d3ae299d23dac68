//! Pairs to read: `golden/CHAPTER/NAME/in.yaml`, and beside it `plan.yaml` and `status.yaml`, what Tidegate makes
//! of it. `make golden` writes them anew; read the diff before you commit it.
//!
//! The inputs are manifests as in a folder: the GatewayClass `tidegate` and Namespaces are filled in. `{cert:NAME}`
//! and `{key:NAME}` stand for the PEM files in `golden/keys`, so that inputs stay short. A `settings.yaml` beside an
//! input says what holds for the installation, where that is not a folder with the experimental channel.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};
use tidegate_api::status::Reason;
use tidegate_api::{Kind, Object, folder, read_object, to_yaml, yaml};
use tidegate_translate::{
    BundleVersion, Channel, Infrastructure, Resources, Settings, Source, Translation, translate,
};

#[test]
fn what_is_made_of_the_inputs_is_as_written_beside_them() {
    let update = std::env::var_os("UPDATE").is_some();
    let cases = cases(Path::new("tests/golden"));
    assert!(cases.len() > 100, "only {} cases", cases.len());
    let mut report = String::new();
    for case in &cases {
        let mut translation = translate(&resources(case), &settings(case));
        // The class that is filled in says the same everywhere.
        let source = fs::read_to_string(case.join("in.yaml")).unwrap();
        translation
            .statuses
            .retain(|key, _| key.kind != Kind::GatewayClass || source.contains("kind: GatewayClass"));
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
    let asked = Reason::ALL.iter().filter(|reason| !ELSEWHERE.contains(reason));
    let missing: Vec<&Reason> =
        asked.filter(|reason| !all.contains(&format!("reason: {reason:?}\n"))).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

/// Those that need a data plane, an issuer or a cluster, and have tests there.
const ELSEWHERE: &[Reason] = &[
    Reason::AddressNotAssigned,
    Reason::AddressNotUsable,
    Reason::AddressesAssigned,
    Reason::CertificatesIssued,
    Reason::IssuanceFailed,
    Reason::NotAssigned,
    Reason::PartiallyAssigned,
    Reason::Programmed,
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
    for object in folder::complete(objects) {
        resources.insert(object);
    }
    resources
}

fn settings(case: &Path) -> Settings {
    let mut settings = Settings::folder();
    let Ok(source) = fs::read_to_string(case.join("settings.yaml")) else { return settings };
    let (nodes, _) = yaml::documents(&source);
    for (key, value) in nodes[0].to_json().as_object().expect("a map") {
        match (key.as_str(), value) {
            ("source", Value::String(source)) if source == "cluster" => settings.source = Source::Cluster,
            ("channel", Value::String(channel)) if channel == "standard" => {
                settings.channel = Channel::Standard;
            }
            ("bundle", Value::Object(crds)) => {
                let version = |(crd, version): (&String, &Value)| BundleVersion {
                    crd: crd.clone(),
                    version: version.as_str().map(ToOwned::to_owned),
                };
                settings.bundle = Some(crds.iter().map(version).collect());
            }
            ("reservedPorts", Value::Array(ports)) => {
                let port = |port: &Value| u16::try_from(port.as_u64().expect("a port")).expect("a port");
                settings.reserved_ports = ports.iter().map(port).collect();
            }
            (key, value) => panic!("{}: setting {key}: {value}", case.display()),
        }
    }
    settings
}

fn with_keys(source: &str) -> String {
    let mut lines = String::new();
    for line in source.lines() {
        let marker = ["cert", "key"].iter().find_map(|kind| {
            let (before, rest) = line.split_once(&format!("{{{kind}:"))?;
            let name = rest.strip_suffix('}').filter(|name| !name.contains(' '))?;
            Some((before, name, if *kind == "cert" { "crt" } else { "key" }))
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
    let infrastructure = translation.infrastructure.iter().filter(|(_, asked)| {
        asked.labels.len() > 2
            || !asked.annotations.is_empty()
            || asked.parameters.workload.is_some()
            || cut(asked)
    });
    let infrastructure: Map<String, Value> = infrastructure
        .map(|(name, asked)| {
            let mut shown = json!({"labels": asked.labels, "annotations": asked.annotations});
            if let Some(workload) = &asked.parameters.workload {
                shown["replicas"] = workload.replicas.map_or(Value::Null, |replicas| replicas.get().into());
            }
            (name.to_string(), shown)
        })
        .collect();
    let mut plan = json!({"fragments": parts});
    for (key, value) in [
        ("endpoints", Value::Object(endpoints)),
        ("infrastructure", Value::Object(infrastructure)),
        ("wants", translation.wants.values().map(|wants| serde_json::to_value(&**wants).unwrap()).collect()),
    ] {
        if !(value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)) {
            plan[key] = value;
        }
    }
    to_yaml(&plan)
}

/// Whether a label is not just a name.
fn cut(asked: &Infrastructure) -> bool {
    asked.labels.values().any(|value| value.len() == 63)
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
        let notes = notes.iter().map(|note| note.to_string().into());
        statuses.insert(format!("notes on {key}"), Value::Array(notes.collect()));
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
