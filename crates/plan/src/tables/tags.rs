//! Which key of a way has a print: tags in buckets of one line of memory each.

use std::sync::Arc;

use crate::tables::print::Print;

/// Copies share what is in them until one is changed.
#[derive(Clone)]
pub(super) struct Tags {
    /// For each bucket a bit, by its tag, for every key that is looked for there first. Most texts that are not in the
    /// map are found out here: an eighth of the memory of the buckets, which stays nearer.
    hints: Arc<[u64]>,
    buckets: Arc<[Bucket]>,
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

/// The key would not be found by its tag.
pub(super) struct NotToldApart;

impl Tags {
    /// For so many keys and some more.
    pub(super) fn with_room_for(keys: usize) -> Self {
        let buckets = 1 + keys * 5 / 22;
        Self { hints: vec![0; buckets].into(), buckets: vec![Bucket::default(); buckets].into() }
    }

    /// Whether so many keys leave the buckets room enough not to be full often.
    pub(super) fn fit(&self, keys: usize) -> bool {
        keys <= self.buckets.len() * 5
    }

    #[inline]
    pub(super) fn find(&self, print: Print) -> Option<usize> {
        let first = first_of(self.buckets.len(), print);
        if self.hints[first] & hint(print) == 0 {
            return None;
        }
        for bucket in probes(self.buckets.len(), first).map(|at| &self.buckets[at]) {
            if let Some(slot) = bucket.find(print.tag) {
                return Some(usize::from(bucket.keys[slot]));
            }
            if !bucket.passed {
                return None;
            }
        }
        None
    }

    /// Every bucket is looked at that a lookup for the key goes through, so that no other with its tag can be found in
    /// its place.
    pub(super) fn put(&mut self, print: Print, key: usize) -> Result<(), NotToldApart> {
        let key = u16::try_from(key).map_err(|_| NotToldApart)?;
        let first = first_of(self.buckets.len(), print);
        Arc::make_mut(&mut self.hints)[first] |= hint(print);
        let buckets = Arc::make_mut(&mut self.buckets);
        for at in probes(buckets.len(), first) {
            let bucket = &mut buckets[at];
            if bucket.find(print.tag).is_some() {
                return Err(NotToldApart);
            }
            if let Some(slot) = bucket.find(0) {
                (bucket.tags[slot], bucket.keys[slot]) = (print.tag, key);
                return Ok(());
            }
            bucket.passed = true;
        }
        Err(NotToldApart)
    }
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
    1 << (print.tag % 64)
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

#[cfg(test)]
mod tests {
    use super::*;

    impl Tags {
        pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
            Arc::ptr_eq(&self.hints, &other.hints) && Arc::ptr_eq(&self.buckets, &other.buckets)
        }
    }

    #[test]
    fn what_is_not_there_is_mostly_found_out_without_a_bucket() {
        let print = |number: u32| Print::of(&number.to_le_bytes());
        let mut tags = Tags::with_room_for(600);
        (0..600).for_each(|key| assert!(tags.put(print(key), key as usize).is_ok()));
        assert!((0..600).all(|key| tags.find(print(key)) == Some(key as usize)));
        assert!((600..10_000).all(|key| tags.find(print(key)).is_none()));
        let hinted =
            |key: &u32| tags.hints[first_of(tags.buckets.len(), print(*key))] & hint(print(*key)) != 0;
        let read = (600..10_000).filter(hinted).count();
        assert!(read < 1_000, "{read} of 9,400");
    }

    #[test]
    fn a_second_key_with_a_tag_is_seen_even_where_the_first_had_to_give_way() {
        let print = |tag| Print { place: 0, tag };
        let mut tags = Tags::with_room_for(20);
        (1..20).for_each(|tag| assert!(tags.put(print(tag), tag as usize).is_ok()));
        assert!((1..20).all(|tag| tags.find(print(tag)) == Some(tag as usize)));
        assert!(tags.put(print(19), 20).is_err());
        assert!(tags.put(print(20), 70_000).is_err());
    }
}
