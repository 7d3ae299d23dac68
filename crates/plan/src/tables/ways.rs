//! Many texts and what is said for each, found by their prints.
//!
//! They are kept in ways, by the lower bits of the print, several hundred texts each. Copies of the whole share them: a
//! change copies one, and the list of them. Ways are split one after the other as texts come, so that no change
//! moves more than two.

use std::sync::Arc;

use crate::tables::index::Printed;
use crate::tables::print::Print;
use crate::tables::tags::Tags;

/// At least one way, and at least one key.
#[derive(Clone)]
pub(crate) struct Ways<K, V> {
    ways: Vec<Way<K, V>>,
    len: usize,
}

struct Way<K, V> {
    tags: Tags,
    held: Arc<Held<K, V>>,
    /// Whether tags do not tell its keys apart: then they are compared. It takes two keys with one tag, or more
    /// than 65,535 keys in one way, and neither is ever expected of prints.
    crowded: bool,
}

#[derive(Clone)]
struct Held<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

/// Of keys in a way, between the splits of all; a way that is yet to be split has up to twice as many. Fewer would be
/// cheaper to copy. But then there are more ways: the list of them would be read from further away, and the tags be
/// on so many pages that finding these takes time.
const MEAN: usize = if cfg!(test) { 80 } else { 600 };

impl<K, V> Ways<K, V> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The value of the key that has this print; `is` is asked only where prints do not tell keys apart.
    #[inline]
    pub(crate) fn get(&self, print: Print, is: impl Fn(&K) -> bool) -> Option<&V> {
        let way = &self.ways[way_of(print, self.ways.len())];
        way.find(print, is).map(|at| &way.held.values[at])
    }

    /// In no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.ways.iter().flat_map(|way| &way.held.values)
    }
}

impl<K: Printed, V: Clone> Ways<K, V> {
    pub(crate) fn of(pairs: [(K, V); 2]) -> Self {
        let mut ways = Self { ways: vec![Way::new()], len: 0 };
        pairs.into_iter().for_each(|(key, value)| ways.insert(key, value));
        ways
    }

    /// The value to be changed in place: what other copies of the map share with it is copied first.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let print = key.print();
        let at = way_of(print, self.ways.len());
        let way = &mut self.ways[at];
        let at = way.find_key(print, key)?;
        Some(&mut Arc::make_mut(&mut way.held).values[at])
    }

    /// Puts the value in; a value that was there under an equal key goes.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let print = key.print();
        let at = way_of(print, self.ways.len());
        if self.ways[at].insert(print, key, value) {
            self.len += 1;
            if self.len > self.ways.len() * MEAN {
                self.split();
            }
        }
    }

    /// Takes the key out if it is there. `Some` when one is left, which then needs no ways any more.
    pub(crate) fn remove(&mut self, key: &K) -> Option<(K, V)> {
        let print = key.print();
        let at = way_of(print, self.ways.len());
        let at_key = self.ways[at].find_key(print, key)?;
        self.ways[at].remove(at_key);
        self.len -= 1;
        if self.len < self.ways.len() * MEAN / 2 {
            self.merge();
        }
        let [way] = &self.ways[..] else { return None };
        let Held { keys, values } = &*way.held;
        let [key] = &keys[..] else { return None };
        Some((key.clone(), values[0].clone()))
    }

    /// Makes one way more, of the one whose turn it is.
    fn split(&mut self) {
        let at = split_from(self.ways.len());
        let ways = self.ways.len() + 1;
        let Held { keys, values } = std::mem::replace(&mut self.ways[at], Way::new()).into_held();
        let (stay, go): (Vec<_>, Vec<_>) =
            keys.into_iter().zip(values).partition(|(key, _)| way_of(key.print(), ways) == at);
        self.ways[at] = Way::of(stay);
        self.ways.push(Way::of(go));
    }

    /// Undoes the last split.
    fn merge(&mut self) {
        if self.ways.len() > 1
            && let Some(last) = self.ways.pop()
        {
            let at = split_from(self.ways.len());
            let stay = std::mem::replace(&mut self.ways[at], Way::new()).into_held();
            let pairs =
                [stay, last.into_held()].into_iter().flat_map(|held| held.keys.into_iter().zip(held.values));
            self.ways[at] = Way::of(pairs.collect());
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
        Self { tags: Tags::with_room_for(0), held: held.into(), crowded: false }
    }

    #[inline]
    fn find(&self, print: Print, is: impl Fn(&K) -> bool) -> Option<usize> {
        if self.crowded { self.held.keys.iter().position(is) } else { self.tags.find(print) }
    }
}

