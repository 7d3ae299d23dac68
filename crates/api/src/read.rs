//! From the tree to types: each type says how it is read, and every mistake is noted with its place while the
//! reading goes on.

mod collections;
mod looks;
mod spelling;
mod values;

use std::collections::BTreeSet;

use crate::problem::{Problem, Severity};
use crate::tree::{Key, Node, Span, Value};

pub(crate) use collections::step;
pub use collections::{Entries, List, Map};
use looks::{Sight, below, is_in, sight};
pub(crate) use spelling::nearest;
pub use values::Whole;
pub(crate) use values::{not_a_word, text};

/// A type that can be read from a node.
pub trait Read: Sized {
    /// `None` means that a problem has been noted.
    fn read(node: &Node, at: &mut At) -> Option<Self>;

    /// Any value at all, for a field that could not be read. No rule that looks at the field sees it.
    fn placeholder() -> Self;

    /// The value where the field is not written; `None` makes the field required.
    fn absent() -> Option<Self> {
        None
    }

    /// Adds the names of the rules that are asked on the way.
    fn rules(_names: &mut BTreeSet<&'static str>) {}
}

/// Where the reader is in an object, and what it found wrong so far.
#[derive(Debug, Default)]
pub struct At {
    object: String,
    version: String,
    path: String,
    rule: &'static str,
    problems: Vec<Problem>,
    /// Where something near to what was written stands in for it.
    stand_ins: Vec<String>,
    /// Where a placeholder is, because nothing could be made of what was written, or nothing was.
    unread: Vec<String>,
}

impl At {
    #[must_use]
    pub fn new(object: impl Into<String>, version: impl Into<String>) -> Self {
        Self { object: object.into(), version: version.into(), ..Self::default() }
    }

