//! A value as YAML, as kubectl prints it: two spaces, keys in the order they have, quotes where YAML 1.1 would
//! read something else, and block literals for text of several lines.

use serde_json::Value as Json;

use crate::plain::plain;
use crate::tree::Value;

/// The value as a YAML document, with a newline at its end.
#[must_use]
pub fn to_yaml(value: &Json) -> String {
    let mut out = String::new();
    write(value, 0, Position::Start, &mut out);
    out
}

/// What stands before a value on its line.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    Start,
    AfterKey,
    AfterDash,
}

fn write(value: &Json, indent: usize, position: Position, out: &mut String) {
    match value {
        Json::Object(fields) if !fields.is_empty() => {
            if position == Position::AfterKey {
                out.push('\n');
            }
            for (index, (key, value)) in fields.iter().enumerate() {
                // The first key of a list's item stands on the line of its dash.
                if index > 0 || position != Position::AfterDash {
                    pad(indent, out);
                }
                out.push_str(&key_text(key));
                out.push(':');
                // A list below a key is not indented further, as kubectl has it.
                let below = if value.is_array() { indent } else { indent + 2 };
                write(value, below, Position::AfterKey, out);
            }
        }
        Json::Array(items) if !items.is_empty() => {
            if position == Position::AfterKey {
                out.push('\n');
            }
            for (index, item) in items.iter().enumerate() {
                if index > 0 || position != Position::AfterDash {
                    pad(indent, out);
                }
                out.push('-');
                if item.as_object().is_some_and(|fields| !fields.is_empty())
                    || item.as_array().is_some_and(|items| !items.is_empty())
                {
                    out.push(' ');
                }
                write(item, indent + 2, Position::AfterDash, out);
            }
        }
        _ => {
            if position != Position::Start {
                out.push(' ');
            }
            scalar(value, indent, out);
            out.push('\n');
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(value: &Json, indent: usize, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => out.push_str(&number.to_string()),
        Json::String(text) if is_block(text) => block(text, indent.max(2), out),
        Json::String(text) => out.push_str(&inline(text)),
        Json::Array(_) => out.push_str("[]"),
        Json::Object(_) => out.push_str("{}"),
    }
}

fn key_text(key: &str) -> String {
    // A long or many-lined key would have to be written as `? key`; with quotes it need not.
    if key == "<<" { "\"<<\"".to_owned() } else { inline(key) }
}

fn inline(text: &str) -> String {
    if is_plain(text) {
        text.to_owned()
    } else if text.chars().all(|character| !needs_escape(character)) && !text.contains('\'') {
        // Whichever quotes, reading gives the same; double ones are what people expect around numbers.
        if text.contains(['"', '\\']) { format!("'{text}'") } else { format!("\"{text}\"") }
    } else {
        escaped(text)
    }
}

/// Whether the text means itself without quotes.
fn is_plain(text: &str) -> bool {
    let first = text.chars().next();
    let indicator = |first: char| "-?:,[]{}#&*!|>'\"%@`= \t".contains(first);
    let word_like_dash = text.len() > 1
        && text.starts_with(['-', '?', ':'])
        && !text[1..].starts_with([' ', '-', ',', '[', ']', '{', '}']);
    matches!(plain(text), Some(Value::Text(_)))
        && text != "<<"
        && first.is_some_and(|first| !indicator(first) || word_like_dash)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("---")
        && !text.starts_with("...")
        && text.chars().all(|character| !needs_escape(character))
}

/// What a scalar on one line cannot hold as it is.
fn needs_escape(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Double quotes with the escapes of JSON and a few of YAML.
fn escaped(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            character if needs_escape(character) => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            character => out.push(character),
        }
    }
    out.push('"');
    out
}

/// Text of several lines that a block literal can hold.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && text.chars().all(|character| character == '\n' || !needs_escape(character))
        && text.lines().all(|line| line.is_empty() || !line.trim().is_empty())
        // Of several newlines at the end the last lines are empty ones, which quotes show better.
        && !text.ends_with("\n\n")
}

fn block(text: &str, indent: usize, out: &mut String) {
    out.push_str(if text.ends_with('\n') { "|" } else { "|-" });
    for line in text.trim_end_matches('\n').split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(indent, out);
            out.push_str(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::yaml;

    fn read_back(value: &Json) -> Option<Json> {
        let (nodes, problems) = yaml::documents(&to_yaml(value));
        assert_eq!(problems, [], "{}", to_yaml(value));
        nodes.first().map(crate::Node::to_json)
    }

    #[test]
    fn written_as_kubectl_prints_it() {
        let value = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"on": "yes", "version": "1.10", "empty": ""}, "generation": 3},
            "data": {"ca.crt": "line one\nline two\n", "no-end": "a\nb", "quote": "it's", "wild": "*.example.com"},
            "items": [{"name": "a", "ports": [80, 443], "nested": [[1], []]}, "text", null, {}, true],
            "none": [],
        });
        assert_eq!(
            to_yaml(&value),
            "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  labels:
    \"on\": \"yes\"
    version: \"1.10\"
    empty: \"\"
  generation: 3
data:
  ca.crt: |
    line one
    line two
  no-end: |-
    a
    b
  quote: it's
  wild: \"*.example.com\"
items:
- name: a
  ports:
  - 80
  - 443
  nested:
  - - 1
  - []
- text
- null
- {}
- true
none: []
"
        );
        assert_eq!(read_back(&value), Some(value));
    }

    #[test]
    fn text_that_means_something_else_is_quoted() {
        for text in [
            "",
            " ",
            "y",
            "No",
            "null",
            "~",
            "1",
            "0x1F",
            "1e3",
            ".inf",
            "-",
            "- a",
            "a: b",
            "a:",
            "a #b",
            "#a",
            "&a",
            "*a",
            "!a",
            "%a",
            "@a",
            "`a",
            "'a",
            "\"a",
            "a'b\"c",
            "{a",
            "[a",
            "a\tb",
            "a\r\nb",
            "\u{feff}a",
            "\u{2028}",
            "---",
            "--- a",
            "...",
            "<<",
            "=",
            "? a",
            "a\n\nb\n",
            " a\nb",
            "\na",
            "a\n \nb",
            "a\n\n",
            "é\u{85}",
            "😀",
            "-a",
            ":a",
            "?a",
            "a\\b\n",
            "\u{7f}",
            "| a",
            "> a",
            ", a",
            "a ",
            "0b1",
            "1_000",
            "2026-11-02",
        ] {
            let value = json!({"key": text, "list": [text], text: 1});
            assert_eq!(read_back(&value), Some(value), "{text:?}");
            let alone = json!(text);
            assert_eq!(read_back(&alone), Some(alone), "{text:?}");
        }
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let text = prop_oneof![
            r"[a-c \n:#'\x22\-*&!|>%@`{}\[\],?~.0-9\t\\]{0,12}",
            r"\PC{0,6}",
            r"(\n| |[ab]|é){0,8}",
            Just("off".to_owned()),
        ];
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            (-1e6..1e6_f64)
                .prop_filter("whole floats are read as whole numbers", |n| n.fract() != 0.0)
                .prop_map(Json::from),
            text.clone().prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|fields| Json::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn reading_gives_what_was_written(value in any_json()) {
            prop_assume!(!value.is_null());
            prop_assert_eq!(read_back(&value), Some(value.clone()), "{}", to_yaml(&value));
        }
    }
}
