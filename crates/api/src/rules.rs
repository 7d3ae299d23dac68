//! What the rules of several kinds have in common: a type that decides which field belongs to it, items that
//! stand once in their list, references that must be told apart.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::read::Place;
use crate::refs::{ParentReference, PolicyTargetReference};
use crate::scalar::{HeaderName, Port, SectionName, shorten};

/// Where `decider` (`type`, `protocol`) says `said`, the field of that word must be there and no other.
/// `fields` has for each word its field.
pub(crate) fn field_fits(place: &mut Place<'_>, decider: &str, said: &str, fields: &[(&str, &str)]) {
    let by_default = if place.has(decider) { "" } else { ", which is the default" };
    let wanted = fields.iter().find(|(word, _)| *word == said).map(|(_, field)| *field);
    let missing = wanted.filter(|field| !place.has(field));
    let strangers: Vec<_> =
        fields.iter().filter(|(word, field)| *word != said && place.has(field)).copied().collect();

    match (missing, &*strangers) {
        // One mistake, not two: the settings are there, under another word.
        (Some(field), [(word, stranger)]) => place.wrong(
            stranger,
            format!("`{decider}` is {said}{by_default}, and `{stranger}` belongs to {word}"),
            format!("write `{decider}: {word}`, or `{field}` instead of `{stranger}`"),
        ),
        (Some(field), _) => place.wrong(
            "",
            format!("`{decider}` is {said}{by_default}, and its field `{field}` is missing"),
            format!("write `{field}:` beside it"),
        ),
        (None, _) => {
            for (word, stranger) in strangers {
                place.wrong(
                    stranger,
                    format!("`{decider}` is {said}{by_default}, and `{stranger}` belongs to {word}"),
                    format!("remove `{stranger}`"),
                );
            }
        }
    }
}

/// Each item stands once in `list`; `key` is the part of an item that tells it apart, empty for the item itself.
pub(crate) fn each_once<T: Ord + Display>(
    place: &mut Place<'_>,
    list: &str,
    key: &str,
    items: impl IntoIterator<Item = T>,
) {
    for (index, first, item) in repeats(items) {
        place.wrong(
            &format!("{list}[{index}]{key}"),
            format!("`{}` is already in {list}[{first}]", shorten(&item)),
            "write it once",
        );
    }
}

/// The items that equal an earlier one: where they stand, where the first stands, and what they are.
fn repeats<T: Ord + Display>(items: impl IntoIterator<Item = T>) -> Vec<(usize, usize, String)> {
    let mut seen = BTreeMap::new();
    let mut repeats = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        if let Some(first) = seen.get(&item) {
            repeats.push((index, *first, item.to_string()));
        } else {
            seen.insert(item, index);
        }
    }
    repeats
}

/// Each item whose key an earlier one has: its index, that of the first, and itself.
pub(crate) fn repeated<'i, T, K: PartialEq>(
    items: &'i [T],
    key: impl Fn(&'i T) -> K,
) -> Vec<(usize, usize, &'i T)> {
    let keys: Vec<K> = items.iter().map(key).collect();
    let first = |index: usize| keys[..index].iter().position(|key| *key == keys[index]);
    items.iter().enumerate().filter_map(|(index, item)| Some((index, first(index)?, item))).collect()
}

/// `X-Env` and `x-env` are one header: the API server takes both, and the spec says that the first counts.
pub(crate) fn warn_of_equivalent_headers<'a>(
    place: &mut Place<'_>,
    list: &str,
    names: impl IntoIterator<Item = &'a HeaderName>,
) {
    let names: Vec<&HeaderName> = names.into_iter().collect();
    for (index, first, _) in repeats(names.iter().map(|name| name.as_str().to_ascii_lowercase())) {
        // The very same name is an error of its own.
        if names[index] != names[first] {
            place.warn(
                &format!("{list}[{index}].name"),
                format!(
                    "`{}` is the same header as `{}` in {list}[{first}], so this item has no effect",
                    names[index], names[first]
                ),
                "remove one of them",
            );
        }
    }
}

