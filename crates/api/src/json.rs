//! JSON with places. Not all of JSON is YAML (tabs, pairs of surrogates), and `jq -c` writes many documents
//! one behind the other; kubectl reads both.

use serde::de::IgnoredAny;
use serde_json::Number;

use crate::plain::plain;
use crate::tree::{Key, Node, Span, Value};

/// The documents of a source that is JSON from beginning to end; `None` where it is not.
pub(crate) fn documents(source: &str, max_depth: usize) -> Option<Vec<Node>> {
    let start = source.find(|first: char| !first.is_whitespace())?;
    if !source[start..].starts_with('{') {
        return None;
    }
    let mut nodes = Vec::new();
    let mut stream = serde_json::Deserializer::from_str(source).into_iter::<IgnoredAny>();
    let mut at = 0;
    while let Some(document) = stream.next() {
        document.ok()?;
        let mut walk = Walk { source, at, max_depth };
        nodes.push(walk.value(0)?);
        at = stream.byte_offset();
    }
    Some(nodes)
}

/// Walks over text that is known to be JSON.
struct Walk<'a> {
    source: &'a str,
    at: usize,
    max_depth: usize,
}

impl Walk<'_> {
    fn value(&mut self, depth: usize) -> Option<Node> {
        if depth > self.max_depth {
            return None;
        }
        let start = self.skip_to_token()?;
        let value = match self.byte() {
            b'{' => Value::Map(self.items(depth, |walk, depth| {
                let start = walk.at;
                let text = walk.text()?;
                let key = Key::new(Span { start, end: walk.at }, text);
                walk.skip_to_token()?;
                walk.at += 1;
                Some((key, walk.value(depth)?))
            })?),
            b'[' => Value::List(self.items(depth, Self::value)?),
            b'"' => Value::Text(self.text()?),
            _ => self.word()?,
        };
        Some(Node { span: Span { start, end: self.at }, value })
    }

    /// What stands between brackets, each read by `item`.
    fn items<T>(
        &mut self,
        depth: usize,
        mut item: impl FnMut(&mut Self, usize) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut items = Vec::new();
        loop {
            self.at += 1;
            self.skip_to_token()?;
            if matches!(self.byte(), b'}' | b']') {
                break;
            }
            items.push(item(self, depth + 1)?);
            self.skip_to_token()?;
            if matches!(self.byte(), b'}' | b']') {
                break;
            }
        }
        self.at += 1;
        Some(items)
    }

    fn text(&mut self) -> Option<Box<str>> {
        let start = self.at;
        let mut escaped = false;
        let inside = self.source.get(start + 1..)?;
        let length = inside.bytes().position(|byte| {
            let end = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            end
        })?;
        self.at = start + length + 2;
        serde_json::from_str::<String>(&self.source[start..self.at]).ok().map(Into::into)
    }

    fn word(&mut self) -> Option<Value> {
        let rest = &self.source[self.at..];
        let length = rest.find(|end: char| ",]}".contains(end) || end.is_whitespace()).unwrap_or(rest.len());
        self.at += length;
        match serde_json::from_str::<Number>(&rest[..length]) {
            Ok(number) if number.to_string() != rest[..length] => {
                Some(Value::BareNumber(number, rest[..length].into()))
            }
            Ok(number) => Some(Value::Number(number)),
            Err(_) => plain(&rest[..length]),
        }
    }

    fn skip_to_token(&mut self) -> Option<usize> {
        let rest = self.source.get(self.at..)?;
        self.at += rest.find(|next: char| !next.is_whitespace())?;
        Some(self.at)
    }

    fn byte(&self) -> u8 {
        self.source.as_bytes().get(self.at).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(source: &str) -> Option<Vec<String>> {
        documents(source, 64).map(|nodes| nodes.iter().map(|node| node.to_json().to_string()).collect())
    }

    #[test]
    fn documents_may_follow_each_other() {
        assert_eq!(
            shown("{\"a\": [1, {\"b\": null}]}\n{}\n\t{\"c\": true} "),
            Some(vec![r#"{"a":[1,{"b":null}]}"#.to_owned(), "{}".to_owned(), r#"{"c":true}"#.to_owned()])
        );
    }

    #[test]
    fn what_is_not_json_is_left_to_yaml() {
        for source in
            ["", "a: 1", "{a: 1}", "{\"a\": 1,}", "[1]", "{\"a\": 1} # comment", "{\"a\": 1}\n---\n{}"]
        {
            assert_eq!(shown(source), None, "{source}");
        }
    }

    #[test]
    fn tabs_and_surrogates_are_json() {
        assert_eq!(shown("{\n\t\"a\":\t\"\\ud83d\\ude00\\/\"}"), Some(vec![r#"{"a":"😀/"}"#.to_owned()]));
    }

    #[test]
    fn spans_are_bytes_of_the_source() {
        let source = "{\"ü\": [\"é\", 12]}";
        let nodes = documents(source, 64).unwrap();
        let list = nodes[0].get("ü").unwrap();
        let of = |span: Span| &source[span.start..span.end];
        assert_eq!(of(list.span), "[\"é\", 12]");
        assert_eq!(of(nodes[0].entry("ü").unwrap().0.span), "\"ü\"");
        assert_eq!(of(list.nearest("[1]").span), "12");
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |depth: usize| format!("{{\"a\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(documents(&deep(63), 64).is_some());
        assert!(documents(&deep(80), 64).is_none());
        assert!(documents(&deep(100_000), 64).is_none());
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(source in r#"(\{("[a-c]{0,2}"|[\[\]{},: 0-9tf"\\-]|true|null|1e5){0,20}\} ?){1,2}"#) {
            let ours = documents(&source, 64);
            let theirs: Result<Vec<serde_json::Value>, _> = serde_json::Deserializer::from_str(&source).into_iter().collect();
            prop_assert_eq!(ours.is_some(), theirs.is_ok());
            if let (Some(ours), Ok(theirs)) = (ours, theirs) {
                let ours: Vec<_> = ours.iter().map(Node::to_json).collect();
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}
