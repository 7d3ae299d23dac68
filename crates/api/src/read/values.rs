//! Single values: text, booleans, numbers.

use crate::read::spelling::nearest;
use crate::read::{At, Read};
use crate::scalar::quote;
use crate::tree::{Node, Value};

pub(crate) fn not_a_word(node: &Node, at: &mut At, text: &str, words: &[&str]) {
    let help = match nearest(text, words) {
        Some(word) => format!("did you mean `{word}`?"),
        None => String::new(),
    };
    at.wrong("enum", node, format!("{} is not one of {}", quote(text), words.join(", ")), help);
}

/// A string, with advice where YAML made something else of it.
pub(crate) fn text<'n>(node: &'n Node, at: &mut At) -> Option<&'n str> {
    match &node.value {
        Value::Text(text) => return Some(text),
        Value::BareBool(value, raw) => at.wrong(
            "unquoted",
            node,
            format!("`{raw}` without quotes is the boolean {value} in YAML, and a string belongs here"),
            format!("write \"{raw}\""),
        ),
        Value::Bool(value) => unquoted(node, at, &value.to_string()),
        Value::Number(number) => unquoted(node, at, &number.to_string()),
        Value::BareNumber(_, raw) => unquoted(node, at, raw),
        Value::Null | Value::List(_) | Value::Map(_) => {
            let message = format!("expected a string, found {}", node.describe());
            at.wrong("type", node, message, "write a single value");
        }
    }
    None
}

fn unquoted(node: &Node, at: &mut At, raw: &str) {
    let message = format!("`{raw}` without quotes is {} in YAML, and a string belongs here", node.describe());
    at.wrong("unquoted", node, message, format!("write \"{raw}\""));
}

impl Read for String {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        text(node, at).map(str::to_owned)
    }

    fn placeholder() -> Self {
        Self::new()
    }
}

impl Read for bool {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        match &node.value {
            Value::Bool(value) | Value::BareBool(value, _) => Some(*value),
            _ => {
                at.wrong(
                    "type",
                    node,
                    format!("expected true or false, found {}", node.describe()),
                    "write true or false",
                );
                None
            }
        }
    }

    fn placeholder() -> Self {
        false
    }
}

impl Read for i64 {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        if let Value::Number(number) | Value::BareNumber(number, _) = &node.value
            && let Some(value) = number.as_i64().or_else(|| whole(number.as_f64()))
        {
            return Some(value);
        }
        let help = match node.as_str().and_then(|text| text.parse::<Self>().ok()) {
            Some(number) => format!("write {number} without quotes"),
            None => "write a whole number".to_owned(),
        };
        let found = match &node.value {
            Value::Number(number) | Value::BareNumber(number, _) => number.to_string(),
            _ => node.describe().to_owned(),
        };
        at.wrong("type", node, format!("expected a whole number, found {found}"), help);
        None
    }

    fn placeholder() -> Self {
        0
    }
}

/// `8080.0` is a whole number for JSON.
fn whole(value: Option<f64>) -> Option<i64> {
    value.filter(|value| value.fract() == 0.0 && value.abs() < 9e15).map(|value| value as i64)
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whole<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Whole<MIN, MAX> {
    #[must_use]
    pub const fn new(value: i64) -> Option<Self> {
        if MIN <= value && value <= MAX { Some(Self(value)) } else { None }
    }

    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl<const MIN: i64, const MAX: i64> Read for Whole<MIN, MAX> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let value = i64::read(node, at)?;
        Self::new(value).or_else(|| {
            at.wrong(
                "range",
                node,
                format!("{value} is not between {MIN} and {MAX}"),
                format!("write a number from {MIN} to {MAX}"),
            );
            at.stand_in(Self(value))
        })
    }

    fn placeholder() -> Self {
        Self(MIN)
    }
}
