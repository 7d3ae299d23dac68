//! What is said for which hostnames, found for a name from the most specific hostname down.
//!
//! A lookup hashes the name once, and on the way to that hash finds those of what follows its dots, as far as some
//! wildcard has as many labels: its cost does not depend on how many hostnames there are.

use crate::tables::index::Index;
use crate::tables::print::{Begun, Print};
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
        if let Some(name) = name
            && let Some(taken) = self.find_named(name.as_bytes(), &mut take)
        {
            return Some(taken);
        }
        self.any.as_ref().and_then(|value| take(Specificity::Any, value))
    }

    #[inline]
    fn find_named<'t, R>(
        &'t self,
        name: &[u8],
        take: &mut impl FnMut(Specificity, &'t V) -> Option<R>,
    ) -> Option<R> {
        if self.depths.is_empty() {
            if self.exact.is_empty() {
                return None;
            }
            return self.find_exact(Print::of(name), name).and_then(|value| take(Specificity::Exact, value));
        }
        let mut above = usize::MAX;
        loop {
            let mut parents = Parents::default();
            let begun = Begun::of_name(name, |labels, ending| {
                if labels < above && self.depths.has(labels) {
                    parents.push(Parent { labels, length: ending.length(), begun: ending.begin() });
                }
            });
            if above == usize::MAX
                && self.exact.may_have(begun.place)
                && let Some(value) = self.find_exact(begun.whole(), name)
                && let Some(taken) = take(Specificity::Exact, value)
            {
                return Some(taken);
            }
            // All are asked before any is answered to: what takes time is memory, which can be read for all at once.
            let mut likely = parents.longest_first().enumerate().fold(0_u32, |likely, (at, parent)| {
                likely | u32::from(self.wildcard.may_have(parent.begun.place)) << at
            });
            while likely != 0 {
                let Parent { labels, length, begun } = parents.longest(likely.trailing_zeros() as usize);
                let base = &name[name.len() - length..];
                if let Some(value) = self.wildcard.get(begun.whole(), |key| key.as_bytes() == base)
                    && let Some(taken) = take(Specificity::Wildcard(labels as u8), value)
                {
                    return Some(taken);
                }
                likely &= likely - 1;
            }
            if parents.count <= AT_ONCE {
                return None;
            }
            above = parents.longest(AT_ONCE - 1).labels;
        }
    }

    #[inline]
    fn find_exact(&self, print: Print, name: &[u8]) -> Option<&V> {
        self.exact.get(print, |key| key.as_bytes() == name)
    }

    /// In no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &V> {
        self.exact.values().chain(self.wildcard.values()).chain(&self.any)
    }
}

/// The longest of what follows dots in a name and a wildcard may be for.
#[derive(Default)]
struct Parents {
    latest: [Parent; AT_ONCE],
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct Parent {
    labels: usize,
    length: usize,
    begun: Begun,
}

const AT_ONCE: usize = 4;

impl Parents {
    #[inline]
    const fn push(&mut self, parent: Parent) {
        self.latest[self.count % AT_ONCE] = parent;
        self.count += 1;
    }

    #[inline]
    fn longest_first(&self) -> impl Iterator<Item = Parent> {
        (0..self.count.min(AT_ONCE)).map(|at| self.longest(at))
    }

    #[inline]
    const fn longest(&self, at: usize) -> Parent {
        self.latest[self.count.wrapping_sub(at + 1) % AT_ONCE]
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_said_is_offered_the_most_specific_first() {
        let hostnames: Vec<String> = (1..8).map(|labels| format!("*{}", ".a".repeat(labels))).collect();
        let mut names = Names::new();
        for hostname in hostnames.iter().map(String::as_str).chain([".a".repeat(6)[1..].as_ref()]) {
            names.change(Some(&Hostname::parse(hostname).unwrap()), |_| Change::Set(hostname.to_owned()));
        }
        names.change(None, |_| Change::Set("any".to_owned()));
        for labels in 1..12 {
            let name = ".a".repeat(labels)[1..].to_owned();
            let mut offered = Vec::new();
            let taken = names.find(Name::from_sni(&name).as_ref(), |specificity, hostname| {
                offered.push((specificity, hostname.as_str()));
                None::<()>
            });
            assert_eq!(taken, None);
            let exact = (labels == 6).then(|| (Specificity::Exact, &*name));
            let wildcards = (1..labels.min(8)).rev();
            let wildcards = wildcards.map(|at| (Specificity::Wildcard(at as u8), &*hostnames[at - 1]));
            let expected: Vec<_> =
                exact.into_iter().chain(wildcards).chain([(Specificity::Any, "any")]).collect();
            assert_eq!(offered, expected, "{name}");
        }
    }
}
