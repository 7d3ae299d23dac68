//! A tree of YAML or JSON that remembers where each part stood in its source.

use serde_json::{Number, Value as Json};

/// Byte offsets into the source, end exclusive. Objects that came without a source have empty spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub span: Span,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(Box<str>),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
    /// A plain scalar that YAML 1.1, and so kubectl, reads as a boolean though a person may have meant text.
    BareBool(bool, Box<str>),
    /// A plain scalar that is read as a number but shown differently: `1.10`, `0x1F`, `08`.
    BareNumber(Number, Box<str>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub span: Span,
    /// As it is written.
    pub text: Box<str>,
    /// What YAML 1.1, and so kubectl, reads instead of a plain `y`, `no` or `off`.
    pub bare: Option<bool>,
}

impl Key {
    pub(crate) fn new(span: Span, text: impl Into<Box<str>>) -> Self {
        Self { span, text: text.into(), bare: None }
    }

    /// The key as JSON has it.
    fn to_json(&self) -> String {
        self.bare.map_or_else(|| self.text.to_string(), |value| value.to_string())
    }
}

impl Node {
    /// The value behind `key`, where this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|(_, node)| node)
    }

    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&(Key, Self)> {
        match &self.value {
            Value::Map(fields) => fields.iter().find(|(name, _)| &*name.text == key),
            _ => None,
        }
    }

    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Follows a path as problems write it: `spec.rules[0].name`, `labels["example.com/a"]`.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&Self> {
        match first_step(path) {
            (Step::End, _) => Some(self),
            (step, rest) => self.step(&step)?.find(rest),
        }
    }

    /// The same, as far as it goes.
    #[must_use]
    pub fn nearest(&self, path: &str) -> &Self {
        let (step, rest) = first_step(path);
        self.step(&step).map_or(self, |next| next.nearest(rest))
    }

    fn step(&self, step: &Step<'_>) -> Option<&Self> {
        match (&self.value, step) {
            (Value::List(items), Step::Index(index)) => items.get(*index),
            (_, Step::Name(name)) => self.get(name),
            (_, Step::Quoted(name)) => self.get(name),
            (_, Step::End | Step::Index(_)) => None,
        }
    }

    /// What the value is, for messages.
    #[must_use]
    pub const fn describe(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) | Value::BareBool(..) => "a boolean",
            Value::Number(_) | Value::BareNumber(..) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    #[must_use]
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) | Value::BareBool(value, _) => Json::Bool(*value),
            Value::Number(number) | Value::BareNumber(number, _) => Json::Number(number.clone()),
            Value::Text(text) => Json::String(text.as_ref().to_owned()),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(fields) => fields.iter().map(|(key, node)| (key.to_json(), node.to_json())).collect(),
        }
    }
}

enum Step<'p> {
    End,
    Name(&'p str),
    Quoted(String),
    Index(usize),
}

fn first_step(path: &str) -> (Step<'_>, &str) {
    let path = path.trim_start_matches('.');
    if path.is_empty() {
        return (Step::End, "");
    }
    let Some(bracket) = path.strip_prefix('[') else {
        let end = path.find(['.', '[']).unwrap_or(path.len());
        return (Step::Name(&path[..end]), &path[end..]);
    };
    let mut quoted = serde_json::Deserializer::from_str(bracket).into_iter::<String>();
    if let Some(Ok(key)) = quoted.next() {
        return (Step::Quoted(key), bracket[quoted.byte_offset()..].trim_start_matches(']'));
    }
    match bracket.split_once(']').and_then(|(index, rest)| Some((index.parse().ok()?, rest))) {
        Some((index, rest)) => (Step::Index(index), rest),
        None => (Step::End, ""),
    }
}

/// Objects from an API server come without a source.
impl From<&Json> for Node {
    fn from(json: &Json) -> Self {
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::Number(number.clone()),
            Json::String(text) => Value::Text(text.as_str().into()),
            Json::Array(items) => Value::List(items.iter().map(Self::from).collect()),
            Json::Object(fields) => Value::Map(
                fields
                    .iter()
                    .map(|(key, value)| (Key::new(Span::default(), key.as_str()), value.into()))
                    .collect(),
            ),
        };
        Self { span: Span::default(), value }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_as_far_as_they_go() {
        let json = json!({"spec": {"rules": [{"name": "a"}, {"name": "b"}], "labels": {"x.y/z[0]": "c", "q\"": "d"}}});
        let node = Node::from(&json);
        for (path, found) in [
            ("spec.rules[1].name", json!("b")),
            ("spec.rules[1].nothing.more", json!({"name": "b"})),
            ("spec.rules[7].name", json["spec"]["rules"].clone()),
            ("spec.labels[\"x.y/z[0]\"]", json!("c")),
            ("spec.labels[\"q\\\"\"]", json!("d")),
            ("spec[x", json["spec"].clone()),
            ("", json.clone()),
        ] {
            assert_eq!(node.nearest(path).to_json(), found, "{path}");
        }
    }

    #[test]
    fn json_survives() {
        let json = json!({"a": [1, 1.5, -3, true, null, "x", {}], "b": {"c": []}});
        assert_eq!(Node::from(&json).to_json(), json);
    }
}
