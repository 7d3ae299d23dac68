//! From the tree to types: each type says how it is read, and every mistake is noted with its place while the
//! reading goes on.

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::problem::{Problem, Severity};
use crate::tree::{Key, Node, Span, Value};

/// A type that can be read from a node. `None` means that a problem has been noted.
pub trait Read: Sized {
    fn read(node: &Node, at: &mut At) -> Option<Self>;

    /// The value where the field is not written; `None` makes the field required.
    fn absent() -> Option<Self> {
        None
    }
}

/// Where the reader is in an object, and what it found wrong so far.
#[derive(Debug, Default)]
pub struct At {
    object: String,
    version: String,
    path: String,
    rule: &'static str,
    /// Kinds of which only a part is read have fields that are none of our business.
    partial: bool,
    problems: Vec<Problem>,
}

impl At {
    #[must_use]
    pub fn new(object: impl Into<String>, version: impl Into<String>) -> Self {
        Self { object: object.into(), version: version.into(), ..Self::default() }
    }

    /// For kinds of which only a part is read: fields that are not known are passed over.
    #[must_use]
    pub fn partial(mut self, partial: bool) -> Self {
        self.partial = partial;
        self
    }

    #[must_use]
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Whether the object is written in the version that has all the rules. In an older one, what breaks
    /// only a newer rule is a warning.
    #[must_use]
    pub fn is_v1(&self) -> bool {
        self.version == "v1"
    }

    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Reads a part one step further in; `step` is `name` or `[3]`.
    pub fn within<T>(&mut self, step: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if !self.path.is_empty() && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let value = read(self);
        self.path.truncate(length);
        value
    }

    /// Notes that `node`, which is where the reader stands, is wrong.
    pub fn wrong(
        &mut self,
        rule: &'static str,
        node: &Node,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.note(Severity::Error, rule, node.span, message.into(), help.into());
    }

    pub fn warn(
        &mut self,
        rule: &'static str,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.note(Severity::Warning, rule, span, message.into(), help.into());
    }

    fn note(&mut self, severity: Severity, rule: &'static str, span: Span, message: String, help: String) {
        let (object, field) = (self.object.clone(), self.path.clone());
        self.problems.push(Problem { severity, rule, object, field, span, message, help });
    }

    /// The fields of a map.
    pub fn fields<'n>(&mut self, node: &'n Node) -> Option<&'n [(Key, Node)]> {
        if let Value::Map(fields) = &node.value {
            return Some(fields);
        }
        self.wrong(
            "type",
            node,
            format!("expected a map, found {}", node.describe()),
            "write `field: value` lines below it",
        );
        None
    }

    /// Reads one field of the map `node`.
    pub fn field<T: Read>(&mut self, node: &Node, name: &str, default: Option<T>) -> Option<T> {
        match node.get(name).filter(|value| value.value != Value::Null) {
            Some(value) => self.within(name, |at| T::read(value, at)),
            None => default.or_else(T::absent).or_else(|| {
                self.wrong(
                    "required",
                    node,
                    format!("the field `{name}` is missing"),
                    format!("write `{name}: ...`"),
                );
                None
            }),
        }
    }

    /// Notes each field that is not among `known`.
    pub fn unknown(&mut self, fields: &[(Key, Node)], known: &[&[&str]]) {
        if self.partial {
            return;
        }
        let known = known.concat();
        for (key, _) in fields {
            if !known.contains(&&*key.text) {
                let help = match nearest(&key.text, &known) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => "remove it, or check the spelling and the indentation".to_owned(),
                };
                self.within(&key.text, |at| {
                    at.warn(
                        "unknown-field",
                        key.span,
                        format!("unknown field `{}`, it has no effect", key.text),
                        help,
                    );
                });
            }
        }
    }

    /// Lets a named rule look at what was read; what it notes carries its name.
    pub fn rule<T>(&mut self, name: &'static str, node: &Node, value: &T, rule: fn(&T, &mut Place<'_>)) {
        let before = std::mem::replace(&mut self.rule, name);
        rule(value, &mut Place { at: self, node });
        self.rule = before;
    }
}

