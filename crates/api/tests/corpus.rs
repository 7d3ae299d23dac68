//! Every rule of every kind, broken by an object that breaks nothing else.
//!
//! `corpus/invalid/KIND/NAME.yaml` has beside it `NAME.txt`: one line per problem. `corpus/valid/` must read
//! without any. `UPDATE=1 cargo test -p tidegate-api --test corpus` writes the expectations anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate_api::{Kind, Problem, Severity, catalogue, objects, read_object, yaml};

#[test]
fn valid_objects_read_without_a_problem() {
    let files = manifests(Path::new("tests/corpus/valid"));
    assert!(!files.is_empty());
    for file in files {
        let problems = problems(&file);
        assert!(problems.is_empty(), "{}: {}", file.display(), lines(&problems));
    }
}

#[test]
fn invalid_objects_are_refused_with_the_message_beside_them() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for file in manifests(Path::new("tests/corpus/invalid")) {
        let found = lines(&problems(&file));
        let beside = file.with_extension("txt");
        if update {
            fs::write(&beside, &found).unwrap();
        } else if fs::read_to_string(&beside).unwrap_or_default() != found {
            wrong.push(format!("{}\n{found}", file.display()));
        }
        assert!(!found.is_empty(), "{} has nothing wrong", file.display());
    }
    assert!(wrong.is_empty(), "not as written beside them:\n{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_broken_by_some_object() {
    let found: BTreeSet<&str> = manifests(Path::new("tests/corpus/invalid"))
        .iter()
        .flat_map(|file| problems(file))
        .map(|problem| problem.rule)
        .collect();
    let missing: BTreeSet<&str> =
        catalogue::ALL.iter().copied().flatten().copied().filter(|rule| !found.contains(rule)).collect();
    assert!(missing.is_empty(), "no object in tests/corpus/invalid breaks these rules: {missing:#?}");
}

/// A rule that several kinds share is broken in each of them.
#[test]
fn every_rule_of_a_kind_is_broken_by_an_object_of_that_kind() {
    let mut missing = Vec::new();
    for kind in Kind::ALL {
        let files = manifests(&Path::new("tests/corpus/invalid").join(kind.as_str()));
        let found: BTreeSet<&str> =
            files.iter().flat_map(|file| problems(file)).map(|found| found.rule).collect();
        missing
            .extend(kind.rules().into_iter().filter(|rule| !found.contains(rule)).map(|rule| (kind, rule)));
    }
    assert!(missing.is_empty(), "no object in tests/corpus/invalid/KIND breaks these rules: {missing:#?}");
}

/// Those that show how several mistakes are told, or one that cannot be made alone.
const SEVERAL: &[&str] = &[
    "GRPCRoute/filter-of-http-only",
    "Gateway/several-mistakes",
    "Gateway/spec-misspelt",
    "GatewayParameters/address-pool-entry",
    "GatewayParameters/certificate-limit-negative",
    "GatewayParameters/source-range",
    "HTTPRoute/backend-rewrite-prefix-with-exact-match-twice",
    "ListenerSet/parents",
    "TCPRoute/rule-names-repeated-v1alpha2",
    "TLSRoute/rule-names-repeated-v1alpha2",
    "UDPRoute/rule-names-repeated-v1alpha2",
    "XBackend/endpoint-selector-beside-hostname",
    "yaml/one-of-three",
];

#[test]
fn an_object_breaks_one_rule_and_no_other() {
    let mut wrong = Vec::new();
    for file in manifests(Path::new("tests/corpus/invalid")) {
        let problems = problems(&file);
        let is_listed = SEVERAL.iter().any(|name| file.with_extension("").ends_with(name));
        if (problems.len() == 1) == is_listed {
            wrong.push(format!("{}\n{}", file.display(), lines(&problems)));
        }
    }
    assert!(wrong.is_empty(), "one problem, or a place in SEVERAL:\n{}", wrong.join("\n"));
}

fn problems(file: &Path) -> Vec<Problem> {
    let source = fs::read_to_string(file).expect("a manifest is text");
    let (documents, mut problems) = yaml::documents(&source);
    for document in documents {
        let (nodes, in_list) = objects(document);
        problems.extend(in_list);
        problems.extend(nodes.iter().flat_map(|node| read_object(node).problems));
    }
    problems
}

fn lines(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|problem| {
            let severity = if problem.severity == Severity::Error { "error" } else { "warning" };
            format!("{severity}: {problem}\n")
        })
        .collect()
}

fn manifests(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the corpus is there")
        .flat_map(|entry| {
            let path = entry.expect("the corpus can be read").path();
            if path.is_dir() { manifests(&path) } else { vec![path] }
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "json"))
        .collect();
    files.sort();
    files
}
