//! Values that hold others: optional ones, lists and maps.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::Deref;

use crate::read::{At, Read};
use crate::tree::{Node, Value};

impl<T: Read> Read for Option<T> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        T::read(node, at).map(Some)
    }

    /// It was written, for what is not has a meaning of its own.
    fn placeholder() -> Self {
        Some(T::placeholder())
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn rules(names: &mut BTreeSet<&'static str>) {
        T::rules(names);
    }
}

impl<T: Read> Read for Box<T> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        T::read(node, at).map(Self::new)
    }

    fn placeholder() -> Self {
        Self::new(T::placeholder())
    }

    fn absent() -> Option<Self> {
        T::absent().map(Self::new)
    }

    fn rules(names: &mut BTreeSet<&'static str>) {
        T::rules(names);
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
        Some(items.iter().enumerate().map(|(index, item)| at.part(&format!("[{index}]"), item)).collect())
    }

    fn placeholder() -> Self {
        Self::new()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn rules(names: &mut BTreeSet<&'static str>) {
        T::rules(names);
    }
}

/// A list of `MIN` to `MAX` items; where `MIN` is 0 it may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<T, const MIN: usize, const MAX: usize> List<T, MIN, MAX> {
    /// `None` where they are too few or too many.
    #[must_use]
    pub fn new(items: Vec<T>) -> Option<Self> {
        (MIN..=MAX).contains(&items.len()).then_some(Self(items))
    }
}

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
                format!("{} where at least {} must be", items_of(count), items_of(MIN)),
                "add what is missing",
            );
            return None;
        }
        if count > MAX {
            at.wrong(
                "too-many",
                node,
                format!("{count} items where at most {MAX} may be"),
                "split them over several objects, or remove what is not needed",
            );
            return None;
        }
        Some(Self(items))
    }

    fn placeholder() -> Self {
        Self(Vec::new())
    }

    fn absent() -> Option<Self> {
        (MIN == 0).then(|| Self(Vec::new()))
    }

    fn rules(names: &mut BTreeSet<&'static str>) {
        T::rules(names);
    }
}

fn items_of(count: usize) -> String {
    match count {
        0 => "an empty list".to_owned(),
        1 => "1 item".to_owned(),
        _ => format!("{count} items"),
    }
}

/// Free keys, such as labels.
pub type Map<V> = BTreeMap<String, V>;

impl<V: Read> Read for BTreeMap<String, V> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let fields = at.fields(node)?;
        let written = fields.iter().filter(|(_, value)| value.value != Value::Null);
        Some(
            written
                .map(|(key, value)| (key.text.as_ref().to_owned(), at.part(&step(&key.text), value)))
                .collect(),
        )
    }

    fn placeholder() -> Self {
        Self::new()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    fn rules(names: &mut BTreeSet<&'static str>) {
        V::rules(names);
    }
}

/// A key as a step of a path: as it is where it cannot be mistaken for several.
pub(crate) fn step(key: &str) -> String {
    if key.contains(['.', '[', '"']) { format!("[{}]", serde_json::Value::from(key)) } else { key.to_owned() }
}

/// Free keys, at most `MAX` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries<V, const MAX: usize>(Map<V>);

impl<V, const MAX: usize> Deref for Entries<V, MAX> {
    type Target = Map<V>;

    fn deref(&self) -> &Map<V> {
        &self.0
    }
}

impl<V, const MAX: usize> Default for Entries<V, MAX> {
    fn default() -> Self {
        Self(Map::new())
    }
}

impl<'a, V, const MAX: usize> IntoIterator for &'a Entries<V, MAX> {
    type Item = (&'a String, &'a V);
    type IntoIter = btree_map::Iter<'a, String, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<V: Read, const MAX: usize> Read for Entries<V, MAX> {
    fn read(node: &Node, at: &mut At) -> Option<Self> {
        let entries = Map::read(node, at)?;
        if entries.len() > MAX {
            let message = format!("{} entries where at most {MAX} may be", entries.len());
            at.wrong("too-many", node, message, "remove what is not needed");
            return None;
        }
        Some(Self(entries))
    }

    fn placeholder() -> Self {
        Self::default()
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn rules(names: &mut BTreeSet<&'static str>) {
        V::rules(names);
    }
}