/// What has rules that may be named.
pub(crate) trait Ruled {
    /// The name of each rule.
    fn rule_names(&self) -> Vec<Option<&SectionName>>;
}

pub(crate) fn rule_names_are_unique(route: &impl Ruled, place: &mut Place<'_>) {
    let named: Vec<(usize, &SectionName)> = route
        .rule_names()
        .into_iter()
        .enumerate()
        .filter_map(|(index, name)| name.map(|name| (index, name)))
        .collect();
    for (index, first, name) in repeats(named.iter().map(|(_, name)| name)) {
        place.wrong(
            &format!("rules[{}].name", named[index].0),
            format!("`{name}` is already the name of rules[{}]", named[first].0),
            "give each rule a name of its own",
        );
    }
}

/// A list of references, each to an object or to a section or port of it.
pub(crate) trait Pointing {
    const LIST: &'static str;
    /// How two references to one object are told apart.
    const APART: &'static str;

    fn pointers(&self) -> Vec<Pointer<'_>>;
}

/// A reference, reduced to what tells it apart from others.
pub(crate) struct Pointer<'a> {
    object: [&'a str; 4],
    section: Option<&'a SectionName>,
    port: Option<Port>,
}

impl<'a> From<&'a ParentReference> for Pointer<'a> {
    fn from(parent: &'a ParentReference) -> Self {
        let namespace = parent.namespace.as_ref().map_or("", |namespace| namespace.as_str());
        Self {
            object: [parent.group.as_str(), parent.kind.as_str(), namespace, parent.name.as_str()],
            section: parent.section_name.as_ref(),
            port: parent.port,
        }
    }
}

impl<'a> From<&'a PolicyTargetReference> for Pointer<'a> {
    fn from(target: &'a PolicyTargetReference) -> Self {
        Self {
            object: [target.group.as_str(), target.kind.as_str(), "", target.name.as_str()],
            section: target.section_name.as_ref(),
            port: None,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Clash {
    /// Both are the same.
    Same,
    /// One means a part of what the other means as a whole.
    PartOfWhole,
}

impl Pointer<'_> {
    /// The standard channel looks at sectionName alone, the experimental one also at port, with the same care;
    /// what either takes is taken.
    fn clash(&self, other: &Self) -> Option<Clash> {
        if self.object != other.object {
            return None;
        }
        let part_of_whole = Some(Clash::PartOfWhole);
        match (self.section, other.section) {
            (Some(section), Some(other)) if section != other => return None,
            (Some(_), None) | (None, Some(_)) => return part_of_whole,
            _ => {}
        }
        match (self.port, other.port) {
            (Some(port), Some(other)) if port != other => None,
            (Some(_), None) | (None, Some(_)) => part_of_whole,
            _ => Some(Clash::Same),
        }
    }
}

/// For each reference the first earlier one that it clashes with in that way.
fn clashes(pointing: &impl Pointing, wanted: Clash) -> Vec<(usize, usize)> {
    let pointers = pointing.pointers();
    let first = |index: usize| {
        let earlier = pointers.iter().take(index);
        earlier.map(|earlier| pointers[index].clash(earlier)).position(|clash| clash == Some(wanted))
    };
    (0..pointers.len()).filter_map(|index| first(index).map(|first| (index, first))).collect()
}

pub(crate) fn references_are_distinct<P: Pointing>(pointing: &P, place: &mut Place<'_>) {
    for (index, first) in clashes(pointing, Clash::Same) {
        place.wrong(
            &format!("{}[{index}]", P::LIST),
            format!("says the same as {}[{first}]", P::LIST),
            format!("remove one of them, or tell them apart by {}", P::APART),
        );
    }
}

pub(crate) fn references_to_one_object_all_name_a_part<P: Pointing>(pointing: &P, place: &mut Place<'_>) {
    for (index, first) in clashes(pointing, Clash::PartOfWhole) {
        place.wrong(
            &format!("{}[{index}]", P::LIST),
            format!(
                "the same object as in {}[{first}], but only one of the two says which part of it",
                P::LIST
            ),
            format!("write {} in both, or keep the one that means the whole object", P::APART),
        );
    }
}
