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
}

#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub span: Span,
    pub text: Box<str>,
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

    /// Follows a path as problems write it: `spec.rules[0].name`.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&Self> {
        steps(path).try_fold(self, |node, step| node.step(step))
    }

    /// The same, as far as it goes.
    #[must_use]
    pub fn nearest(&self, path: &str) -> &Self {
        let mut node = self;
        for step in steps(path) {
            let Some(next) = node.step(step) else { break };
            node = next;
        }
        node
    }

    fn step(&self, step: &str) -> Option<&Self> {
        match (&self.value, step.strip_suffix(']').and_then(|index| index.parse::<usize>().ok())) {
            (Value::List(items), Some(index)) => items.get(index),
            _ => self.get(step),
        }
    }

    /// What the value is, for messages.
    #[must_use]
    pub const fn describe(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) | Value::BareBool(..) => "a boolean",
            Value::Number(_) => "a number",
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
            Value::Number(number) => Json::Number(number.clone()),
            Value::Text(text) => Json::String(text.as_ref().to_owned()),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(fields) => {
                fields.iter().map(|(key, node)| (key.text.as_ref().to_owned(), node.to_json())).collect()
            }
        }
    }
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[']).filter(|step| !step.is_empty())
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
                    .map(|(key, value)| {
                        (Key { span: Span::default(), text: key.as_str().into() }, value.into())
                    })
                    .collect(),
            ),
        };
        Self { span: Span::default(), value }
    }
}
