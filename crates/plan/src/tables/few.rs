//! A sorted list that is hardly ever longer than one, kept so that the first element is where the list is.

#[derive(Clone, Debug)]
pub(crate) struct Few<T> {
    first: T,
    /// Boxed, because it is hardly ever there.
    rest: Option<Box<Rest<T>>>,
}

#[derive(Clone, Debug)]
struct Rest<T>(Vec<T>);

impl<T> Few<T> {
    pub(crate) const fn new(first: T) -> Self {
        Self { first, rest: None }
    }

    pub(crate) const fn first(&self) -> &T {
        &self.first
    }

    pub(crate) fn rest(&self) -> &[T] {
        self.rest.as_ref().map_or(&[], |rest| &rest.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(self.rest())
    }

    pub(crate) fn find_mut(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let rest = self.rest.iter_mut().flat_map(|rest| &mut rest.0);
        std::iter::once(&mut self.first).chain(rest).find(|item| is(item))
    }

    /// Puts the item where `before` has it, behind its equals.
    pub(crate) fn insert(&mut self, item: T, before: impl Fn(&T, &T) -> bool) {
        let rest = &mut self.rest.get_or_insert_with(|| Box::new(Rest(Vec::new()))).0;
        if before(&item, &self.first) {
            rest.insert(0, std::mem::replace(&mut self.first, item));
        } else {
            let at = rest.partition_point(|other| !before(&item, other));
            rest.insert(at, item);
        }
    }

    /// Takes out what `gone` names; `false` when nothing would be left, and then the list is as it was.
    #[must_use]
    pub(crate) fn remove(&mut self, gone: impl Fn(&T) -> bool) -> bool {
        if gone(&self.first) && self.rest().iter().all(&gone) {
            return false;
        }
        if let Some(mut rest) = self.rest.take() {
            rest.0.retain(|item| !gone(item));
            if gone(&self.first) {
                self.first = rest.0.remove(0);
            }
            self.rest = Some(rest).filter(|rest| !rest.0.is_empty());
        }
        true
    }
}
