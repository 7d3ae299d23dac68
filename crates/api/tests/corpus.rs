//! Every rule of every kind, broken by an object that breaks nothing else.
//!
//! `corpus/invalid/KIND/NAME.yaml` has beside it `NAME.txt`: one line per problem. `corpus/valid/` must read
//! without any. `UPDATE=1 cargo test -p tidegate-api --test corpus` writes the expectations anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use tidegate_api::{Kind, Node, Problem, Severity, catalogue, objects, read_object, yaml};

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
    "Gateway/mistakes-beside-a-bad-item",
    "Gateway/mistakes-beside-a-missing-field",
    "Gateway/several-mistakes",
    "Gateway/spec-misspelt",
    "GatewayParameters/address-pool-entry",
    "GatewayParameters/certificate-limit-negative",
    "GatewayParameters/source-range",
    "HTTPRoute/backend-rewrite-prefix-with-exact-match-twice",
    "HTTPRoute/mistakes-beside-a-wrong-word",
    "ListenerSet/parents",
    "Secret/mistakes-beside-a-bad-value",
    "TCPRoute/rule-names-repeated-v1alpha2",
    "TLSRoute/rule-names-repeated-v1alpha2",
    "UDPRoute/rule-names-repeated-v1alpha2",
    "XBackend/endpoint-selector-beside-hostname",
    "yaml/bare-boolean-keys",
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

/// No rule speaks because of what is in the place of a part that could not be read.
#[test]
fn a_part_that_cannot_be_read_is_told_of_alone() {
    let mut tried = 0;
    let mut wrong = Vec::new();
    for file in manifests(Path::new("tests/corpus")) {
        let source = fs::read_to_string(&file).expect("a manifest is text");
        for object in yaml::documents(&source).0.into_iter().flat_map(|document| objects(document).0) {
            let object = object.to_json();
            let before = told(&object);
            let mut pointers = Vec::new();
            point_below(&object, String::new(), &mut pointers);
            // What is larger has many items that are alike.
            for pointer in pointers.iter().filter(|_| pointers.len() < 200) {
                for damage in [json!([[]]), json!("?"), json!(null)] {
                    let mut damaged = object.clone();
                    *damaged.pointer_mut(pointer).expect("it points to a part") = damage.clone();
                    let after = told(&damaged);
                    let new: Vec<_> = after.difference(&before).collect();
                    let unread = |rule: &str| ["type", "enum", "required"].contains(&rule);
                    if new.iter().any(|(rule, ..)| unread(rule)) {
                        tried += 1;
                        if new.len() > 1 {
                            wrong.push(format!("{} with {damage} at {pointer}: {new:#?}", file.display()));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried > 10_000, "{tried} parts are too few to go by");
}

fn told(object: &Json) -> BTreeSet<(&'static str, String, String)> {
    let problems = read_object(&Node::from(object)).problems;
    problems.into_iter().map(|problem| (problem.rule, problem.field, problem.message)).collect()
}

/// Adds the JSON pointers to all parts of `json`, which is at `path` itself.
fn point_below(json: &Json, path: String, pointers: &mut Vec<String>) {
    let steps: Vec<(String, &Json)> = match json {
        Json::Object(fields) => {
            fields.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Json::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    for (step, part) in steps {
        point_below(part, format!("{path}/{step}"), pointers);
    }
    // Where nothing is written, damage would be something more.
    if !path.is_empty() && *json != json!(null) && *json != json!([]) {
        pointers.push(path);
    }
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
