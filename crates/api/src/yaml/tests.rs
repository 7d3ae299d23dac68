use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(source: &str) -> Vec<serde_json::Value> {
    let (nodes, problems) = documents(source);
    assert_eq!(problems, []);
    nodes.iter().map(Node::to_json).collect()
}

/// Where and what of each problem.
fn wrong(source: &str) -> Vec<(usize, String)> {
    let (_, problems) = documents(source);
    problems.into_iter().map(|problem| (problem.span.start, problem.message)).collect()
}

#[test]
fn nothing_is_no_document() {
    for source in ["", "\n\n", "# only a comment\n", "---\n", "---\n---\n# x\n---", "\u{feff}", "~", "{}\n"] {
        let found = read(source);
        assert!(found.is_empty() || found == [json!({})], "{source:?} {found:?}");
    }
}

#[test]
fn documents_are_read_in_order() {
    assert_eq!(
        read("a: 1\n---\nb: 2\n--- \n# c\n---\nd: 3"),
        [json!({"a": 1}), json!({"b": 2}), json!({"d": 3})]
    );
    assert_eq!(read("--- {a: 1}\n--- [2]\n"), [json!({"a": 1}), json!([2])]);
    assert_eq!(read("a: 1\n...\n---\nb: 2\n...\n"), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(read("%YAML 1.1\n---\na: 1\n"), [json!({"a": 1})]);
}

#[test]
fn a_broken_document_does_not_hide_the_others() {
    let source = "a: 1\n---\nb: [\n---\nc: 3\n---\nx:\n\td: 4\n---\ne: 5\n";
    let (nodes, problems) = documents(source);
    let nodes: Vec<_> = nodes.iter().map(Node::to_json).collect();
    assert_eq!(nodes, [json!({"a": 1}), json!({"c": 3}), json!({"e": 5})]);
    assert_eq!(problems.len(), 2);
    assert!(problems.iter().all(|problem| problem.rule == "yaml" && !problem.help.is_empty()));
    assert!(source[problems[1].span.start..].starts_with("d: 4"), "{problems:?}");
}

#[test]
fn anchors_and_merge_keys() {
    assert_eq!(read("a: &x {b: 1, c: 2}\nd: *x\n"), [json!({"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 2}})]);
    assert_eq!(
        read("base: &base {a: 1, b: 2}\nitem:\n  <<: *base\n  b: 3\n"),
        [json!({"base": {"a": 1, "b": 2}, "item": {"b": 3, "a": 1}})]
    );
    assert_eq!(
        read("- &x {a: 1}\n- &y {a: 2, b: 2}\n- {<<: [*x, *y], c: 3}\n"),
        [json!([{"a": 1}, {"a": 2, "b": 2}, {"c": 3, "a": 1, "b": 2}])]
    );
    assert_eq!(read("\"<<\": 1\n"), [json!({"<<": 1})]);
    assert_eq!(wrong("<<: 1\n"), [(4, "`<<` takes a map or a list of maps".to_owned())]);
    assert_eq!(wrong("a: &x [*x]\n"), [(7, "this alias stands inside the part it refers to".to_owned())]);
    assert_eq!(wrong("a: &x 1\n---\nb: *x\n").len(), 1, "anchors end with their document");
}

#[test]
fn an_alias_stands_where_it_is_written() {
    let source = "a: &x\n  b: 1\nd: *x\n";
    let (nodes, _) = documents(source);
    let span = nodes[0].get("d").unwrap().span;
    assert_eq!(&source[span.start..span.end], "*x");
}

#[test]
fn a_key_written_twice_is_kept_twice() {
    let (nodes, problems) = documents("a: 1\nb: 2\na: 3\n");
    let Value::Map(fields) = &nodes[0].value else { panic!("{nodes:?}") };
    assert_eq!(fields.len(), 3);
    assert_eq!(problems, []);
}

#[test]
fn keys_are_strings() {
    assert_eq!(
        read("8080: a\n1.5: b\ntrue: c\n0x10: d\n"),
        [json!({"8080": "a", "1.5": "b", "true": "c", "16": "d"})]
    );
    let bare = |source: &str| {
        let (nodes, _) = documents(source);
        let Value::Map(fields) = &nodes[0].value else { panic!("{nodes:?}") };
        fields.iter().map(|(key, _)| (key.text.to_string(), key.bare)).collect::<Vec<_>>()
    };
    assert_eq!(
        bare("on: 1\n\"on\": 1\nn: 1\n"),
        [("on".to_owned(), Some(true)), ("on".to_owned(), None), ("n".to_owned(), Some(false))]
    );
    assert_eq!(read("on: 1\n"), [json!({"true": 1})], "as kubectl reads it");
    assert_eq!(wrong("? [a]\n: 1\n"), [(2, "a list cannot be a key".to_owned())]);
    assert_eq!(wrong("~: 1\n"), [(0, "nothing cannot be a key".to_owned())]);
}

#[test]
fn yaml_1_1_booleans_are_told_apart() {
    let (nodes, _) = documents("[y, N, on, Off, YES, no, true, FALSE, 'y', \"off\", yEs]");
    let Value::List(items) = &nodes[0].value else { panic!("{nodes:?}") };
    let bare = items.iter().filter(|item| matches!(item.value, Value::BareBool(..))).count();
    let bools = items.iter().filter(|item| matches!(item.value, Value::Bool(_))).count();
    let texts = items.iter().filter(|item| matches!(item.value, Value::Text(_))).count();
    assert_eq!((bare, bools, texts), (6, 2, 3));
}

#[test]
fn tags_decide_what_a_scalar_is() {
    assert_eq!(
        read("[!!str 80, !!int '80', !!bool 'yes', !other 80, !!binary aGk=, ! 12]"),
        [json!(["80", 80, true, "80", "hi", "12"])]
    );
    assert_eq!(wrong("a: !!binary '?'").len(), 1);
    assert_eq!(wrong("a: .inf").len(), 1);
}

#[test]
fn characters_that_cannot_be_seen_are_refused() {
    let source = "ä: 1\n---\nb: \"x\0y\"\n---\nc: 1\n";
    assert_eq!(documents(source).0.len(), 2, "those around it are read");
    let (at, message) = wrong(source).remove(0);
    assert_eq!((&source[at..=at], message.contains("U+0000")), ("\0", true), "{message}");
    assert_eq!(wrong("a: \"x\ty\u{85}z\"\r\n"), []);
    assert_eq!(wrong("a: \u{7f}\n").len(), 1);
}

#[test]
fn block_text_keeps_its_lines() {
    assert_eq!(
        read("a: |\n  x\n  y\nb: >-\n  z\n  w\nc: |-\n  y\n"),
        [json!({"a": "x\ny\n", "b": "z w", "c": "y"})]
    );
}

#[test]
fn line_ends_and_byte_order_marks_of_other_systems() {
    let source = "\u{feff}a: 1\r\nb:\r\n  - x\r\n---\r\nc: z\r\n";
    assert_eq!(read(source), [json!({"a": 1, "b": ["x"]}), json!({"c": "z"})]);
    let (nodes, _) = documents(source);
    let span = nodes[0].nearest("b[0]").span;
    assert_eq!(&source[span.start..span.end], "x");
}

#[test]
fn spans_are_bytes_of_the_file() {
    let source = "ä: ö\n---\nß: 'ü x'\nb: [é, z]\n";
    let (nodes, _) = documents(source);
    let at = |path: &str| {
        let span = nodes[1].nearest(path).span;
        &source[span.start..span.end]
    };
    assert_eq!(at("ß"), "'ü x'");
    assert_eq!(at("b[1]"), "z");
    assert_eq!(at("b"), "[é, z]");
    let broken = "ä: ö\n---\nü: [é\n";
    let (_, problems) = documents(broken);
    assert!(broken.is_char_boundary(problems[0].span.start));
}

#[test]
fn alias_bombs_are_refused() {
    let mut source = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let alias = format!("*a{}, ", level - 1).repeat(10);
        source += &format!("a{level}: &a{level} [{alias}]\n");
    }
    assert_eq!(wrong(&source).len(), 1);
    assert!(wrong(&source)[0].1.contains("aliases"));
}

#[test]
fn nesting_is_bounded_also_through_aliases() {
    assert_eq!(wrong(&"[".repeat(100_000)).len(), 1);
    assert_eq!(wrong(&format!("a: {}{}\n", "[".repeat(63), "]".repeat(63))), []);
    let mut source = "- &a0 x\n".to_owned();
    for level in 1..100 {
        source += &format!("- &a{level} [[[*a{}]]]\n", level - 1);
    }
    assert!(wrong(&source)[0].1.contains("deep"));
}

#[test]
fn json_is_read_with_all_its_forms() {
    assert_eq!(read("{\"a\": {\"b\": [1, 2.5, \"x\"]}}"), [json!({"a": {"b": [1, 2.5, "x"]}})]);
    assert_eq!(read("{\"a\": 1}\n{\"b\": 2}\n"), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(read("---\n{\"a\": 1}\n---\n{\"b\": 2}\n"), [json!({"a": 1}), json!({"b": 2})]);
    assert_eq!(wrong("{\"a\": 1,,}").len(), 1);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(source in r"([a-c&*<>|:\-\[\]{}#'! \n\t%.0-9é~?]|---|: |\n  ){0,60}") {
        let (nodes, problems) = documents(&source);
        for problem in &problems {
            prop_assert!(source.get(problem.span.start..problem.span.end).is_some());
        }
        for node in &nodes {
            prop_assert!(source.get(node.span.start..node.span.end).is_some());
        }
    }
}
