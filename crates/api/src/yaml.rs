//! YAML, and JSON with it, as kubectl reads it: anchors, merge keys, many documents, YAML 1.1 booleans.
//!
//! A document that cannot be read is a problem of its own; the documents around it are still read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::Number;

use crate::problem::{Problem, Severity};
use crate::tree::{Key, Node, Span, Value};

/// Aliases may repeat a part many times over; a file that grows past this is refused.
const MAX_NODES: usize = 500_000;
const MAX_DEPTH: usize = 64;

/// The documents of a file that could be read, in order, and what is wrong with the others.
pub fn documents(source: &str) -> (Vec<Node>, Vec<Problem>) {
    let mut nodes = Vec::new();
    let mut problems = Vec::new();
    for (offset, part) in split(source) {
        match document(part, offset, &mut problems) {
            Ok(Some(node)) => nodes.push(node),
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    (nodes, problems)
}

/// Cut at the lines that begin a document, so that one that is broken does not hide those behind it.
fn split(source: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in source.split_inclusive('\n') {
        let marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marker && at > start {
            parts.push((start, &source[start..at]));
            start = at;
        }
        at += line.len();
    }
    parts.push((start, &source[start..]));
    parts
}

fn document(source: &str, offset: usize, problems: &mut Vec<Problem>) -> Result<Option<Node>, Problem> {
    let positions = Positions::new(source, offset);
    let mut builder = Builder { stack: Vec::new(), anchors: BTreeMap::new(), nodes: 0, root: None, problems };
    for event in Parser::new_from_str(source) {
        let (event, span) = event.map_err(|error| {
            let at = positions.byte(error.marker().index());
            syntax(Span { start: at, end: at + 1 }, error.info().to_owned(), "")
        })?;
        let span = Span { start: positions.byte(span.start.index()), end: positions.byte(span.end.index()) };
        builder.event(event, span)?;
    }
    Ok(builder.root.filter(|node| node.value != Value::Null))
}

fn syntax(span: Span, message: impl Into<String>, help: &str) -> Problem {
    Problem {
        severity: Severity::Error,
        rule: "yaml",
        object: String::new(),
        field: String::new(),
        span,
        message: message.into(),
        help: help.to_owned(),
    }
}

/// The parser counts characters, spans count bytes of the whole file.
struct Positions {
    offset: usize,
    /// Byte offset of each character; empty where they are the same.
    bytes: Vec<usize>,
    len: usize,
}

impl Positions {
    fn new(source: &str, offset: usize) -> Self {
        let bytes =
            if source.is_ascii() { Vec::new() } else { source.char_indices().map(|(at, _)| at).collect() };
        Self { offset, bytes, len: source.len() }
    }

    fn byte(&self, character: usize) -> usize {
        let at = if self.bytes.is_empty() {
            character
        } else {
            self.bytes.get(character).copied().unwrap_or(self.len)
        };
        self.offset + at.min(self.len)
    }
}

/// A list or map that is not closed yet.
struct Open {
    anchor: usize,
    start: Span,
    collection: Collection,
}

enum Collection {
    List(Vec<Node>),
    Map { fields: Vec<(Key, Node)>, key: Option<Key>, merges: Vec<Node> },
}

struct Builder<'a> {
    stack: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
    problems: &'a mut Vec<Problem>,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref());
                self.place(Node { span, value }, anchor)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node =
                    node.ok_or_else(|| syntax(span, "this alias refers to a part that is still open", ""))?;
                self.nodes += count(&node);
                self.place(Node { span, ..node }, 0)
            }
            Event::SequenceStart(anchor, _) => self.open(anchor, span, Collection::List(Vec::new())),
            Event::MappingStart(anchor, _) => {
                self.open(anchor, span, Collection::Map { fields: Vec::new(), key: None, merges: Vec::new() })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(&mut self, anchor: usize, start: Span, collection: Collection) -> Result<(), Problem> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(syntax(start, format!("lists and maps are nested more than {MAX_DEPTH} deep"), ""));
        }
        self.stack.push(Open { anchor, start, collection });
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<(), Problem> {
        let Some(open) = self.stack.pop() else { return Ok(()) };
        let mut span = Span { start: open.start.start, end: end.end.max(open.start.end) };
        let value = match open.collection {
            Collection::List(items) => Value::List(items),
            Collection::Map { mut fields, merges, .. } => {
                // A block map starts where its first key does.
                if let Some((first, _)) = fields.first() {
                    span.start = first.span.start;
                }
                merges.into_iter().for_each(|merge| merge_into(&mut fields, merge));
                Value::Map(fields)
            }
        };
        self.place(Node { span, value }, open.anchor)
    }

    fn place(&mut self, node: Node, anchor: usize) -> Result<(), Problem> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(syntax(
                node.span,
                "this file grows past all bounds through its aliases",
                "write the parts out",
            ));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut().map(|open| &mut open.collection) {
            None => self.root = Some(node),
            Some(Collection::List(items)) => items.push(node),
            Some(Collection::Map { fields, key, merges }) => match key.take() {
                None => *key = Some(map_key(&node)?),
                Some(key) if &*key.text == "<<" => merges.push(node),
                Some(key) => {
                    if fields.iter().any(|(name, _)| name.text == key.text) {
                        self.problems.push(Problem {
                            rule: "duplicate-key",
                            ..syntax(
                                key.span,
                                format!("the key `{}` is written twice in one map", key.text),
                                "keep one of them: the other would be lost without a word",
                            )
                        });
                    }
                    fields.push((key, node));
                }
            },
        }
        Ok(())
    }
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::List(items) => items.iter().map(count).sum(),
        Value::Map(fields) => fields.iter().map(|(_, node)| count(node)).sum(),
        _ => 0,
    }
}

