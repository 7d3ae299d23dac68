//! The tags of some hundred keys, in buckets that are a line of memory each. A key's tag is in the bucket that its
//! place names or, if that was full, in one behind it.

use crate::tables::bytes;
use crate::tables::print::{Print, first_of_tag};

/// One line of the cache. Slots are taken from the first on.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct Bucket {
    /// The first bytes of all tags, then the second ones, and so on; 0 is the tag of a free slot.
    tags: [u64; TAG_BYTES],
    /// How many keys the buckets before it have.
    pub(crate) before: u32,
    /// Which [`mark`]s the keys have that came when it was full, and are in the next with room.
    passed: u32,
}

const TAG_BYTES: usize = 7;
const SLOTS: usize = 8;

/// Where the key is that has this print.
#[inline]
pub(crate) fn find(buckets: &[Bucket], print: Print) -> Option<usize> {
    for bucket in probes(buckets.len(), print).map(|at| &buckets[at]) {
        if let Some(slot) = bucket.find(print.tag) {
            return Some(bucket.before as usize + slot);
        }
        if bucket.passed & mark(print.tag) == 0 {
            return None;
        }
    }
    None
}

/// Whether [`find`] may find a print with this place: `false` is certain, `true` hardly ever in vain.
#[inline]
pub(crate) fn may_have(buckets: &[Bucket], place: u64) -> bool {
    let bucket = &buckets[first_probe(buckets.len(), place)];
    let tag = first_of_tag(place);
    (bucket.same::<2>(tag) != 0) | (bucket.passed & mark(tag) != 0)
}

/// Bucket and slot; `None` where the key would not be found by its tag. Every bucket is looked at that a lookup for
/// the key goes through, so that no other with its tag can be found in its place.
pub(crate) fn put(buckets: &mut [Bucket], print: Print) -> Option<(usize, usize)> {
    for at in probes(buckets.len(), print) {
        let bucket = &mut buckets[at];
        if bucket.find(print.tag).is_some() {
            return None;
        }
        if let Some(slot) = bucket.find(0) {
            for (byte, tags) in bucket.tags.iter_mut().enumerate() {
                *tags |= u64::from(print.tag.to_le_bytes()[byte]) << (8 * slot);
            }
            return Some((at, slot));
        }
        bucket.passed |= mark(print.tag);
    }
    None
}

/// The buckets in the order in which they are tried, by the upper half of the place; the lower named the way.
#[inline]
fn probes(buckets: usize, print: Print) -> impl Iterator<Item = usize> {
    let first = first_probe(buckets, print.place);
    (first..buckets).chain(0..first)
}

#[inline]
const fn first_probe(buckets: usize, place: u64) -> usize {
    (((place >> 32) * buckets as u64) >> 32) as usize
}

/// One of 32 bits, by which a full bucket tells most texts that are not in the map from those that passed it.
#[inline]
const fn mark(tag: u64) -> u32 {
    1 << (tag % 32)
}

impl Bucket {
    #[inline]
    fn find(&self, tag: u64) -> Option<usize> {
        let same = self.same::<TAG_BYTES>(tag);
        (same != 0).then(|| same.trailing_zeros() as usize / 8)
    }

    /// A bit in the byte of each slot whose tag has these first bytes. All are compared before the first is asked for:
    /// which one it is cannot be foreseen, and a branch for each would often be taken wrong.
    #[inline]
    fn same<const BYTES: usize>(&self, tag: u64) -> u64 {
        let pairs = self.tags.iter().zip(tag.to_le_bytes()).take(BYTES);
        bytes::zero(pairs.fold(0, |differing, (tags, byte)| differing | tags ^ u64::from(byte) * bytes::ONES))
    }

    pub(crate) fn taken(&self) -> usize {
        self.find(0).unwrap_or(SLOTS)
    }
}
