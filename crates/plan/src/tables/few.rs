//! A sorted list that is hardly ever longer than one, kept so that the first element is where the list is.

#[derive(Clone, Debug)]
pub(crate) struct Few<T> {
    first: T,
    rest: Vec<T>,
}

impl<T> Few<T> {
    pub(crate) const fn new(first: T) -> Self {
        Self { first, rest: Vec::new() }
    }

    pub(crate) const fn first(&self) -> &T {
        &self.first
    }

    pub(crate) fn rest(&self) -> &[T] {
        &self.rest
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    pub(crate) fn find_mut(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        std::iter::once(&mut self.first).chain(&mut self.rest).find(|item| is(item))
    }

    /// Puts the item where `before` has it, behind its equals.
    pub(crate) fn insert(&mut self, item: T, before: impl Fn(&T, &T) -> bool) {
        if before(&item, &self.first) {
            self.rest.insert(0, std::mem::replace(&mut self.first, item));
        } else {
            let at = self.rest.partition_point(|other| !before(&item, other));
            self.rest.insert(at, item);
        }
    }

    /// Takes out what `gone` names; `false` when nothing would be left, and then the list is as it was.
    #[must_use]
    pub(crate) fn remove(&mut self, gone: impl Fn(&T) -> bool) -> bool {
        if gone(&self.first) && self.rest.iter().all(&gone) {
            return false;
        }
        self.rest.retain(|item| !gone(item));
        if gone(&self.first) {
            self.first = self.rest.remove(0);
        }
        true
    }
}
