//! YAML, and JSON with it, as kubectl reads it: anchors, merge keys, many documents, YAML 1.1 booleans.
//!
//! A document that cannot be read is a problem of its own; the documents around it are still read. A key that
//! is written twice stays twice in the tree, and one that is a boolean to kubectl is marked, so that the object it
//! belongs to can be refused by name.

use std::collections::BTreeMap;

use base64::Engine;
use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::json;
use crate::plain::plain;
use crate::problem::{Problem, Severity};
use crate::tree::{Key, Node, Span, Value};

/// Aliases may repeat a part many times over; a document that grows past this through them is refused.
const MAX_COPIES: usize = 200_000;
/// Trees are walked by functions that call themselves.
const MAX_DEPTH: usize = 64;

/// The documents of a file that could be read, in order, and what is wrong with the others.
#[must_use]
pub fn documents(source: &str) -> (Vec<Node>, Vec<Problem>) {
    if let Some(nodes) = json::documents(source, MAX_DEPTH) {
        return (nodes, Vec::new());
    }
    let mut nodes = Vec::new();
    let mut problems = Vec::new();
    for (offset, part) in split(source) {
        if let Err(problem) = read_part(part, offset, &mut nodes) {
            problems.push(*problem);
        }
    }
    (nodes, problems)
}

/// Cut at the lines that begin a document, so that one that is broken does not hide those behind it.
fn split(source: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut start = source.len() - source.trim_start_matches('\u{feff}').len();
    let mut at = start;
    // Directives and comments belong to the document that follows.
    let mut has_content = false;
    for line in source[start..].split_inclusive('\n') {
        let marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marker && has_content {
            parts.push((start, &source[start..at]));
            start = at;
        }
        has_content = marker || has_content || !(line.trim().is_empty() || line.starts_with(['#', '%']));
        at += line.len();
    }
    parts.push((start, &source[start..]));
    parts
}

type Result<T> = std::result::Result<T, Box<Problem>>;

fn read_part(source: &str, offset: usize, nodes: &mut Vec<Node>) -> Result<()> {
    refuse_control_characters(source, offset)?;
    let positions = Positions::new(source, offset);
    let mut builder = Builder::default();
    for event in Parser::new_from_str(source) {
        let (event, span) = event.map_err(|error| {
            let at = positions.byte(error.marker().index());
            syntax(Span { start: at, end: at }, error.info(), advice(error.info()))
        })?;
        let span = Span { start: positions.byte(span.start.index()), end: positions.byte(span.end.index()) };
        if matches!(event, Event::DocumentEnd) {
            let builder = std::mem::take(&mut builder);
            nodes.extend(builder.root.filter(|node| node.value != Value::Null));
        } else {
            builder.event(event, span)?;
        }
    }
    Ok(())
}

/// The parser takes some of them for the end of the document, and passes over others that kubectl refuses.
fn refuse_control_characters(source: &str, offset: usize) -> Result<()> {
    let allowed = ['\t', '\n', '\r', '\u{85}'];
    let Some((at, found)) =
        source.char_indices().find(|(_, found)| found.is_control() && !allowed.contains(found))
    else {
        return Ok(());
    };
    let start = offset + at;
    Err(syntax(
        Span { start, end: start + found.len_utf8() },
        format!("the character U+{:04X}, which cannot be seen, has no place in YAML", u32::from(found)),
        "remove it; binary data goes into `data` as base64",
    ))
}

fn syntax(span: Span, message: impl Into<String>, help: impl Into<String>) -> Box<Problem> {
    Box::new(Problem {
        severity: Severity::Error,
        rule: "yaml",
        object: String::new(),
        field: String::new(),
        span,
        message: message.into(),
        help: help.into(),
    })
}

/// The parser says what it stumbled over; these are the usual reasons.
fn advice(message: &str) -> &'static str {
    if message.contains("tab") {
        "indent with spaces"
    } else if message.contains("mapping values are not allowed") {
        "check the indentation, and put quotes around a value that has `: ` in it"
    } else if message.contains("unexpected character") {
        "put quotes around a value that begins with such a character"
    } else if message.contains("unknown anchor") {
        "put quotes around a value that begins with `*`, such as \"*.example.com\""
    } else if message.contains("quoted scalar") {
        "check that the quotes are closed, and what stands behind them"
    } else {
        "check the indentation, brackets and quotes here and in the line before"
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
    Map { fields: Vec<(Key, Node)>, key: Option<MapKey>, merges: Vec<Node> },
}

enum MapKey {
    Name(Key),
    /// `<<` without quotes.
    Merge,
}