impl<K: Printed, V: Clone> Way<K, V> {
    /// Of keys that are all different.
    fn of(pairs: Vec<(K, V)>) -> Self {
        let (keys, values) = pairs.into_iter().unzip();
        let mut way = Self { held: Held { keys, values }.into(), ..Self::new() };
        way.sort();
        way
    }

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
        let placed = if self.crowded || !self.tags.has_room() { None } else { self.tags.put(print).ok() };
        held.insert(placed.unwrap_or(held.keys.len()), key, value);
        if placed.is_none() {
            self.sort();
        }
        true
    }

    fn remove(&mut self, at: usize) {
        let held = Arc::make_mut(&mut self.held);
        held.keys.swap_remove(at);
        held.values.swap_remove(at);
        self.sort();
    }

    /// Makes the tags anew, and puts the keys in the order of these.
    fn sort(&mut self) {
        let held = Arc::make_mut(&mut self.held);
        let Ok((tags, places)) = Tags::of(held.keys.iter().map(K::print)) else {
            // The tags that are there are not asked any more.
            self.crowded = true;
            return;
        };
        let keys = held.keys.drain(..).zip(held.values.drain(..));
        let mut sorted: Vec<(usize, (K, V))> = places.into_iter().zip(keys).collect();
        sorted.sort_unstable_by_key(|(place, _)| *place);
        (held.keys, held.values) = sorted.into_iter().map(|(_, pair)| pair).unzip();
        (self.tags, self.crowded) = (tags, false);
    }

    fn into_held(self) -> Held<K, V> {
        Arc::unwrap_or_clone(self.held)
    }
}

impl<K, V> Held<K, V> {
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
}

impl<K, V> Clone for Way<K, V> {
    fn clone(&self) -> Self {
        Self { tags: self.tags.clone(), held: Arc::clone(&self.held), crowded: self.crowded }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A key with a print of some quality: good, with few tags, with few places, the same for all.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub(crate) struct Number(pub(crate) u16, pub(crate) u8);

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

    fn ways_of(count: u16) -> Ways<Number, u16> {
        let mut ways = Ways::of([0, 1].map(|key| (Number(key, 0), key)));
        (2..count).for_each(|key| ways.insert(Number(key, 0), key));
        ways
    }

    fn get<V>(ways: &Ways<Number, V>, key: Number) -> Option<&V> {
        ways.get(key.print(), |other| *other == key)
    }

    #[test]
    fn tags_tell_keys_apart_and_ways_come_and_go_with_them() {
        let keys = || (0..50_000).map(|key| Number(key, 0));
        let mut all = ways_of(50_000);
        assert!(keys().all(|key| get(&all, key) == Some(&key.0)));
        assert!(all.ways.iter().all(|way| !way.crowded));
        assert_eq!(all.ways.len(), 50_000_usize.div_ceil(MEAN));

        assert!(keys().skip(100).all(|key| all.remove(&key).is_none()));
        assert!(keys().all(|key| get(&all, key).is_some() == (key.0 < 100)));
        assert!(all.ways.len() <= 3, "{} ways", all.ways.len());
        let last = keys().take(99).filter_map(|key| all.remove(&key)).collect::<Vec<_>>();
        assert_eq!(last, [(Number(99, 0), 99)]);
    }

    #[test]
    fn a_change_leaves_all_ways_but_its_own_to_the_copy() {
        let mut ways = ways_of(10_000);
        let copy = ways.clone();
        *ways.get_mut(&Number(5, 0)).unwrap() += 1;
        let pairs = || ways.ways.iter().zip(&copy.ways);
        assert_eq!(pairs().filter(|(a, b)| !Arc::ptr_eq(&a.held, &b.held)).count(), 1);
        assert!(pairs().all(|(a, b)| a.tags.is_shared_with(&b.tags)), "tags are as they were");
    }
}
