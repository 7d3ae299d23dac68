//! What is said for which hostnames, found for a name from the most specific hostname down.
//!
//! A lookup hashes the name once for the exact hostnames and once for each number of labels that some wildcard
//! has: its cost does not depend on how many hostnames there are.

use crate::tables::index::Index;
use crate::tables::print::Print;
use crate::tables::text::Text;
use crate::{Hostname, Name};

#[derive(Clone)]
pub(crate) struct Names<V> {
    exact: Index<Text, V>,
    /// By what follows the `*.`.
    wildcard: Index<Text, V>,
    depths: Depths,
    any: Option<V>,
}

/// How specific a hostname is, more being greater: none, a wildcard by its labels, exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Specificity {
    Any,
    Wildcard(u8),
    Exact,
}

impl<V> Names<V> {
    pub(crate) const fn new() -> Self {
        Self { exact: Index::new(), wildcard: Index::new(), depths: Depths::new(), any: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.any.is_none() && self.exact.is_empty() && self.wildcard.is_empty()
    }

    /// Offers what is said for the name, the most specific hostname first, until something is taken. Without a
    /// name only what is said for any.
    #[inline]
    pub(crate) fn find<'t, R>(
        &'t self,
        name: Option<&Name<'_>>,
        mut take: impl FnMut(Specificity, &'t V) -> Option<R>,
    ) -> Option<R> {
        if let Some(name) = name {
            let name = name.as_bytes();
            if !self.exact.is_empty()
                && let Some(value) = lookup(&self.exact, name)
                && let Some(taken) = take(Specificity::Exact, value)
            {
                return Some(taken);
            }
            if !self.depths.is_empty() {
                let mut labels = name.iter().filter(|byte| **byte == b'.').count();
                for (at, _) in name.iter().enumerate().filter(|(_, byte)| **byte == b'.') {
                    if self.depths.has(labels)
                        && let Some(value) = lookup(&self.wildcard, &name[at + 1..])
                        && let Some(taken) = take(Specificity::Wildcard(labels as u8), value)
                    {
                        return Some(taken);
                    }
                    labels -= 1;
                }
            }
        }
        self.any.as_ref().and_then(|value| take(Specificity::Any, value))
    }

    /// In no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.exact.values().chain(self.wildcard.values()).chain(&self.any)
    }
}

#[inline]
fn lookup<'t, V>(index: &'t Index<Text, V>, base: &[u8]) -> Option<&'t V> {
    index.get(Print::of(base), |key| key.as_bytes() == base)
}

impl<V: Clone> Names<V> {
    /// Changes what is said for a hostname; `change` is given what is there and says what shall be.
    pub(crate) fn change(
        &mut self,
        hostname: Option<&Hostname>,
        change: impl FnOnce(Option<&mut V>) -> Change<V>,
    ) {
        let Some(hostname) = hostname else {
            match change(self.any.as_mut()) {
                Change::Keep => {}
                Change::Set(value) => self.any = Some(value),
                Change::Remove => self.any = None,
            }
            return;
        };
        let wildcard = hostname.is_wildcard();
        let map = if wildcard { &mut self.wildcard } else { &mut self.exact };
        let text = Text::new(hostname.base());
        let before = map.len();
        match change(map.get_mut(&text)) {
            Change::Keep => {}
            Change::Remove => map.remove(&text),
            Change::Set(value) => map.insert(text, value),
        }
        let after = map.len();
        if wildcard && after > before {
            self.depths.add(hostname.labels());
        } else if wildcard && after < before {
            self.depths.remove(hostname.labels());
        }
    }
}

pub(crate) enum Change<V> {
    /// As it is now, changed in place or not there.
    Keep,
    Set(V),
    Remove,
}

impl<V> Default for Names<V> {
    fn default() -> Self {
        Self::new()
    }
}

/// Which depths occur, of labels or of path elements, so that the others need not be looked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Depths {
    used: u128,
    counts: Vec<u32>,
}

impl Depths {
    /// Everything deeper counts as this.
    const DEEPEST: usize = 127;

    pub(crate) const fn new() -> Self {
        Self { used: 0, counts: Vec::new() }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.used == 0
    }

    #[inline]
    pub(crate) fn has(&self, depth: usize) -> bool {
        self.used & (1 << depth.min(Self::DEEPEST)) != 0
    }

    pub(crate) fn add(&mut self, depth: usize) {
        let depth = depth.min(Self::DEEPEST);
        if self.counts.len() <= depth {
            self.counts.resize(depth + 1, 0);
        }
        self.counts[depth] += 1;
        self.used |= 1 << depth;
    }

    pub(crate) fn remove(&mut self, depth: usize) {
        let depth = depth.min(Self::DEEPEST);
        if let Some(count) = self.counts.get_mut(depth) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.used &= !(1 << depth);
            }
        }
    }
}
