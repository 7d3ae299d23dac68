//! Which key of a way has a print: tags in buckets of one line of memory each, and a word for each bucket that says what
//! else there is to know of it.

use std::sync::Arc;

use crate::tables::print::Print;

/// Copies share what is in them until one is changed.
#[derive(Clone)]
pub(super) struct Tags {
    heads: Arc<[Head]>,
    buckets: Arc<[Bucket]>,
    keys: usize,
}

/// One line of the cache. Slots are taken from the first on; 0 where there is no tag.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Bucket([u64; SLOTS]);

const SLOTS: usize = 8;

/// What is to be known of a bucket beside its tags, in an eighth of the memory, which stays nearer:
/// - for every key that is looked for there first a bit, by its tag. Most texts that are not in the map are found out by
///   these;
/// - whether it was full when another key came, which then is in the next with room;
/// - which of the way's keys its first one is: keys stand in the order of their buckets and slots.
#[derive(Clone, Copy, Default)]
struct Head(u64);

const HINTS: u64 = 47;
const PASSED: u64 = 1 << HINTS;
const FIRST: u32 = 48;

/// The key would not be found by its tag.
#[derive(Debug)]
pub(super) struct NotToldApart;

impl Tags {
    /// Of these keys, with room for some more, and the order in which the keys are to stand: for each where it is among
    /// the slots.
    pub(super) fn of(
        prints: impl ExactSizeIterator<Item = Print>,
    ) -> Result<(Self, Vec<usize>), NotToldApart> {
        let keys = prints.len();
        let mut tags = Self::with_room_for(keys);
        let (heads, buckets) = (Arc::make_mut(&mut tags.heads), Arc::make_mut(&mut tags.buckets));
        let places = prints.map(|print| place(heads, buckets, print)).collect::<Result<Vec<usize>, _>>()?;
        let mut before = 0;
        for (head, bucket) in heads.iter_mut().zip(&*buckets) {
            head.move_by(u16::try_from(before).map_err(|_| NotToldApart)?);
            before += bucket.0.iter().filter(|tag| **tag != 0).count();
        }
        tags.keys = keys;
        Ok((tags, places))
    }

    pub(super) fn with_room_for(keys: usize) -> Self {
        let buckets = 1 + keys * 5 / 29;
        Self {
            heads: vec![Head(0); buckets].into(),
            buckets: vec![Bucket::default(); buckets].into(),
            keys: 0,
        }
    }

    /// Whether one key more leaves the buckets room enough not to be full often.
    pub(super) fn has_room(&self) -> bool {
        self.keys < self.buckets.len() * 33 / 5
    }

    /// Which of the way's keys it is.
    #[inline]
    pub(super) fn find(&self, print: Print) -> Option<usize> {
        let first = first_of(self.buckets.len(), print);
        if self.heads[first].0 & hint(print) == 0 {
            return None;
        }
        for at in probes(self.buckets.len(), first) {
            let head = self.heads[at];
            if let Some(slot) = self.buckets[at].find(print.tag) {
                return Some(head.first() + slot);
            }
            if head.0 & PASSED == 0 {
                return None;
            }
        }
        None
    }

    /// Puts the tag of one key more in, and says before which of the others the key is to stand.
    pub(super) fn put(&mut self, print: Print) -> Result<usize, NotToldApart> {
        if self.keys >= usize::from(u16::MAX) {
            return Err(NotToldApart);
        }
        let (heads, buckets) = (Arc::make_mut(&mut self.heads), Arc::make_mut(&mut self.buckets));
        let place = place(heads, buckets, print)?;
        let (at, slot) = (place / SLOTS, place % SLOTS);
        heads[at + 1..].iter_mut().for_each(|head| head.move_by(1));
        self.keys += 1;
        Ok(heads[at].first() + slot)
    }
}

/// Puts the tag into a slot and gives its number among all. Every bucket is looked at that a lookup for the key goes
/// through, so that no other with its tag can be found in its place.
fn place(heads: &mut [Head], buckets: &mut [Bucket], print: Print) -> Result<usize, NotToldApart> {
    let first = first_of(buckets.len(), print);
    heads[first].0 |= hint(print);
    for at in probes(buckets.len(), first) {
        let bucket = &mut buckets[at];
        if bucket.find(print.tag).is_some() {
            return Err(NotToldApart);
        }
        if let Some(slot) = bucket.find(0) {
            bucket.0[slot] = print.tag;
            return Ok(at * SLOTS + slot);
        }
        heads[at].0 |= PASSED;
    }
    Err(NotToldApart)
}

/// The bucket that is tried first, by the upper half of the place; the lower named the way.
#[inline]
const fn first_of(buckets: usize, print: Print) -> usize {
    (((print.place >> 32) * buckets as u64) >> 32) as usize
}

/// The buckets in the order in which they are tried.
#[inline]
fn probes(buckets: usize, first: usize) -> impl Iterator<Item = usize> {
    (first..buckets).chain(0..first)
}

#[inline]
const fn hint(print: Print) -> u64 {
    1 << (print.tag % HINTS)
}

impl Head {
    #[inline]
    const fn first(self) -> usize {
        (self.0 >> FIRST) as usize
    }

    /// There are so many keys more before its first.
    const fn move_by(&mut self, keys: u16) {
        self.0 += (keys as u64) << FIRST;
    }
}

impl Bucket {
    /// All slots are compared before the first is asked for: which one it is cannot be foreseen, and a branch for
    /// each would often be taken wrong.
    #[inline]
    fn find(&self, tag: u64) -> Option<usize> {
        let same = self.0.iter().rev().fold(0_u32, |same, other| same << 1 | u32::from(*other == tag));
        (same != 0).then(|| same.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Tags {
        pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
            Arc::ptr_eq(&self.heads, &other.heads) && Arc::ptr_eq(&self.buckets, &other.buckets)
        }
    }

    fn print(number: u32) -> Print {
        Print::of(&number.to_le_bytes())
    }

    #[test]
    fn keys_are_found_where_they_were_said_to_stand() {
        let (mut tags, places) = Tags::of((0..600).map(print)).unwrap();
        let mut keys: Vec<u32> = (0..600).collect();
        keys.sort_by_key(|key| places[*key as usize]);
        for key in 600..660 {
            keys.insert(tags.put(print(key)).unwrap(), key);
        }
        assert!(keys.iter().enumerate().all(|(at, key)| tags.find(print(*key)) == Some(at)));
    }

    #[test]
    fn what_is_not_there_is_mostly_found_out_without_a_bucket() {
        let (tags, _) = Tags::of((0..600).map(print)).unwrap();
        assert!((600..10_000).all(|key| tags.find(print(key)).is_none()));
        let hinted =
            |key: &u32| tags.heads[first_of(tags.buckets.len(), print(*key))].0 & hint(print(*key)) != 0;
        let read = (600..10_000).filter(hinted).count();
        assert!(read < 1_500, "{read} of 9,400");
    }

    #[test]
    fn a_second_key_with_a_tag_is_seen_even_where_the_first_had_to_give_way() {
        let print = |tag: u32| Print { place: 0, tag: tag.into() };
        let (mut tags, _) = Tags::of((1..20).map(print)).unwrap();
        assert!((1..20).all(|tag| tags.find(print(tag)) == Some(tag as usize - 1)));
        assert!(tags.put(print(19)).is_err());
    }
}