/// Builds the tree of one document.
#[derive(Default)]
struct Builder {
    stack: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    copies: usize,
    root: Option<Node>,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                if &*text == "<<"
                    && style == ScalarStyle::Plain
                    && let Some(key @ None) = self.open_key()
                {
                    *key = Some(MapKey::Merge);
                    return Ok(());
                }
                let value = scalar(&text, style, tag.as_deref(), span)?;
                self.place(Node { span, value }, anchor)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor);
                let node =
                    node.ok_or_else(|| syntax(span, "this alias stands inside the part it refers to", ""))?;
                let (count, depth) = size(node);
                let node = Node { span, ..node.clone() };
                self.copied(count, span)?;
                if self.stack.len() + depth > MAX_DEPTH {
                    return Err(too_deep(span));
                }
                self.place(node, 0)
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

    /// The key that waits for its value, where a map is open.
    fn open_key(&mut self) -> Option<&mut Option<MapKey>> {
        match &mut self.stack.last_mut()?.collection {
            Collection::Map { key, .. } => Some(key),
            Collection::List(_) => None,
        }
    }

    fn copied(&mut self, count: usize, span: Span) -> Result<()> {
        self.copies += count;
        if self.copies > MAX_COPIES {
            let message = "this document grows past all bounds through its aliases";
            return Err(syntax(span, message, "write the parts out"));
        }
        Ok(())
    }

    fn open(&mut self, anchor: usize, start: Span, collection: Collection) -> Result<()> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(too_deep(start));
        }
        self.stack.push(Open { anchor, start, collection });
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<()> {
        let Some(open) = self.stack.pop() else { return Ok(()) };
        let mut span = Span { start: open.start.start, end: end.end.max(open.start.end) };
        let value = match open.collection {
            Collection::List(items) => Value::List(items),
            Collection::Map { mut fields, merges, .. } => {
                // A block map starts where its first key does.
                if let Some((first, _)) = fields.first() {
                    span.start = first.span.start;
                }
                merges.into_iter().try_for_each(|merge| merge_into(&mut fields, merge))?;
                Value::Map(fields)
            }
        };
        self.place(Node { span, value }, open.anchor)
    }

    fn place(&mut self, node: Node, anchor: usize) -> Result<()> {
        if anchor > 0 {
            self.copied(size(&node).0, node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut().map(|open| &mut open.collection) {
            None => self.root = Some(node),
            Some(Collection::List(items)) => items.push(node),
            Some(Collection::Map { fields, key, merges }) => match key.take() {
                None => *key = Some(MapKey::Name(map_key(&node)?)),
                Some(MapKey::Merge) => merges.push(node),
                Some(MapKey::Name(key)) => fields.push((key, node)),
            },
        }
        Ok(())
    }
}

fn too_deep(span: Span) -> Box<Problem> {
    syntax(span, format!("lists and maps are nested more than {MAX_DEPTH} deep"), "")
}

/// How many nodes, and how many lists and maps inside each other.
fn size(node: &Node) -> (usize, usize) {
    let add = |(count, depth), (more, deeper): (usize, usize)| (count + more, usize::max(depth, deeper + 1));
    match &node.value {
        Value::List(items) => items.iter().map(size).fold((1, 1), add),
        Value::Map(fields) => fields.iter().map(|(_, node)| size(node)).fold((1, 1), add),
        _ => (1, 0),
    }
}

fn map_key(node: &Node) -> Result<Key> {
    let text: Box<str> = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Bool(value) => value.to_string().into(),
        Value::Number(number) | Value::BareNumber(number, _) => number.to_string().into(),
        // The object that it belongs to is refused by name, with whatever else is wrong with it.
        Value::BareBool(value, raw) => {
            return Ok(Key { bare: Some(*value), ..Key::new(node.span, raw.clone()) });
        }
        Value::Null | Value::List(_) | Value::Map(_) => {
            let message = format!("{} cannot be a key", node.describe());
            return Err(syntax(node.span, message, "a key is a string"));
        }
    };
    Ok(Key::new(node.span, text))
}

/// `<<: *base`, or a list of them: what is there already goes first.
fn merge_into(fields: &mut Vec<(Key, Node)>, merge: Node) -> Result<()> {
    match merge.value {
        Value::Map(base) => {
            for (key, node) in base {
                if !fields.iter().any(|(name, _)| name.text == key.text) {
                    fields.push((key, node));
                }
            }
            Ok(())
        }
        Value::List(bases) => bases.into_iter().try_for_each(|base| merge_into(fields, base)),
        _ => Err(syntax(
            merge.span,
            "`<<` takes a map or a list of maps",
            "write an alias such as `<<: *base`",
        )),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Result<Value> {
    let known = tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str());
    let value = match known {
        Some("int" | "float" | "bool" | "null") => plain(text),
        Some("binary") => return binary(text, span),
        None if tag.is_none() && style == ScalarStyle::Plain => plain(text),
        _ => Some(Value::Text(text.into())),
    };
    value.ok_or_else(|| {
        let message = format!("`{text}` is a number in YAML that JSON, and so the API, has no place for");
        syntax(span, message, format!("write \"{text}\" if a string is meant"))
    })
}

fn binary(text: &str, span: Span) -> Result<Value> {
    let compact: String = text.split_ascii_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD.decode(compact).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let text =
        text.ok_or_else(|| syntax(span, "`!!binary` takes base64 of text", "write the text as it is"))?;
    Ok(Value::Text(text.into()))
}

#[cfg(test)]
mod tests;
