//! A map from text that finds a text by its [`Print`] alone, so that a lookup reads one line of memory however many
//! texts there are, and a small one: the prints of 100,000 names stay in a cache where the names would not.
//!
//! **Why the text need not be compared.** Of texts that are in the map no two are ever taken for each other: where
//! tags do not tell two apart, this is seen when the second comes, and then they are compared. A text that is not in
//! the map is taken for another if its tag, 64 bits that nobody can foresee, is that of one of about five texts in
//! its bucket: once in 2^61 lookups. A million lookups a second for nothing but unknown names would meet one in
//! 70,000 years; whoever sent it would have had no way to choose it.
//!
//! It is made of ways, by the lower bits of the print, several hundred texts each. Copies of the map share them: a
//! change copies one, and the list of them. Ways are split one after the other as the map grows, so that no change
//! moves more than two.

use std::fmt;
use std::sync::Arc;

use crate::tables::print::Print;

#[derive(Clone)]
pub(crate) struct Index<K, V> {
    ways: Vec<Way<K, V>>,
    len: usize,
}

/// What an [`Index`] is asked by.
pub(crate) trait Printed: Clone + PartialEq {
    fn print(&self) -> Print;
}

struct Way<K, V> {
    buckets: Arc<[Bucket]>,
    held: Arc<Held<K, V>>,
    /// Whether tags do not tell its keys apart: then they are compared. It takes two keys with one tag, or more
    /// than 65,536 keys in one way, and neither is ever expected of prints.
    crowded: bool,
}

#[derive(Clone)]
struct Held<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

/// One line of the cache. Slots are taken from the first on.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Bucket {
    /// 0 where there is none.
    tags: [u64; SLOTS],
    /// Which of the way's keys it is the tag of.
    keys: [u16; SLOTS],
    /// Whether it was full when another key came, which then is in the next with room.
    passed: bool,
}

const SLOTS: usize = 6;
/// Of keys in a way, between the splits of all; a way that is yet to be split has up to twice as many. Fewer would be
/// cheaper to copy. But then there are more ways: the list of them would be read from further away, and the tags be
/// on so many pages that finding these takes time.
const MEAN: usize = if cfg!(test) { 80 } else { 600 };

impl<K, V> Index<K, V> {
    pub(crate) const fn new() -> Self {
        Self { ways: Vec::new(), len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of the key that has this print; `is` is asked only where prints do not tell keys apart.
    #[inline]
    pub(crate) fn get(&self, print: Print, is: impl Fn(&K) -> bool) -> Option<&V> {
        let way = self.ways.get(way_of(print, self.ways.len()))?;
        way.find(print, is).map(|at| &way.held.values[at])
    }

    /// In no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.ways.iter().flat_map(|way| &way.held.values)
    }
}

impl<K: Printed, V: Clone> Index<K, V> {
    /// The value to be changed in place: what other copies of the map share with it is copied first.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let print = key.print();
        let at = way_of(print, self.ways.len());
        let way = self.ways.get_mut(at)?;
        let at = way.find_key(print, key)?;
        Some(&mut Arc::make_mut(&mut way.held).values[at])
    }

    /// Puts the value in; a value that was there under an equal key goes.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.ways.is_empty() {
            self.ways.push(Way::new());
        }
        let print = key.print();
        let at = way_of(print, self.ways.len());
        if self.ways[at].insert(print, key, value) {
            self.len += 1;
            if self.len > self.ways.len() * MEAN {
                self.split();
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let print = key.print();
        let at = way_of(print, self.ways.len());
        let Some(way) = self.ways.get_mut(at) else { return };
        let Some(at) = way.find_key(print, key) else { return };
        way.remove(at);
        self.len -= 1;
        if self.len == 0 {
            self.ways.clear();
        } else if self.len < self.ways.len() * MEAN / 2 {
            self.merge();
        }
    }

    /// Makes one way more, of the one whose turn it is.
    fn split(&mut self) {
        let at = split_from(self.ways.len());
        self.ways.push(Way::new());
        let Held { keys, values } = std::mem::replace(&mut self.ways[at], Way::new()).into_held();
        self.sort_in(keys, values);
    }

    /// Undoes the last split.
    fn merge(&mut self) {
        if self.ways.len() > 1
            && let Some(last) = self.ways.pop()
        {
            let Held { keys, values } = last.into_held();
            self.sort_in(keys, values);
        }
    }

    fn sort_in(&mut self, keys: Vec<K>, values: Vec<V>) {
        for (key, value) in keys.into_iter().zip(values) {
            let print = key.print();
            let at = way_of(print, self.ways.len());
            self.ways[at].insert(print, key, value);
        }
    }
}

