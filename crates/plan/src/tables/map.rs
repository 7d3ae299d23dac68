//! A hash map whose copies share what they have in common: a copy costs nothing, and a change to it costs a few
//! small blocks, however large the map is. It knows nothing of what it holds.
//!
//! It is a tree by the upper bits of the hash, 64 ways a level; the root of a large map has 4096, because each level
//! is a read that waits for the one before. At its leaves, entries lie close together behind a
//! row of tags, some bits of each entry's hash: the tags of 100,000 keys stay in a cache where the entries do not,
//! so that a key costs one distant read if it is there and none if it is not.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

pub struct SharedMap<K, V> {
    root: Node<K, V>,
    len: usize,
}

/// What a [`SharedMap`] is asked by.
pub trait Key: Clone + PartialEq {
    fn hashed(&self) -> u64;
}

enum Node<K, V> {
    Empty,
    Leaf(Arc<Leaf<K, V>>),
    Branch(Arc<[Node<K, V>]>),
}

#[derive(Clone)]
struct Leaf<K, V> {
    /// A key's tag is in the group that its hash names, or, if that was full, in the next.
    groups: [Group; GROUPS],
    entries: Vec<(K, V)>,
}

#[derive(Clone, Copy, Default)]
struct Group {
    /// A byte each, 0 where there is none.
    tags: u64,
    /// Where the entry of each is.
    places: [u8; GROUP],
}

const GROUP: usize = 8;
const GROUPS: usize = 8;
const WAYS: usize = 64;
const WIDE_WAYS: usize = 4096;
/// From this many entries on the root is wide. A change copies the root: 64 KB, a few microseconds.
const WIDE_FROM: usize = if cfg!(test) { 150 } else { 2048 };
/// A leaf with more entries is split into a branch, unless the bits for it are used up, as they are for keys with
/// one hash.
const LEAF_ENTRIES: usize = 48;
const ALL_BITS: u32 = u64::BITS;
/// The lower bits of the hash are for tags and groups.
const LAST_BITS: u32 = 22;

/// The hash under which a key is kept in every map of this process. The seed is random.
#[inline]
pub(crate) fn hash_of(key: &impl Hash) -> u64 {
    SeedableRandomState::with_seed(0, SharedSeed::global_random()).hash_one(key)
}

impl<K, V> SharedMap<K, V> {
    pub const fn new() -> Self {
        Self { root: Node::Empty, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of the key that has this hash and `is` meant.
    #[inline]
    pub fn get(&self, hash: u64, is: impl Fn(&K) -> bool) -> Option<&V> {
        let mut node = &self.root;
        let mut bits = ALL_BITS;
        loop {
            match node {
                Node::Empty => return None,
                Node::Branch(children) => {
                    bits = bits_below(bits, children.len());
                    node = &children[way(hash, bits, children.len())];
                }
                Node::Leaf(leaf) => return leaf.find(hash, is).map(|at| &leaf.entries[at].1),
            }
        }
    }

    /// In no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let mut nodes = vec![&self.root];
        let mut entries = [].iter();
        std::iter::from_fn(move || {
            loop {
                if let Some((key, value)) = entries.next() {
                    return Some((key, value));
                }
                match nodes.pop()? {
                    Node::Empty => {}
                    Node::Leaf(leaf) => entries = leaf.entries.iter(),
                    Node::Branch(children) => nodes.extend(children.iter()),
                }
            }
        })
    }
}

impl<K: Key, V: Clone> SharedMap<K, V> {
    /// The value of a key that is at hand as it is kept.
    #[inline]
    pub fn of(&self, key: &K) -> Option<&V> {
        self.get(key.hashed(), |other| other == key)
    }

    pub fn forget(&mut self, key: &K) {
        self.remove(key.hashed(), |other| other == key);
    }

