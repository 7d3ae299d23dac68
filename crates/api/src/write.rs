//! JSON values as YAML text, as kubectl prints them.

use std::fmt::Write;

use serde_json::Value;

/// Two spaces a level; strings in quotes where YAML 1.1 would read something else.
#[must_use]
pub fn yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => map(fields, 0, &mut text),
        Value::Array(items) if !items.is_empty() => list(items, 0, &mut text),
        other => {
            scalar(other, 0, &mut text);
            text.push('\n');
        }
    }
    text
}

fn map(fields: &serde_json::Map<String, Value>, depth: usize, text: &mut String) {
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            indent(depth, text);
        }
        string(key, depth, text);
        text.push(':');
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                text.push('\n');
                indent(depth + 1, text);
                map(fields, depth + 1, text);
            }
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                indent(depth, text);
                list(items, depth, text);
            }
            other => {
                text.push(' ');
                scalar(other, depth, text);
                text.push('\n');
            }
        }
    }
}

fn list(items: &[Value], depth: usize, text: &mut String) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            indent(depth, text);
        }
        text.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => map(fields, depth + 1, text),
            Value::Array(items) if !items.is_empty() => list(items, depth + 1, text),
            other => {
                scalar(other, depth + 1, text);
                text.push('\n');
            }
        }
    }
}

fn scalar(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::String(value) => string(value, depth, text),
        // A map or list that is not empty is never asked here.
        other => text.push_str(&other.to_string()),
    }
}

fn string(value: &str, depth: usize, text: &mut String) {
    let is_block = value.len() > 1
        && value.ends_with('\n')
        && !value.starts_with([' ', '\n'])
        && !value.ends_with("\n\n")
        && value.chars().all(|character| character == '\n' || !character.is_control());
    if is_block {
        text.push('|');
        for line in value.lines() {
            text.push('\n');
            if !line.is_empty() {
                indent(depth + 1, text);
                text.push_str(line);
            }
        }
    } else if is_plain(value) {
        text.push_str(value);
    } else {
        let _ = write!(text, "{}", Value::String(value.to_owned()));
    }
}

/// Whether the bare text is read back as this string and nothing else.
fn is_plain(value: &str) -> bool {
    let first = value.chars().next();
    let safe_start = first.is_some_and(|first| first.is_ascii_alphabetic() || first == '/' || first == '_');
    let safe = value.chars().all(|character| character.is_ascii_graphic() || character == ' ');
    let splits = value.contains(": ") || value.contains(" #") || value.ends_with(':') || value.ends_with(' ');
    let word = matches!(crate::yaml::plain_scalar(value), crate::Value::Text(_));
    safe_start && safe && !splits && word
}

fn indent(depth: usize, text: &mut String) {
    for _ in 0..depth {
        text.push_str("  ");
    }
}