/// The way of a print among so many: by as many bits as there are ways for; where that way is not there yet, by one
/// bit less.
#[inline]
const fn way_of(print: Print, ways: usize) -> usize {
    let round = ways.next_power_of_two();
    let at = print.place as usize & (round - 1);
    if at < ways { at } else { at & ((round - 1) >> 1) }
}

/// The way that is split when there are so many, at least one.
const fn split_from(ways: usize) -> usize {
    ways - (1 << ways.ilog2())
}

impl<K, V> Way<K, V> {
    fn new() -> Self {
        let held = Held { keys: Vec::new(), values: Vec::new() };
        Self { buckets: [Bucket::default()].into(), held: held.into(), crowded: false }
    }

    #[inline]
    fn find(&self, print: Print, is: impl Fn(&K) -> bool) -> Option<usize> {
        if self.crowded { self.held.keys.iter().position(is) } else { find_tag(&self.buckets, print) }
    }
}

impl<K: Printed, V: Clone> Way<K, V> {
    fn find_key(&self, print: Print, key: &K) -> Option<usize> {
        self.find(print, |other| other == key).filter(|at| self.held.keys[*at] == *key)
    }

    /// Whether the key is new.
    fn insert(&mut self, print: Print, key: K, value: V) -> bool {
        let there = self.find_key(print, &key);
        let held = Arc::make_mut(&mut self.held);
        if let Some(at) = there {
            held.values[at] = value;
            return false;
        }
        held.push(key, value);
        let count = held.keys.len();
        if count > fitting(self.buckets.len()) {
            self.sort_tags();
        } else if !put_tag(Arc::make_mut(&mut self.buckets), print, count - 1) {
            self.crowded = true;
        }
        true
    }

    fn remove(&mut self, at: usize) {
        let held = Arc::make_mut(&mut self.held);
        held.keys.swap_remove(at);
        held.values.swap_remove(at);
        self.sort_tags();
    }

    /// Puts all tags into buckets anew.
    fn sort_tags(&mut self) {
        let keys = &self.held.keys;
        let mut buckets = vec![Bucket::default(); buckets_for(keys.len())];
        let told_apart = keys.iter().enumerate().all(|(at, key)| put_tag(&mut buckets, key.print(), at));
        (self.buckets, self.crowded) = (buckets.into(), !told_apart);
    }

    fn into_held(self) -> Held<K, V> {
        Arc::unwrap_or_clone(self.held)
    }
}

impl<K, V> Held<K, V> {
    /// Leaves little room unused, because there may be very many of these.
    fn push(&mut self, key: K, value: V) {
        if self.keys.len() == self.keys.capacity() {
            let more = 1 + self.keys.len() / 8;
            self.keys.reserve_exact(more);
            self.values.reserve_exact(more);
        }
        self.keys.push(key);
        self.values.push(value);
    }
}

/// How many keys so many buckets take: not so many that they are often full.
const fn fitting(buckets: usize) -> usize {
    buckets * 5
}

/// With some room for more.
const fn buckets_for(keys: usize) -> usize {
    1 + keys * 5 / 22
}

/// The buckets in the order in which they are tried, by the upper half of the place; the lower named the way.
#[inline]
fn probes(buckets: usize, print: Print) -> impl Iterator<Item = usize> {
    let first = (((print.place >> 32) * buckets as u64) >> 32) as usize;
    (first..buckets).chain(0..first)
}

#[inline]
fn find_tag(buckets: &[Bucket], print: Print) -> Option<usize> {
    for bucket in probes(buckets.len(), print).map(|at| &buckets[at]) {
        if let Some(slot) = bucket.find(print.tag) {
            return Some(usize::from(bucket.keys[slot]));
        }
        if !bucket.passed {
            return None;
        }
    }
    None
}

/// `false` where the key would not be found by its tag. Every bucket is looked at that a lookup for the key goes
/// through, so that no other with its tag can be found in its place.
fn put_tag(buckets: &mut [Bucket], print: Print, key: usize) -> bool {
    let Ok(key) = u16::try_from(key) else { return false };
    for at in probes(buckets.len(), print) {
        let bucket = &mut buckets[at];
        if bucket.find(print.tag).is_some() {
            return false;
        }
        if let Some(slot) = bucket.find(0) {
            (bucket.tags[slot], bucket.keys[slot]) = (print.tag, key);
            return true;
        }
        bucket.passed = true;
    }
    false
}

