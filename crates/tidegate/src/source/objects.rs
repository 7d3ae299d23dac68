//! All files put together: which of several objects with one name counts, and what a cluster would have added.
//!
//! It reads nothing. It is told what a file holds now, and says which objects that changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_api::folder::{CLASS_NAME, default_class, duplicate, label, namespace};
use tidegate_api::{Kind, Object, ObjectKey, Problem};
use tidegate_plan::ObjectName;
use tidegate_translate::{Change, Resources};

use crate::source::file::{Entry, File};

/// Where a file stands in the order of all: the path that was asked for, then the file below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(Arc<(usize, PathBuf)>);

impl FileId {
    pub(crate) fn new(root: usize, path: PathBuf) -> Self {
        Self(Arc::new((root, path)))
    }

    pub(crate) fn root(&self) -> usize {
        self.0.0
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.0.1
    }
}

pub(crate) type Files = BTreeMap<FileId, File>;

/// An entry of a file. Of two that write one object, the first in this order is used.
type Place = (FileId, usize);

#[derive(Debug, Default)]
pub(crate) struct Objects {
    files: Files,
    /// Everything that is valid, with what a cluster would have added.
    resources: Resources,
    places: BTreeMap<ObjectKey, BTreeSet<Place>>,
    /// Objects that are written more than once.
    contested: BTreeSet<ObjectKey>,
    /// The EndpointSlices that each Service's annotation stands for.
    slices: BTreeMap<ObjectKey, BTreeMap<ObjectKey, Object>>,
    /// How many objects each namespace has.
    members: BTreeMap<Arc<str>, usize>,
    /// What nobody wrote.
    added: BTreeSet<ObjectKey>,
    /// Secrets of ours, used where nobody else wrote them.
    made: BTreeMap<ObjectKey, Object>,
}

