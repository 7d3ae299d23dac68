//! A map from text that finds a text by its [`Print`] alone, so that a lookup reads one line of memory however many
//! texts there are, and a small one: the prints of 100,000 names stay in a cache where the names would not.
//!
//! **Why the text need not be compared.** Of texts that are in the map no two are ever taken for each other: where
//! tags do not tell two apart, this is seen when the second comes, and then they are compared. A text that is not in
//! the map is taken for another if its tag, 56 bits that nobody can foresee, is that of one of about six texts in
//! its bucket: once in 2^53 lookups. A million lookups a second for nothing but unknown names would meet one in
//! 280 years; whoever sent it would have had no way to choose it.
//!
//! It is made of ways, by the lower bits of the print, several hundred texts each. Copies of the map share them: a
//! change copies one, and the list of them. Ways are split one after the other as the map grows, so that no change
//! moves more than two.

use std::fmt;
use std::sync::Arc;

use crate::tables::bucket::{self, Bucket};
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
    /// Whether tags do not tell its keys apart: then they are compared. It takes two keys with one tag, which is
    /// never expected of prints.
    crowded: bool,
}

/// In the order of the tags, so that no tag need say whose it is; in none where the way is crowded.
#[derive(Clone)]
struct Held<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

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
        let way = self.ways.get(way_of(print.place, self.ways.len()))?;
        way.find(print, is).map(|at| &way.held.values[at])
    }

    /// Whether [`Self::get`] may have a value for a print with this place: `false` is certain, `true` hardly ever in
    /// vain. The hash of a text that is not in the map need not be made to its end.
    #[inline]
    pub(crate) fn may_have(&self, place: u64) -> bool {
        let Some(way) = self.ways.get(way_of(place, self.ways.len())) else { return false };
        bucket::may_have(&way.buckets, place) | way.crowded
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
        let at = way_of(print.place, self.ways.len());
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
        let at = way_of(print.place, self.ways.len());
        if self.ways[at].insert(print, key, value) {
            self.len += 1;
            if self.len > self.ways.len() * MEAN {
                self.split();
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let print = key.print();
        let at = way_of(print.place, self.ways.len());
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
        let held = std::mem::replace(&mut self.ways[at], Way::new()).into_held();
        self.ways.push(Way::new());
        self.share_out(held, &[at, self.ways.len() - 1]);
    }

    /// Undoes the last split.
    fn merge(&mut self) {
        if self.ways.len() > 1
            && let Some(last) = self.ways.pop()
        {
            self.share_out(last.into_held(), &[split_from(self.ways.len())]);
        }
    }

    /// Puts what is held into these ways, which it belongs to.
    fn share_out(&mut self, held: Held<K, V>, ways: &[usize]) {
        for (key, value) in held.keys.into_iter().zip(held.values) {
            let at = way_of(key.print().place, self.ways.len());
            Arc::make_mut(&mut self.ways[at].held).push(key, value);
        }
        ways.iter().for_each(|at| self.ways[*at].sort());
    }
}

/// The way of a print among so many: by as many bits as there are ways for; where that way is not there yet, by one
/// bit less.
#[inline]
const fn way_of(place: u64, ways: usize) -> usize {
    let round = ways.next_power_of_two();
    let at = place as usize & (round - 1);
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
        if self.crowded { self.held.keys.iter().position(is) } else { bucket::find(&self.buckets, print) }
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
        if held.keys.len() >= fitting(self.buckets.len()) {
            held.push(key, value);
            self.sort();
            return true;
        }
        let buckets = Arc::make_mut(&mut self.buckets);
        let placed = if self.crowded { None } else { bucket::put(buckets, print) };
        if let Some((bucket, slot)) = placed {
            buckets[bucket + 1..].iter_mut().for_each(|later| later.before += 1);
            held.insert(buckets[bucket].before as usize + slot, key, value);
        } else {
            held.push(key, value);
            self.crowded = true;
        }
        true
    }

    fn remove(&mut self, at: usize) {
        let held = Arc::make_mut(&mut self.held);
        held.keys.swap_remove(at);
        held.values.swap_remove(at);
        self.sort();
    }

    /// Puts all tags into buckets anew, and what is held into their order.
    fn sort(&mut self) {
        let held = Arc::make_mut(&mut self.held);
        let mut buckets = vec![Bucket::default(); buckets_for(held.keys.len())];
        let slots: Option<Vec<_>> =
            held.keys.iter().map(|key| bucket::put(&mut buckets, key.print())).collect();
        let mut before = 0;
        for bucket in &mut buckets {
            bucket.before = before as u32;
            before += bucket.taken();
        }
        self.crowded = slots.is_none();
        let slots = slots.into_iter().flatten();
        held.put_at(slots.map(|(bucket, slot)| buckets[bucket].before as usize + slot).collect());
        self.buckets = buckets.into();
    }

    fn into_held(self) -> Held<K, V> {
        Arc::unwrap_or_clone(self.held)
    }
}

impl<K, V> Held<K, V> {
    fn push(&mut self, key: K, value: V) {
        self.insert(self.keys.len(), key, value);
    }

    /// Leaves little room unused, because there may be very many of these.
    fn insert(&mut self, at: usize, key: K, value: V) {
        if self.keys.len() == self.keys.capacity() {
            let more = 1 + self.keys.len() / 8;
            self.keys.reserve_exact(more);
            self.values.reserve_exact(more);
        }
        self.keys.insert(at, key);
        self.values.insert(at, value);
    }

    /// Moves each key and its value to its place of these.
    fn put_at(&mut self, mut places: Vec<usize>) {
        for at in 0..places.len() {
            while places[at] != at {
                let place = places[at];
                self.keys.swap(at, place);
                self.values.swap(at, place);
                places.swap(at, place);
            }
        }
    }
}

/// How many keys so many buckets take: not so many that they are often full.
const fn fitting(buckets: usize) -> usize {
    buckets * 13 / 2
}

/// With some room for more.
const fn buckets_for(keys: usize) -> usize {
    1 + keys / 6
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
                    if quality == 0 && expected.contains_key(&key) {
                        prop_assert!(index.may_have(key.print().place));
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
        let strangers = (50_000..60_000).map(|key| Number(key, 0).print().place);
        let likely = strangers.filter(|place| index.may_have(*place)).count();
        assert!(likely < 500, "{likely} of 10,000 that are not there");

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