impl Bucket {
    /// All slots are compared before the first is asked for: which one it is cannot be foreseen, and a branch for
    /// each would often be taken wrong.
    #[inline]
    fn find(&self, tag: u64) -> Option<usize> {
        let same = self.tags.iter().rev().fold(0_u32, |same, other| same << 1 | u32::from(*other == tag));
        (same != 0).then(|| same.trailing_zeros() as usize)
    }
}

impl<K, V> Clone for Way<K, V> {
    fn clone(&self) -> Self {
        Self { buckets: Arc::clone(&self.buckets), held: Arc::clone(&self.held), crowded: self.crowded }
    }
}

impl<K, V> Default for Index<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index of {}", self.len)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A key with a print of some quality: good, with few tags, with few places, the same for all.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    struct Number(u16, u8);

    impl Printed for Number {
        fn print(&self) -> Print {
            let print = Print::of(&self.0.to_le_bytes());
            match self.1 {
                0 => print,
                1 => Print { tag: 1 + print.tag % 50, ..print },
                2 => Print { place: print.place % 3, ..print },
                _ => Print { place: 7, tag: 7 },
            }
        }
    }

    fn get<V>(index: &Index<Number, V>, key: Number) -> Option<&V> {
        index.get(key.print(), |other| *other == key)
    }

    proptest! {
        #[test]
        fn it_is_a_map_and_copies_are_not_disturbed(
            quality in 0..4_u8,
            changes in proptest::collection::vec((0..800_u16, proptest::option::weighted(0.7, 0..9_u16)), 0..1800),
            copy_at in 0..1800_usize,
        ) {
            let mut index = Index::new();
            let mut expected = HashMap::new();
            let mut copy = None;
            for (at, (key, value)) in changes.into_iter().enumerate() {
                let key = Number(key, quality);
                if at == copy_at {
                    copy = Some((index.clone(), expected.clone()));
                }
                match value {
                    Some(value) => {
                        index.insert(key, value);
                        expected.insert(key, value);
                    }
                    None => {
                        index.remove(&key);
                        expected.remove(&key);
                    }
                }
                if let Some(value) = index.get_mut(&key) {
                    *value += 10;
                    *expected.get_mut(&key).unwrap() += 10;
                }
            }
            for (index, expected) in copy.into_iter().chain([(index, expected)]) {
                prop_assert_eq!(index.len(), expected.len());
                let sum = |values: &mut dyn Iterator<Item = &u16>| values.map(|value| u64::from(*value)).sum::<u64>();
                prop_assert_eq!(sum(&mut index.values()), sum(&mut expected.values()));
                for key in (0..800).map(|key| Number(key, quality)) {
                    // Of keys that are not there a poor print may say that they are; a good one never does.
                    if quality == 0 || expected.contains_key(&key) {
                        prop_assert_eq!(get(&index, key), expected.get(&key));
                    }
                }
            }
        }
    }

    #[test]
    fn tags_tell_keys_apart_and_ways_come_and_go_with_them() {
        let keys = || (0..50_000).map(|key| Number(key, 0));
        let mut index = Index::new();
        keys().for_each(|key| index.insert(key, key.0));
        assert!(keys().all(|key| get(&index, key) == Some(&key.0)));
        assert!(index.ways.iter().all(|way| !way.crowded));
        assert_eq!(index.ways.len(), 50_000_usize.div_ceil(MEAN));
        assert!(index.ways.iter().all(|way| way.buckets.len() <= buckets_for(way.held.keys.len() + 1)));

        keys().skip(100).for_each(|key| index.remove(&key));
        assert!(keys().all(|key| get(&index, key).is_some() == (key.0 < 100)));
        assert!(index.ways.len() <= 3, "{} ways", index.ways.len());
        keys().take(100).for_each(|key| index.remove(&key));
        assert!(index.is_empty() && index.ways.is_empty());
    }

    #[test]
    fn a_change_leaves_all_ways_but_its_own_to_the_copy() {
        let mut index = Index::new();
        (0..10_000).for_each(|key| index.insert(Number(key, 0), key));
        let copy = index.clone();
        *index.get_mut(&Number(5, 0)).unwrap() += 1;
        let pairs = || index.ways.iter().zip(&copy.ways);
        assert_eq!(pairs().filter(|(a, b)| !Arc::ptr_eq(&a.held, &b.held)).count(), 1);
        assert!(pairs().all(|(a, b)| Arc::ptr_eq(&a.buckets, &b.buckets)), "tags are as they were");
    }
}