    #[must_use]
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Whether there is no placeholder in what was read.
    pub(crate) fn is_whole(&self) -> bool {
        self.unread.is_empty()
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

    /// Goes on with something near to what was written, whose mistake has been noted: the rules of the records around
    /// it can then be asked as well. An object with a mistake is never given out.
    pub(crate) fn stand_in<T>(&mut self, value: T) -> Option<T> {
        self.stand_ins.push(self.path.clone());
        Some(value)
    }

    /// A value that is wrong by itself is told of once.
    fn note_by_rule(&mut self, severity: Severity, span: Span, message: String, help: String) {
        if !self.stand_ins.contains(&self.path) {
            self.note(severity, self.rule, span, message, help);
        }
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
    pub fn field<T: Read>(&mut self, node: &Node, name: &str, default: Option<T>) -> T {
        match node.get(name).filter(|value| value.value != Value::Null) {
            Some(value) => self.part(name, value),
            None => default.or_else(T::absent).unwrap_or_else(|| {
                self.wrong(
                    "required",
                    node,
                    format!("the field `{name}` is missing"),
                    format!("write `{name}: ...`"),
                );
                self.within(name, Self::unread)
            }),
        }
    }

    /// Reads `node`, one step further in: a field, an item of a list, an entry of a map.
    pub(crate) fn part<T: Read>(&mut self, step: &str, node: &Node) -> T {
        self.within(step, |at| T::read(node, at).unwrap_or_else(|| at.unread()))
    }

    fn unread<T: Read>(&mut self) -> T {
        self.unread.push(self.path.clone());
        T::placeholder()
    }

    /// Notes each field that is not among `known`.
    pub fn unknown(&mut self, fields: &[(Key, Node)], known: &[&[&str]]) {
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

    /// The items of lists, as paths from here, of which a rule that looks at these paths would see placeholders.
    /// `None`: it would see one elsewhere, or a field that is wrong by itself.
    fn hidden_from(&self, looks_at: &[&str]) -> Option<Vec<String>> {
        let mut wrong = self.stand_ins.iter().filter_map(|path| below(&self.path, path));
        if wrong.any(|wrong| looks_at.contains(&wrong)) {
            return None;
        }
        let mut items = Vec::new();
        for unread in self.unread.iter().filter_map(|path| below(&self.path, path)) {
            for path in looks_at {
                match sight(path, unread) {
                    Sight::Nothing => {}
                    Sight::InItem(item) => items.push(item.to_owned()),
                    Sight::Something => return None,
                }
            }
        }
        Some(items)
    }
}

/// Where a rule looks: the value it was given, with its fields in reach.
#[derive(Debug)]
pub struct Place<'a> {
    at: &'a mut At,
    node: &'a Node,
    /// Items that the rule sees placeholders of: nothing is noted of them.
    hidden: Vec<String>,
}

impl<'a> Place<'a> {
    pub(crate) fn new(at: &'a mut At, node: &'a Node) -> Self {
        Self { at, node, hidden: Vec::new() }
    }

    /// Asks a rule that looks at these paths, unless one of them could not be read. What it notes carries its name.
    pub(crate) fn rule(&mut self, name: &'static str, looks_at: &[&str], rule: impl FnOnce(&mut Self)) {
        let Some(hidden) = self.at.hidden_from(looks_at) else { return };
        self.hidden = hidden;
        let before = std::mem::replace(&mut self.at.rule, name);
        rule(self);
        self.at.rule = before;
    }

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

    /// Notes that a key of the map at `field` breaks this rule.
    pub fn wrong_key(&mut self, field: &str, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.note_key(Severity::Error, field, key, message.into(), help.into());
    }

    pub fn warn_key(&mut self, field: &str, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.note_key(Severity::Warning, field, key, message.into(), help.into());
    }

    fn note_key(&mut self, severity: Severity, field: &str, key: &str, message: String, help: String) {
        let map = self.node.nearest(field);
        let span = map.entry(key).map_or(map.span, |(key, _)| key.span);
        self.at.within(field, |at| at.note_by_rule(severity, span, message, help));
    }

    fn note(&mut self, severity: Severity, field: &str, message: String, help: String) {
        if self.hidden.iter().any(|item| is_in(item, field)) {
            return;
        }
        let span = self.node.nearest(field).span;
        if field.is_empty() {
            self.at.note_by_rule(severity, span, message, help);
        } else {
            self.at.within(field, |at| at.note_by_rule(severity, span, message, help));
        }
    }
}

/// Declares a struct, how it is read from a map, and the rules that hold for it as a whole.
///
/// A field is `name: Type = "jsonName"`, with `or default` where leaving it out means something. Whether a
/// field without one may be left out is up to its type: `Option`, `Vec` and maps may. `flatten` takes the
/// fields of another record out of the same map. `others` are fields that exist and are not asked for here.
///
/// A rule names what it looks at, as paths in JSON: `"tls.mode"`, `"filters[].type"` for that of every item. Where one
/// of them could not be read the rule is not asked. A rule that is about each item by itself looks at `"ports[*].name"`, and is
/// asked for the items that could be read. With a `?` at the end (`"rules?"`) it only looks at how many items or
/// which keys there are, and what is below may be wrong. Whether an optional field is written is always known and is
/// not named. A rule without a list looks at everything.
macro_rules! record {
    (
        $(#[$doc:meta])*
        pub struct $name:ident {
            $( flatten pub $flat:ident : $flat_type:ty, )*
            $( $(#[$field_doc:meta])* pub $field:ident : $type:ty = $json:literal $(or $default:expr)? ),* $(,)?
        }
        $(rules: [$($rule:ident $(($($looks_at:literal),* $(,)?))?),* $(,)?])?
        $(others: [$($other:literal),* $(,)?])?
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
            #[allow(unused_variables, reason = "a record without fields looks at nothing")]
            pub(crate) fn read_part(node: &$crate::tree::Node, at: &mut $crate::read::At) -> Self {
                let value = Self {
                    $( $flat: <$flat_type>::read_part(node, at), )*
                    $( $field: at.field(node, $json, $crate::read::record!(@default $($default)?)), )*
                };
                $( $(
                    let looks_at: &[&str] = $crate::read::record!(@looks_at $(($($looks_at),*))?);
                    $crate::read::Place::new(at, node).rule(stringify!($rule), looks_at, |place| $rule(&value, place));
                )* )?
                value
            }
        }

        impl $crate::read::Read for $name {
            fn read(node: &$crate::tree::Node, at: &mut $crate::read::At) -> Option<Self> {
                let fields = at.fields(node)?;
                let value = Self::read_part(node, at);
                at.unknown(fields, &[Self::FIELDS $(, <$flat_type>::FIELDS)* $(, &[$($other),*])?]);
                Some(value)
            }

            fn placeholder() -> Self {
                Self {
                    $( $flat: <$flat_type as $crate::read::Read>::placeholder(), )*
                    $( $field: <$type as $crate::read::Read>::placeholder(), )*
                }
            }

            fn rules(names: &mut std::collections::BTreeSet<&'static str>) {
                names.extend(Self::RULES);
                $( <$flat_type as $crate::read::Read>::rules(names); )*
                $( <$type as $crate::read::Read>::rules(names); )*
            }
        }
    };
    (@default $default:expr) => { Some($default) };
    (@default) => { None };
    (@looks_at ($($path:literal),*)) => { &[$($path),*] };
    (@looks_at) => { &[""] };
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

            fn placeholder() -> Self {
                [$(Self::$variant),*][0]
            }
        }
    };
}
pub(crate) use words;

#[cfg(test)]
mod tests;
