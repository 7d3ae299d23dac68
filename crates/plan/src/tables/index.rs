//! A map from text that finds a text by its [`Print`] alone, so that a lookup reads little memory however many texts
//! there are: the prints of 100,000 names stay in a cache where the names would not.
//!
//! **Why the text need not be compared.** Of texts that are in the map no two are ever taken for each other: where
//! tags do not tell two apart, this is seen when the second comes, and then they are compared. A text that is not in
//! the map is taken for another if its tag, 64 bits that nobody can foresee, is that of one of about six texts in
//! its bucket: once in 2^61 lookups. A million lookups a second for nothing but unknown names would meet one in
//! 70,000 years; whoever sent it would have had no way to choose it.

use std::fmt;

use crate::tables::print::Print;
use crate::tables::ways::Ways;

#[derive(Clone)]
pub(crate) enum Index<K, V> {
    Empty,
    /// In place: one name is all that most listeners have, and there may be very many listeners, no part of which was
    /// read for long.
    One(Print, K, V),
    Many(Ways<K, V>),
}

/// What an [`Index`] is asked by.
pub(crate) trait Printed: Clone + PartialEq {
    fn print(&self) -> Print;
}

impl<K, V> Index<K, V> {
    pub(crate) const fn new() -> Self {
        Self::Empty
    }

    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(..) => 1,
            Self::Many(ways) => ways.len(),
        }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    /// The value of the key that has this print; `is` is asked only where prints do not tell keys apart.
    #[inline]
    pub(crate) fn get(&self, print: Print, is: impl Fn(&K) -> bool) -> Option<&V> {
        match self {
            Self::Empty => None,
            Self::One(own, _, value) => (*own == print).then_some(value),
            Self::Many(ways) => ways.get(print, is),
        }
    }

    /// In no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        let (one, many) = match self {
            Self::Empty => (None, None),
            Self::One(_, _, value) => (Some(value), None),
            Self::Many(ways) => (None, Some(ways.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

impl<K: Printed, V: Clone> Index<K, V> {
    /// The value to be changed in place: what other copies of the map share with it is copied first.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            Self::Empty => None,
            Self::One(_, own, value) => (own == key).then_some(value),
            Self::Many(ways) => ways.get_mut(key),
        }
    }

    /// Puts the value in; a value that was there under an equal key goes.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        *self = match std::mem::replace(self, Self::Empty) {
            Self::One(_, own, old) if own != key => Self::Many(Ways::of([(own, old), (key, value)])),
            Self::Empty | Self::One(..) => Self::One(key.print(), key, value),
            Self::Many(mut ways) => {
                ways.insert(key, value);
                Self::Many(ways)
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        match self {
            Self::Empty => {}
            Self::One(_, own, _) if own != key => {}
            Self::One(..) => *self = Self::Empty,
            Self::Many(ways) => {
                if let Some((key, value)) = ways.remove(key) {
                    *self = Self::One(key.print(), key, value);
                }
            }
        }
    }
}

impl<K, V> Default for Index<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index of {}", self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::tables::ways::tests::Number;

    fn get<V>(index: &Index<Number, V>, key: Number) -> Option<&V> {
        index.get(key.print(), |other| *other == key)
    }

    proptest! {
        #[test]
        fn it_is_a_map_and_copies_are_not_disturbed(
            quality in 0..4_u8,
            keys in prop_oneof![Just(3_u16), Just(800)],
            changes in proptest::collection::vec((0..800_u16, proptest::option::weighted(0.7, 0..9_u16)), 0..1800),
            copy_at in 0..1800_usize,
        ) {
            let mut index = Index::new();
            let mut expected = HashMap::new();
            let mut copy = None;
            for (at, (key, value)) in changes.into_iter().enumerate() {
                let key = Number(key % keys, quality);
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
                prop_assert_eq!(index.is_empty(), expected.is_empty());
                let sum = |values: &mut dyn Iterator<Item = &u16>| values.map(|value| u64::from(*value)).sum::<u64>();
                prop_assert_eq!(sum(&mut index.values()), sum(&mut expected.values()));
                for key in (0..keys).map(|key| Number(key, quality)) {
                    // Of keys that are not there a poor print may say that they are; a good one never does.
                    if quality == 0 || expected.contains_key(&key) {
                        prop_assert_eq!(get(&index, key), expected.get(&key));
                    }
                }
            }
        }
    }

    #[test]
    fn a_text_is_alone_where_it_is_the_only_one_however_it_came_to_be() {
        let mut index = Index::new();
        (0..3).for_each(|key| index.insert(Number(key, 0), key));
        assert!(matches!(index, Index::Many(_)));
        index.remove(&Number(0, 0));
        index.remove(&Number(2, 0));
        assert!(matches!(index, Index::One(_, Number(1, 0), 1)));
        index.remove(&Number(1, 0));
        assert!(index.is_empty());
    }
}