impl Objects {
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }

    /// What nobody wrote and a cluster would have.
    pub(crate) fn added(&self) -> impl Iterator<Item = (&ObjectKey, Object)> {
        self.added.iter().filter_map(|key| Some((key, self.resources.get(key)?)))
    }

    /// Takes files in their new state, or as gone, and says what that changes.
    pub(crate) fn replace(&mut self, files: impl IntoIterator<Item = (FileId, Option<File>)>) -> Vec<Change> {
        let mut open = BTreeSet::from([class_key()]);
        for (id, new) in files {
            let old = match new {
                Some(new) => {
                    self.enter(&id, &new, &mut open);
                    self.files.insert(id.clone(), new)
                }
                None => self.files.remove(&id),
            };
            if let Some(old) = old {
                self.leave(&id, &old, &mut open);
            }
        }
        let mut changes = Vec::new();
        while let Some(key) = open.pop_first() {
            self.settle(key, &mut open, &mut changes);
        }
        changes
    }

    /// Takes the Secrets that we made in place of those before, and says what that changes.
    pub(crate) fn provide(&mut self, made: BTreeMap<ObjectKey, Object>) -> Vec<Change> {
        let before = std::mem::replace(&mut self.made, made);
        let mut open: BTreeSet<ObjectKey> = before.into_keys().chain(self.made.keys().cloned()).collect();
        let mut changes = Vec::new();
        while let Some(key) = open.pop_first() {
            self.settle(key, &mut open, &mut changes);
        }
        changes
    }

    /// What somebody wrote of a kind, be it wrongly.
    pub(crate) fn claimed(&self, kind: Kind) -> impl Iterator<Item = &ObjectKey> {
        let first = ObjectKey { kind, name: ObjectName::new("", "") };
        self.places.range(first..).map(|(key, _)| key).take_while(move |key| key.kind == kind)
    }

    /// Whether this entry is the one that counts for its object.
    pub(crate) fn is_first(&self, key: &ObjectKey, id: &FileId, number: usize) -> bool {
        let first = self.places.get(key).and_then(BTreeSet::first);
        first.is_some_and(|(first_id, first_number)| *first_number == number && first_id == id)
    }

    /// What is wrong with a file because of others: objects that are written before it.
    pub(crate) fn duplicates(&self, id: &FileId) -> Vec<Problem> {
        if self.contested.is_empty() {
            return Vec::new();
        }
        let Some(file) = self.files.get(id) else { return Vec::new() };
        let entries = file.entries.iter().enumerate();
        entries
            .filter_map(|(number, entry)| {
                let key = entry.key.as_ref().filter(|key| self.contested.contains(key))?;
                let (first, place) = self.places.get(key)?.first()?;
                if (first, *place) == (id, number) {
                    return None;
                }
                let first = self.files.get(first)?;
                let place = format!("{}:{}", first.name, first.entries.get(*place)?.line);
                Some(duplicate(key, &place, entry.node.span))
            })
            .collect()
    }

    fn enter(&mut self, id: &FileId, file: &File, open: &mut BTreeSet<ObjectKey>) {
        for (key, number) in keys(file) {
            let places = self.places.entry(key.clone()).or_default();
            places.insert((id.clone(), number));
            if places.len() > 1 {
                self.contested.insert(key.clone());
            }
            open.insert(key.clone());
        }
    }

    /// Takes the places away that a file had and has no more.
    fn leave(&mut self, id: &FileId, old: &File, open: &mut BTreeSet<ObjectKey>) {
        let now = self.files.get(id);
        for (key, number) in keys(old) {
            let still = now
                .and_then(|file| file.entries.get(number))
                .is_some_and(|entry| entry.key.as_ref() == Some(key));
            if still {
                continue;
            }
            let Some(places) = self.places.get_mut(key) else { continue };
            places.remove(&(id.clone(), number));
            if places.len() < 2 {
                self.contested.remove(key);
            }
            if places.is_empty() {
                self.places.remove(key);
            }
            open.insert(key.clone());
        }
    }

    /// Brings one object up to date; `open` takes those that depend on it.
    fn settle(&mut self, key: ObjectKey, open: &mut BTreeSet<ObjectKey>, changes: &mut Vec<Change>) {
        if key.kind == Kind::Service {
            self.settle_slices(&key, open);
        }
        let written = self.written(&key);
        let is_written = written.is_some();
        let new = written.or_else(|| self.addition(&key));
        if new.is_some() && !is_written {
            self.added.insert(key.clone());
        } else {
            self.added.remove(&key);
        }
        let old = self.resources.get(&key);
        if old == new {
            return;
        }
        if old.is_some() != new.is_some() && key.kind.is_namespaced() {
            self.count(&key.name.namespace, new.is_some(), open);
        }
        changes.push(match new {
            Some(object) => {
                self.resources.insert(object.clone());
                Change::Upsert(object)
            }
            None => {
                self.resources.remove(&key);
                Change::Remove(key)
            }
        });
    }

    fn first(&self, key: &ObjectKey) -> Option<&Arc<Entry>> {
        let (id, number) = self.places.get(key)?.first()?;
        self.files.get(id)?.entries.get(*number)
    }

    fn written(&self, key: &ObjectKey) -> Option<Object> {
        let mut object = self.first(key)?.object.clone()?;
        if let Object::Namespace(namespace) = &mut object {
            label(Arc::make_mut(namespace));
        }
        Some(object)
    }

    /// What a cluster would have under this name.
    fn addition(&self, key: &ObjectKey) -> Option<Object> {
        match key.kind {
            Kind::GatewayClass if &*key.name.name == CLASS_NAME => Some(default_class()),
            Kind::Namespace if self.members.contains_key(&key.name.name) => {
                Some(namespace(Arc::clone(&key.name.name)))
            }
            Kind::Secret if !self.places.contains_key(key) => self.made.get(key).cloned(),
            // A slice that was written under the same name goes first, also one that is wrong.
            Kind::EndpointSlice if !self.places.contains_key(key) => {
                self.slices.get(&service_of(key)?)?.get(key).cloned()
            }
            _ => None,
        }
    }

    fn settle_slices(&mut self, service: &ObjectKey, open: &mut BTreeSet<ObjectKey>) {
        let slices = self.first(service).map_or(&[][..], |entry| &entry.slices);
        let slices = slices.iter().map(|slice| Object::EndpointSlice(Arc::new(slice.clone())));
        let new: BTreeMap<ObjectKey, Object> = slices.map(|slice| (slice.key(), slice)).collect();
        open.extend(new.keys().cloned());
        let old = if new.is_empty() {
            self.slices.remove(service)
        } else {
            self.slices.insert(service.clone(), new)
        };
        open.extend(old.into_iter().flat_map(BTreeMap::into_keys));
    }

    fn count(&mut self, name: &Arc<str>, more: bool, open: &mut BTreeSet<ObjectKey>) {
        let members = self.members.entry(Arc::clone(name)).or_default();
        let before = *members;
        *members = if more { before + 1 } else { before.saturating_sub(1) };
        if before == 0 || *members == 0 {
            open.insert(ObjectKey { kind: Kind::Namespace, name: ObjectName::new("", Arc::clone(name)) });
        }
        if *members == 0 {
            self.members.remove(name);
        }
    }
}

fn keys(file: &File) -> impl Iterator<Item = (&ObjectKey, usize)> {
    file.entries.iter().enumerate().filter_map(|(number, entry)| Some((entry.key.as_ref()?, number)))
}

fn class_key() -> ObjectKey {
    ObjectKey { kind: Kind::GatewayClass, name: ObjectName::new("", CLASS_NAME) }
}

/// The Service whose annotation gives a slice of this name: `web` for `web-endpoints-0`.
fn service_of(slice: &ObjectKey) -> Option<ObjectKey> {
    let (service, _) = slice.name.name.rsplit_once("-endpoints-")?;
    Some(ObjectKey { kind: Kind::Service, name: ObjectName::new(Arc::clone(&slice.name.namespace), service) })
}
