//! A hash map whose copies share what they have in common: a copy costs nothing, and a change to it costs a few
//! small blocks, however large the map is. It knows nothing of what it holds.
//!
//! It is a tree by the upper bits of the hash, 64 ways a level, with small open-addressed tables at its leaves: a
//! lookup among 100,000 keys reads two small branches and then goes straight to the slot.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

pub(crate) struct SharedMap<K, V> {
    root: Node<K, V>,
    len: usize,
}

enum Node<K, V> {
    Empty,
    Leaf(Leaf<K, V>),
    Branch(Arc<[Node<K, V>]>),
}

/// A power of two of slots, probed one after the other from where the lower bits of the hash point to.
type Leaf<K, V> = Arc<[Option<Slot<K, V>>]>;

#[derive(Clone)]
struct Slot<K, V> {
    hash: u64,
    key: K,
    value: V,
}

const BITS: u32 = 6;
const WAYS: usize = 1 << BITS;
/// A leaf with more entries is split into a branch...
const LEAF_ENTRIES: usize = 48;
/// ...unless the bits for it are used up, as they are for keys with one hash.
const LAST_SHIFT: u32 = 64 - 8 * BITS;

/// The hash under which text is kept in every map of this process. Names come from strangers: the seed is random.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = hasher();
    hasher.write(bytes);
    hasher.finish()
}

#[inline]
pub(crate) fn hash_of(key: &impl Hash) -> u64 {
    let mut hasher = hasher();
    key.hash(&mut hasher);
    hasher.finish()
}

#[inline]
fn hasher() -> foldhash::quality::FoldHasher<'static> {
    SeedableRandomState::with_seed(0, SharedSeed::global_random()).build_hasher()
}

