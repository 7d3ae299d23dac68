//! Which version of each certificate's Secret is known, so that what others do to it is noticed, and what we do is not.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_plan::ObjectName;

#[derive(Debug, Default)]
pub(crate) struct Known {
    versions: BTreeMap<ObjectName, u64>,
    /// Those that are being written, with what the watch told meanwhile: a version, or that it is gone.
    writing: BTreeMap<ObjectName, Option<Option<u64>>>,
    changed: BTreeSet<ObjectName>,
}

impl Known {
    /// The watch tells of a Secret; `None`: that it is gone. Says whether somebody has to look.
    pub(crate) fn sighted(&mut self, name: &ObjectName, version: Option<u64>) -> bool {
        if let Some(meanwhile) = self.writing.get_mut(name) {
            *meanwhile = Some(version);
            return false;
        }
        let Some(known) = self.versions.get(name) else { return false };
        if version.is_some_and(|version| version <= *known) {
            return false;
        }
        self.changed.insert(name.clone())
    }

    pub(crate) fn begin(&mut self, name: &ObjectName) {
        self.writing.insert(name.clone(), None);
    }

    /// It is written in this version, or was not. Says whether somebody has to look.
    pub(crate) fn end(&mut self, name: &ObjectName, version: Option<u64>) -> bool {
        let meanwhile = self.writing.remove(name).flatten();
        if let Some(version) = version {
            self.versions.insert(name.clone(), version);
        }
        meanwhile.is_some_and(|version| self.sighted(name, version))
    }

    /// It was read in this version; `None`: it is not there, or not ours.
    pub(crate) fn read(&mut self, name: &ObjectName, version: Option<u64>) {
        match version {
            Some(version) => _ = self.versions.insert(name.clone(), version),
            None => _ = self.versions.remove(name),
        }
    }

    pub(crate) fn is_there(&self, name: &ObjectName) -> bool {
        self.versions.contains_key(name)
    }

    pub(crate) fn take_changed(&mut self) -> BTreeSet<ObjectName> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_do_is_noticed_and_what_we_do_is_not() {
        let (name, mut known) = (ObjectName::new("shop", "tls"), Known::default());
        assert!(!known.sighted(&name, Some(4)), "nobody's business");
        known.begin(&name);
        assert!(!known.sighted(&name, Some(5)));
        assert!(!known.end(&name, Some(5)), "it was our own");
        assert!(!known.sighted(&name, Some(5)));
        assert!(known.sighted(&name, Some(6)));
        assert!(!known.sighted(&name, Some(7)), "somebody is to look already");
        assert_eq!(known.take_changed(), BTreeSet::from([name.clone()]));
        known.read(&name, Some(7));
        assert!(known.sighted(&name, None), "it is gone");
        known.read(&name, None);
        assert!(!known.sighted(&name, None));
    }

    #[test]
    fn what_others_do_while_we_write_is_not_lost() {
        let (name, mut known) = (ObjectName::new("shop", "tls"), Known::default());
        known.begin(&name);
        known.sighted(&name, Some(9));
        assert!(known.end(&name, Some(8)), "after us");
        known.begin(&name);
        known.sighted(&name, None);
        assert!(!known.end(&name, Some(10)), "it is told already");
        assert_eq!(known.take_changed().len(), 1);
        known.begin(&name);
        known.sighted(&name, None);
        assert!(known.end(&name, None));
    }
}