    /// Puts the value in; a value that was there under an equal key goes.
    pub fn insert(&mut self, key: K, value: V) {
        if insert(&mut self.root, ALL_BITS, key.hashed(), (key, value)) {
            self.len += 1;
        }
        if self.len >= WIDE_FROM && matches!(&self.root, Node::Branch(children) if children.len() < WIDE_WAYS)
        {
            let entries = self.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            self.root = branch(entries, ALL_BITS, WIDE_WAYS);
        }
    }

    pub fn remove(&mut self, hash: u64, is: impl Fn(&K) -> bool) {
        // Asked first, here and below, so that a key that is not there copies nothing.
        if self.get(hash, &is).is_some() {
            remove(&mut self.root, ALL_BITS, hash, &is);
            self.len -= 1;
        }
    }

    /// The value to be changed in place: what other copies of the map share with it is copied first.
    pub fn get_mut(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> Option<&mut V> {
        self.get(hash, &is)?;
        let mut node = &mut self.root;
        let mut bits = ALL_BITS;
        loop {
            match node {
                Node::Empty => return None,
                Node::Branch(children) => {
                    bits = bits_below(bits, children.len());
                    let way = way(hash, bits, children.len());
                    node = &mut Arc::make_mut(children)[way];
                }
                Node::Leaf(leaf) => {
                    let at = leaf.find(hash, is)?;
                    return Some(&mut Arc::make_mut(leaf).entries[at].1);
                }
            }
        }
    }
}

/// How many bits of the hash are left below a branch with so many ways.
#[inline]
const fn bits_below(bits: u32, ways: usize) -> u32 {
    bits - ways.trailing_zeros()
}

#[inline]
const fn way(hash: u64, below: u32, ways: usize) -> usize {
    (hash >> below) as usize & (ways - 1)
}

/// Tag and group are from the other end of the hash than the way, so that they tell apart what the way did not.
#[inline]
const fn tag(hash: u64) -> u64 {
    if hash as u8 == 0 { 1 } else { hash as u8 as u64 }
}

/// The order in which groups are tried for a hash.
#[inline]
fn probes(hash: u64) -> impl Iterator<Item = usize> {
    let first = (hash >> 8) as usize;
    (first..first + GROUPS).map(|group| group % GROUPS)
}

const ONES: u64 = u64::from_le_bytes([1; GROUP]);

impl Group {
    /// The places with this tag and perhaps, behind one of them, a place that only looks so.
    #[inline]
    fn with(&self, tag: u64) -> impl Iterator<Item = usize> + use<> {
        let zero_where_same = self.tags ^ (tag * ONES);
        let mut found = zero_where_same.wrapping_sub(ONES) & !zero_where_same & (ONES << 7);
        std::iter::from_fn(move || {
            let place = (found != 0).then(|| found.trailing_zeros() as usize / 8);
            found &= found.wrapping_sub(1);
            place
        })
    }

    #[inline]
    fn free(&self) -> Option<usize> {
        self.with(0).next()
    }
}

impl<K, V> Leaf<K, V> {
    #[inline]
    fn find(&self, hash: u64, is: impl Fn(&K) -> bool) -> Option<usize> {
        for group in probes(hash).map(|at| &self.groups[at]) {
            for place in group.with(tag(hash)) {
                let at = usize::from(group.places[place]);
                if is(&self.entries[at].0) {
                    return Some(at);
                }
            }
            if group.free().is_some() {
                return None;
            }
        }
        // No tag was free for these, which happens to keys with one hash.
        (GROUPS * GROUP..self.entries.len()).find(|at| is(&self.entries[*at].0))
    }