impl<K, V> SharedMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self { root: Node::Empty, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn get(&self, hash: u64, is: impl Fn(&K) -> bool) -> Option<&V> {
        let mut node = &self.root;
        let mut shift = 64 - BITS;
        loop {
            match node {
                Node::Empty => return None,
                Node::Branch(children) => node = &children[way(hash, shift)],
                Node::Leaf(slots) => {
                    let at = find(slots, hash, is)?;
                    return slots[at].as_ref().map(|slot| &slot.value);
                }
            }
            shift -= BITS;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let mut nodes = vec![&self.root];
        let mut slots: &[Option<Slot<K, V>>] = &[];
        std::iter::from_fn(move || {
            loop {
                while let Some((slot, rest)) = slots.split_first() {
                    slots = rest;
                    if let Some(slot) = slot {
                        return Some((&slot.key, &slot.value));
                    }
                }
                match nodes.pop()? {
                    Node::Empty => {}
                    Node::Leaf(leaf) => slots = leaf,
                    Node::Branch(children) => nodes.extend(children.iter()),
                }
            }
        })
    }
}

impl<K: Clone, V: Clone> SharedMap<K, V> {
    /// Puts the value in; a value that was there under an equal key goes.
    pub(crate) fn insert(&mut self, hash: u64, key: K, value: V)
    where
        K: PartialEq,
    {
        if insert(&mut self.root, 64 - BITS, Slot { hash, key, value }) {
            self.len += 1;
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> Option<V> {
        let gone = remove(&mut self.root, 64 - BITS, hash, &is);
        self.len -= usize::from(gone.is_some());
        gone
    }

    /// The value to be changed in place: what other copies of the map share with it is copied first.
    pub(crate) fn get_mut(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> Option<&mut V> {
        // Asked first, so that a key that is not there copies nothing.
        self.get(hash, &is)?;
        let mut node = &mut self.root;
        let mut shift = 64 - BITS;
        loop {
            match node {
                Node::Empty => return None,
                Node::Branch(children) => node = &mut Arc::make_mut(children)[way(hash, shift)],
                Node::Leaf(slots) => {
                    let at = find(slots, hash, is)?;
                    return Arc::make_mut(slots)[at].as_mut().map(|slot| &mut slot.value);
                }
            }
            shift -= BITS;
        }
    }
}

#[inline]
const fn way(hash: u64, shift: u32) -> usize {
    (hash >> shift) as usize & (WAYS - 1)
}

#[inline]
fn find<K, V>(slots: &[Option<Slot<K, V>>], hash: u64, is: impl Fn(&K) -> bool) -> Option<usize> {
    let mask = slots.len() - 1;
    let start = hash as usize & mask;
    for step in 0..slots.len() {
        let at = (start + step) & mask;
        match &slots[at] {
            None => return None,
            Some(slot) if slot.hash == hash && is(&slot.key) => return Some(at),
            Some(_) => {}
        }
    }
    None
}

/// Whether the key is new.
fn insert<K: Clone + PartialEq, V: Clone>(node: &mut Node<K, V>, shift: u32, slot: Slot<K, V>) -> bool {
    match node {
        Node::Empty => {
            *node = leaf(vec![slot]);
            true
        }
        Node::Branch(children) => {
            let child = &mut Arc::make_mut(children)[way(slot.hash, shift)];
            insert(child, shift - BITS, slot)
        }
        Node::Leaf(slots) => {
            if let Some(at) = find(slots, slot.hash, |key| *key == slot.key) {
                Arc::make_mut(slots)[at] = Some(slot);
                return false;
            }
            let entries = slots.iter().flatten().count();
            if has_room(entries + 1, slots.len()) {
                place(Arc::make_mut(slots), slot);
                return true;
            }
            let mut entries = take(slots);
            entries.push(slot);
            *node = if entries.len() > LEAF_ENTRIES && shift > LAST_SHIFT {
                branch(entries, shift)
            } else {
                leaf(entries)
            };
            true
        }
    }
}

fn remove<K: Clone, V: Clone>(
    node: &mut Node<K, V>,
    shift: u32,
    hash: u64,
    is: &impl Fn(&K) -> bool,
) -> Option<V> {
    match node {
        Node::Empty => None,
        Node::Branch(children) => {
            let at = way(hash, shift);
            let gone = remove(&mut Arc::make_mut(children)[at], shift - BITS, hash, is);
            if children.iter().all(|child| matches!(child, Node::Empty)) {
                *node = Node::Empty;
            }
            gone
        }
        Node::Leaf(slots) => {
            let at = find(slots, hash, is)?;
            let gone = slots[at].clone().map(|slot| slot.value);
            // The others are placed anew: a hole would end the probing for those behind it.
            let rest: Vec<_> = slots
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != at)
                .filter_map(|(_, slot)| slot.clone())
                .collect();
            *node = if rest.is_empty() { Node::Empty } else { leaf(rest) };
            gone
        }
    }
}

/// Few entries may fill all slots, as they do in the many small maps; with more, a quarter stays free.
fn has_room(entries: usize, slots: usize) -> bool {
    if slots <= 2 { entries <= slots } else { entries * 4 <= slots * 3 }
}

fn leaf<K: Clone, V: Clone>(entries: Vec<Slot<K, V>>) -> Node<K, V> {
    let mut size = 1;
    while !has_room(entries.len(), size) {
        size *= 2;
    }
    let mut slots = vec![None; size];
    for slot in entries {
        place(&mut slots, slot);
    }
    Node::Leaf(slots.into())
}

fn branch<K: Clone, V: Clone>(entries: Vec<Slot<K, V>>, shift: u32) -> Node<K, V> {
    let mut parts = vec![Vec::new(); WAYS];
    for slot in entries {
        parts[way(slot.hash, shift)].push(slot);
    }
    Node::Branch(
        parts.into_iter().map(|part| if part.is_empty() { Node::Empty } else { leaf(part) }).collect(),
    )
}

fn place<K, V>(slots: &mut [Option<Slot<K, V>>], slot: Slot<K, V>) {
    let mask = slots.len() - 1;
    let mut at = slot.hash as usize & mask;
    while slots[at].is_some() {
        at = (at + 1) & mask;
    }
    slots[at] = Some(slot);
}

/// The entries of a leaf that is about to be replaced: moved out if nobody else has it.
fn take<K: Clone, V: Clone>(slots: &mut Leaf<K, V>) -> Vec<Slot<K, V>> {
    match Arc::get_mut(slots) {
        Some(slots) => slots.iter_mut().filter_map(Option::take).collect(),
        None => slots.iter().flatten().cloned().collect(),
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), len: self.len }
    }
}

impl<K, V> Clone for Node<K, V> {
    fn clone(&self) -> Self {
        match self {
            Self::Empty => Self::Empty,
            Self::Leaf(slots) => Self::Leaf(Arc::clone(slots)),
            Self::Branch(children) => Self::Branch(Arc::clone(children)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn get(map: &SharedMap<u16, u16>, key: u16, hash: u64) -> Option<u16> {
        map.get(hash, |k| *k == key).copied()
    }

    /// Hashes of all qualities: spread, equal in the upper bits, equal altogether.
    fn hash(key: u16, quality: u8) -> u64 {
        match quality {
            0 => hash_of(&key),
            1 => u64::from(key),
            _ => 7,
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map_and_copies_are_not_disturbed(
            quality in 0..3_u8,
            changes in proptest::collection::vec((0..400_u16, proptest::option::weighted(0.7, 0..9_u16)), 0..900),
            copy_at in 0..900_usize,
        ) {
            let mut map = SharedMap::new();
            let mut expected = HashMap::new();
            let mut copy = None;
            for (index, (key, value)) in changes.into_iter().enumerate() {
                if index == copy_at {
                    copy = Some((map.clone(), expected.clone()));
                }
                match value {
                    Some(value) => {
                        map.insert(hash(key, quality), key, value);
                        expected.insert(key, value);
                    }
                    None => {
                        prop_assert_eq!(map.remove(hash(key, quality), |k| *k == key), expected.remove(&key));
                    }
                }
                if let Some(value) = map.get_mut(hash(key, quality), |k| *k == key) {
                    *value += 10;
                    *expected.get_mut(&key).unwrap() += 10;
                }
            }
            for (map, expected) in copy.into_iter().chain([(map, expected)]) {
                prop_assert_eq!(map.len(), expected.len());
                prop_assert_eq!(map.iter().map(|(k, v)| (*k, *v)).collect::<HashMap<_, _>>(), expected.clone());
                for key in 0..400 {
                    prop_assert_eq!(get(&map, key, hash(key, quality)), expected.get(&key).copied());
                }
            }
        }
    }
}