/// Where a rule looks: the value it was given, with its fields in reach.
#[derive(Debug)]
pub struct Place<'a> {
    at: &'a mut At,
    node: &'a Node,
}

impl Place<'_> {
    /// Notes that `field`, a path from here (`tls.mode`, `hostnames[2]`, or empty), breaks this rule.
    pub fn wrong(&mut self, field: &str, message: impl Into<String>, help: impl Into<String>) {
        self.note(Severity::Error, field, message.into(), help.into());
    }

    pub fn warn(&mut self, field: &str, message: impl Into<String>, help: impl Into<String>) {
        self.note(Severity::Warning, field, message.into(), help.into());
    }

    /// For rules that only the newest version has: an error there, a warning in older ones.
    pub fn wrong_in_v1(&mut self, field: &str, message: impl Into<String>, help: impl Into<String>) {
        let severity = if self.at.is_v1() { Severity::Error } else { Severity::Warning };
        self.note(severity, field, message.into(), help.into());
    }

    #[must_use]
    pub fn version(&self) -> &str {
        &self.at.version
    }

    /// Whether the field, a path from here, was written, for rules about defaults.
    #[must_use]
    pub fn has(&self, field: &str) -> bool {
        self.node.find(field).is_some_and(|node| node.value != Value::Null)
    }

    fn note(&mut self, severity: Severity, field: &str, message: String, help: String) {
        let (rule, span) = (self.at.rule, self.node.nearest(field).span);
        if field.is_empty() {
            self.at.note(severity, rule, span, message, help);
        } else {
            self.at.within(field, |at| at.note(severity, rule, span, message, help));
        }
    }
}