    fn push(&mut self, hash: u64, entry: (K, V)) {
        let free = |group: usize| self.groups[group].free().map(|place| (group, place));
        if let Some((group, place)) = probes(hash).find_map(free) {
            self.groups[group].tags |= tag(hash) << (8 * place);
            self.groups[group].places[place] = self.entries.len() as u8;
        }
        self.entries.push(entry);
    }
}

fn leaf<K: Key, V>(entries: impl Iterator<Item = (K, V)>) -> Node<K, V> {
    let mut leaf = Leaf { groups: [Group::default(); GROUPS], entries: Vec::new() };
    for entry in entries {
        leaf.push(entry.0.hashed(), entry);
    }
    if leaf.entries.is_empty() { Node::Empty } else { Node::Leaf(Arc::new(leaf)) }
}

/// Whether the key is new.
fn insert<K: Key, V: Clone>(node: &mut Node<K, V>, bits: u32, hash: u64, entry: (K, V)) -> bool {
    match node {
        Node::Empty => {
            *node = leaf(std::iter::once(entry));
            true
        }
        Node::Branch(children) => {
            let below = bits_below(bits, children.len());
            let way = way(hash, below, children.len());
            insert(&mut Arc::make_mut(children)[way], below, hash, entry)
        }
        Node::Leaf(leaf) => {
            let there = leaf.find(hash, |key| *key == entry.0);
            let full = leaf.entries.len() >= LEAF_ENTRIES && bits > LAST_BITS;
            match there {
                Some(at) => Arc::make_mut(leaf).entries[at] = entry,
                None if !full => Arc::make_mut(leaf).push(hash, entry),
                None => {
                    let entries = std::mem::take(&mut Arc::make_mut(leaf).entries);
                    *node = branch(entries, bits, WAYS);
                    return insert(node, bits, hash, entry);
                }
            }
            there.is_none()
        }
    }
}

fn branch<K: Key, V>(entries: Vec<(K, V)>, bits: u32, ways: usize) -> Node<K, V> {
    let below = bits_below(bits, ways);
    let mut parts: Vec<Vec<(K, V)>> = (0..ways).map(|_| Vec::new()).collect();
    for entry in entries {
        parts[way(entry.0.hashed(), below, ways)].push(entry);
    }
    Node::Branch(parts.into_iter().map(|part| leaf(part.into_iter())).collect())
}

fn remove<K: Key, V: Clone>(node: &mut Node<K, V>, bits: u32, hash: u64, is: &impl Fn(&K) -> bool) {
    match node {
        Node::Empty => {}
        Node::Branch(children) => {
            let below = bits_below(bits, children.len());
            let way = way(hash, below, children.len());
            remove(&mut Arc::make_mut(children)[way], below, hash, is);
            if children.iter().all(|child| matches!(child, Node::Empty)) {
                *node = Node::Empty;
            }
        }
        Node::Leaf(old) => *node = leaf(old.entries.iter().filter(|(key, _)| !is(key)).cloned()),
    }
}

impl<K, V> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMap of {}", self.len)
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
            Self::Leaf(leaf) => Self::Leaf(Arc::clone(leaf)),
            Self::Branch(children) => Self::Branch(Arc::clone(children)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A key with a hash of some quality: spread, equal in the upper bits, equal altogether.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    struct Number(u16, u8);

    impl Key for Number {
        fn hashed(&self) -> u64 {
            match self.1 {
                0 => hash_of(&self.0),
                1 => u64::from(self.0),
                _ => 7,
            }
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
                let key = Number(key, quality);
                if index == copy_at {
                    copy = Some((map.clone(), expected.clone()));
                }
                match value {
                    Some(value) => {
                        map.insert(key, value);
                        expected.insert(key, value);
                    }
                    None => {
                        map.remove(key.hashed(), |k| *k == key);
                        expected.remove(&key);
                    }
                }
                if let Some(value) = map.get_mut(key.hashed(), |k| *k == key) {
                    *value += 10;
                    *expected.get_mut(&key).unwrap() += 10;
                }
            }
            for (map, expected) in copy.into_iter().chain([(map, expected)]) {
                prop_assert_eq!(map.len(), expected.len());
                prop_assert_eq!(map.iter().map(|(k, v)| (*k, *v)).collect::<HashMap<_, _>>(), expected.clone());
                for key in (0..400).map(|key| Number(key, quality)) {
                    prop_assert_eq!(map.get(key.hashed(), |k| *k == key), expected.get(&key));
                }
            }
        }
    }
}