fn map_key(node: &Node) -> Result<Key, Problem> {
    let text: Box<str> = match &node.value {
        Value::Text(text) | Value::BareBool(_, text) => text.clone(),
        Value::Bool(value) => value.to_string().into(),
        Value::Number(number) => number.to_string().into(),
        Value::Null => "null".into(),
        Value::List(_) | Value::Map(_) => {
            return Err(syntax(
                node.span,
                format!("{} cannot be a key", node.describe()),
                "a key is a string",
            ));
        }
    };
    Ok(Key { span: node.span, text })
}

/// `<<: *base`, or a list of them: what is there already goes first.
fn merge_into(fields: &mut Vec<(Key, Node)>, merge: Node) {
    match merge.value {
        Value::Map(base) => {
            for (key, node) in base {
                if !fields.iter().any(|(name, _)| name.text == key.text) {
                    fields.push((key, node));
                }
            }
        }
        Value::List(bases) => bases.into_iter().for_each(|base| merge_into(fields, base)),
        _ => {}
    }
}

fn scalar(text: &Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
    if style == ScalarStyle::Plain && !is_text { plain_scalar(text) } else { Value::Text(text.as_ref().into()) }
}

/// The YAML 1.1 forms that kubectl's parser knows.
pub(crate) fn plain_scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Value::BareBool(true, text.into()),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Value::BareBool(false, text.into()),
        _ => {}
    }
    if let Some(number) = integer(text) {
        return Value::Number(number);
    }
    let looks_like_float = text.contains('.') || text.contains(['e', 'E']);
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let only_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if looks_like_float
        && has_digit
        && only_number
        && let Some(number) = text.parse().ok().and_then(Number::from_f64)
    {
        return Value::Number(number);
    }
    Value::Text(text.into())
}

fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace('_', "");
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        i128::from_str_radix(hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        i128::from_str_radix(binary, 2)
    } else if let Some(octal) = digits.strip_prefix("0o") {
        i128::from_str_radix(octal, 8)
    } else if digits.len() > 1 && digits.starts_with('0') {
        i128::from_str_radix(&digits, 8)
    } else {
        digits.parse()
    }
    .ok()?;
    let value = if negative { -value } else { value };
    i64::try_from(value).map(Number::from).or_else(|_| u64::try_from(value).map(Number::from)).ok()
}