/// Declares a struct, how it is read from a map, and the rules that hold for it as a whole.
///
/// A field is `name: Type = "jsonName"`, with `or default` where leaving it out means something. Whether a
/// field without one may be left out is up to its type: `Option`, `Vec` and maps may. `flatten` takes the
/// fields of another record out of the same map.
macro_rules! record {
    (
        $(#[$doc:meta])*
        pub struct $name:ident {
            $( flatten pub $flat:ident : $flat_type:ty, )*
            $( $(#[$field_doc:meta])* pub $field:ident : $type:ty = $json:literal $(or $default:expr)? ),* $(,)?
        }
        $(rules: [$($rule:ident),* $(,)?])?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( pub $flat: $flat_type, )*
            $( $(#[$field_doc])* pub $field: $type, )*
        }

        impl $name {
            /// The rules that hold between its fields.
            pub const RULES: &'static [&'static str] = &[$($(stringify!($rule)),*)?];
            #[allow(dead_code, reason = "only records that are flattened into others are asked")]
            pub(crate) const FIELDS: &'static [&'static str] = &[$($json),*];

            /// Reads its fields out of a map that may have others too.
            pub(crate) fn read_part(node: &$crate::tree::Node, at: &mut $crate::read::At) -> Option<Self> {
                $( let $flat = <$flat_type>::read_part(node, at); )*
                $( let $field: Option<$type> = at.field(node, $json, $crate::read::record!(@default $($default)?)); )*
                let value = Self { $( $flat: $flat?, )* $( $field: $field?, )* };
                $( $( at.rule(stringify!($rule), node, &value, $rule); )* )?
                Some(value)
            }
        }

        impl $crate::read::Read for $name {
            fn read(node: &$crate::tree::Node, at: &mut $crate::read::At) -> Option<Self> {
                let fields = at.fields(node)?;
                let value = Self::read_part(node, at);
                at.unknown(fields, &[Self::FIELDS $(, <$flat_type>::FIELDS)*]);
                value
            }
        }
    };
    (@default $default:expr) => { Some($default) };
    (@default) => { None };
}
pub(crate) use record;

/// Declares an enum whose variants are words.
macro_rules! words {
    (
        $(#[$doc:meta])*
        pub enum $name:ident { $( $(#[$variant_doc:meta])* $variant:ident = $word:literal ),* $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$variant_doc])* $variant, )* }

        impl $name {
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::read::Read for $name {
            fn read(node: &$crate::tree::Node, at: &mut $crate::read::At) -> Option<Self> {
                const WORDS: &[&str] = &[$($word),*];
                let text = $crate::read::text(node, at)?;
                match text {
                    $( $word => Some(Self::$variant), )*
                    _ => {
                        $crate::read::not_a_word(node, at, text, WORDS);
                        None
                    }
                }
            }
        }
    };
}
pub(crate) use words;

pub(crate) fn not_a_word(node: &Node, at: &mut At, text: &str, words: &[&str]) {
    let help = match nearest(text, words) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write one of {}", words.join(", ")),
    };
    at.wrong("enum", node, format!("`{text}` is not one of {}", words.join(", ")), help);
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
        Value::Null | Value::List(_) | Value::Map(_) => {
            at.wrong("type", node, format!("expected a string, found {}", node.describe()), "");
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
}

impl Read for i64 {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        if let Value::Number(number) = &node.value
            && let Some(value) = number.as_i64().or_else(|| whole(number.as_f64()))
        {
            return Some(value);
        }
        let help = match node.as_str().and_then(|text| text.parse::<Self>().ok()) {
            Some(number) => format!("write {number} without quotes"),
            None => "write a whole number".to_owned(),
        };
        at.wrong("type", node, format!("expected a whole number, found {}", node.describe()), help);
        None
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
        let number = Self::new(value);
        if number.is_none() {
            at.wrong(
                "range",
                node,
                format!("{value} is not between {MIN} and {MAX}"),
                format!("write a number from {MIN} to {MAX}"),
            );
        }
        number
    }
}

impl<T: Read> Read for Option<T> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        T::read(node, at).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Read> Read for Box<T> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        T::read(node, at).map(Self::new)
    }

    fn absent() -> Option<Self> {
        T::absent().map(Self::new)
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let Value::List(items) = &node.value else {
            at.wrong(
                "type",
                node,
                format!("expected a list, found {}", node.describe()),
                "write `- ` before each item",
            );
            return None;
        };
        // Every item is read, so that the mistakes of all of them are told.
        let read: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| at.within(&format!("[{index}]"), |at| T::read(item, at)))
            .collect();
        read.into_iter().collect()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

/// A list of `MIN` to `MAX` items; where `MIN` is 0 it may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<T, const MIN: usize, const MAX: usize> Deref for List<T, MIN, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const MAX: usize> Default for List<T, 0, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'a, T, const MIN: usize, const MAX: usize> IntoIterator for &'a List<T, MIN, MAX> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Read, const MIN: usize, const MAX: usize> Read for List<T, MIN, MAX> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let items = Vec::read(node, at)?;
        let count = items.len();
        if count < MIN {
            at.wrong(
                "too-few",
                node,
                format!("{count} items where at least {MIN} must be"),
                "add what is missing",
            );
            return None;
        }
        if count > MAX {
            at.wrong(
                "too-many",
                node,
                format!("{count} items where at most {MAX} may be"),
                "split them over several objects",
            );
            return None;
        }
        Some(Self(items))
    }

    fn absent() -> Option<Self> {
        (MIN == 0).then(|| Self(Vec::new()))
    }
}

/// Free keys, such as labels.
pub type Map<V> = BTreeMap<String, V>;

impl<V: Read> Read for BTreeMap<String, V> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let fields = at.fields(node)?;
        let read: Vec<Option<(String, V)>> = fields
            .iter()
            .filter(|(_, value)| value.value != Value::Null)
            .map(|(key, value)| {
                let value = at.within(&key.text, |at| V::read(value, at))?;
                Some((key.text.as_ref().to_owned(), value))
            })
            .collect();
        read.into_iter().collect()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

/// The word of `words` that was most likely meant.
fn nearest<'w>(text: &str, words: &[&'w str]) -> Option<&'w str> {
    let limit = if text.len() < 5 { 1 } else { 2 };
    words
        .iter()
        .map(|word| (distance(&text.to_ascii_lowercase(), &word.to_ascii_lowercase()), *word))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, word)| word)
}

/// Levenshtein's.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
