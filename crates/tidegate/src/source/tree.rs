//! Which files there are, and which of them to read again when an entry of a folder has changed.
//!
//! It knows paths and what decides about them; what the files say is not its business. Entries are named as in
//! `trail`: by the resolved path of their folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::output::Error;
use crate::source::boundary::Boundary;
use crate::source::file::Origin;
use crate::source::objects::FileId;
use crate::source::stamp::Stamp;
use crate::source::trail::trail;
use crate::source::walk::{Walk, is_hidden, is_manifest, walk};

/// Is told of each folder whose entries matter, before they are looked at.
pub(crate) trait Watch {
    /// Whether it was not watched before.
    fn watch(&mut self, folder: &Path) -> bool;
    /// Ends the watch over folders that no longer matter.
    fn retain(&mut self, keep: &dyn Fn(&Path) -> bool);
}

/// For those who read once.
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    fn watch(&mut self, _: &Path) -> bool {
        false
    }

    fn retain(&mut self, _: &dyn Fn(&Path) -> bool) {}
}

#[derive(Debug)]
pub(crate) struct Tree {
    roots: Vec<PathBuf>,
    files: BTreeMap<FileId, Known>,
    /// The folders that were walked, resolved, and how they were reached.
    folders: BTreeMap<PathBuf, Vec<(usize, PathBuf)>>,
    /// Who is to look again when an entry changes.
    concerns: BTreeMap<PathBuf, BTreeSet<Concern>>,
    aliased: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Concern {
    File(FileId),
    /// Which files there are.
    Walk,
}

#[derive(Debug)]
struct Known {
    origin: Origin,
    /// The entries that decide what it holds; the first is its own.
    entries: Vec<PathBuf>,
    /// Those of the files beside it.
    beside: Vec<PathBuf>,
    stamps: Vec<Option<Stamp>>,
}

/// What is to be read, and what is gone.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) read: BTreeSet<FileId>,
    pub(crate) gone: BTreeSet<FileId>,
    pub(crate) failures: Vec<Error>,
}

impl Tree {
    /// Nothing is known of it before the first `walk`.
    pub(crate) fn new(roots: &[PathBuf]) -> Self {
        Self {
            roots: roots.to_vec(),
            files: BTreeMap::new(),
            folders: BTreeMap::new(),
            concerns: BTreeMap::new(),
            aliased: false,
        }
    }

    pub(crate) fn origin(&self, id: &FileId) -> Option<Origin> {
        self.files.get(id).map(|known| known.origin.clone())
    }

    /// What follows from changed entries. Most are files of which that is clear at once; the rest takes a walk.
    pub(crate) fn changed(&mut self, entries: &BTreeSet<PathBuf>, watch: &mut dyn Watch) -> Work {
        let mut work = Work::default();
        for entry in entries {
            if !self.look_at(entry, &mut work) {
                let mut walked = self.walk(watch);
                work.read.append(&mut walked.read);
                work.gone.append(&mut walked.gone);
                work.failures.append(&mut walked.failures);
                work.read.retain(|id| self.files.contains_key(id));
                // The walk has seen to folders and new files; a known file may have changed within one tick of the clock.
                for entry in entries {
                    work.read.extend(self.files_concerned(entry));
                }
                break;
            }
        }
        work
    }

    fn files_concerned(&self, entry: &Path) -> impl Iterator<Item = FileId> {
        self.concerns.get(entry).into_iter().flatten().filter_map(|concern| match concern {
            Concern::File(id) => Some(id.clone()),
            Concern::Walk => None,
        })
    }

    /// Whether it is clear what one changed entry means.
    fn look_at(&mut self, entry: &Path, work: &mut Work) -> bool {
        let concerns = self.concerns.get(entry);
        if concerns.is_some_and(|concerns| concerns.contains(&Concern::Walk)) {
            return false;
        }
        work.read.extend(self.files_concerned(entry));
        let name = Path::new(entry.file_name().unwrap_or_default());
        let Some(reached) = entry.parent().and_then(|folder| self.folders.get(folder)) else { return true };
        if is_hidden(name) {
            return true;
        }
        let metadata = fs::symlink_metadata(entry);
        let known = self.concerns.contains_key(entry);
        let ids: Vec<FileId> =
            reached.iter().map(|(root, folder)| FileId::new(*root, folder.join(name))).collect();
        match metadata {
            Ok(metadata) if metadata.is_file() => {
                let was_link = ids.iter().filter_map(|id| self.files.get(id)).any(Known::is_link);
                if self.aliased && was_link {
                    // Where it led is read under another name now.
                    return false;
                }
                if !is_manifest(name) || ids.iter().all(|id| self.files.contains_key(id)) {
                    return true;
                }
                if known || self.aliased {
                    return false;
                }
                ids.into_iter().all(|id| self.add(id, entry, work))
            }
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if known && self.aliased {
                    return false;
                }
                for id in ids {
                    if self.forget(&id) {
                        work.read.remove(&id);
                        work.gone.insert(id);
                    }
                }
                true
            }
            Err(_) => true,
        }
    }

    fn add(&mut self, id: FileId, entry: &Path, work: &mut Work) -> bool {
        let Ok(boundary) =
            self.roots.get(id.root()).map_or(Err(io::ErrorKind::NotFound.into()), |root| Boundary::new(root))
        else {
            return false;
        };
        let origin = Origin::File { path: id.path().clone(), boundary };
        work.gone.remove(&id);
        work.read.insert(id.clone());
        self.remember(id, origin, vec![entry.to_owned()]);
        true
    }

    /// Finds out anew which files there are, and which of them have changed since they were read.
    pub(crate) fn walk(&mut self, watch: &mut dyn Watch) -> Work {
        let mut work = Work::default();
        self.folders.clear();
        self.aliased = false;
        for concerns in self.concerns.values_mut() {
            concerns.remove(&Concern::Walk);
        }
        let mut gone: BTreeSet<FileId> = self.files.keys().cloned().collect();
        for root in 0..self.roots.len() {
            self.walk_root(root, watch, &mut gone, &mut work);
        }
        // What cannot be looked at is not gone: it stays as it was.
        for failure in &work.failures {
            if let Error::Read { path, error } = failure
                && error.kind() != io::ErrorKind::NotFound
            {
                gone.retain(|id| !id.path().starts_with(path));
            }
        }
        for id in gone {
            self.forget(&id);
            work.gone.insert(id);
        }
        self.concerns.retain(|_, concerns| !concerns.is_empty());
        let Self { folders, concerns, .. } = self;
        let watched: BTreeSet<&Path> = folders
            .keys()
            .map(PathBuf::as_path)
            .chain(concerns.keys().filter_map(|entry| entry.parent()))
            .collect();
        watch.retain(&|folder| watched.contains(folder));
        work
    }

    fn walk_root(
        &mut self,
        root: usize,
        watch: &mut dyn Watch,
        gone: &mut BTreeSet<FileId>,
        work: &mut Work,
    ) {
        let path = self.roots[root].clone();
        if path == Path::new("-") {
            let id = FileId::new(root, path);
            gone.remove(&id);
            if !self.files.contains_key(&id) {
                self.remember(id.clone(), Origin::StandardInput, Vec::new());
                work.read.insert(id);
            }
            return;
        }
        let within = path.canonicalize().unwrap_or_default();
        let entries = trail(&std::env::current_dir().unwrap_or_default(), &path, &within);
        self.concern(&entries, &Concern::Walk, watch);
        let found = fs::metadata(&path).and_then(|metadata| {
            let folder =
                path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let boundary = Boundary::new(if metadata.is_dir() { &path } else { folder })?;
            Ok((metadata.is_dir(), boundary))
        });
        match found {
            Ok((true, boundary)) => {
                let walked = walk(&path, &mut |folder| {
                    watch.watch(folder);
                });
                self.take(root, walked, &boundary, watch, gone, work);
            }
            Ok((false, boundary)) => {
                let id = FileId::new(root, path.clone());
                self.found(id, Origin::File { path, boundary }, entries, gone, work);
            }
            // A folder on its way to being replaced by another: everything stays until that is there.
            Err(error) => {
                gone.retain(|id| id.root() != root);
                work.failures.push(Error::Read { path, error });
            }
        }
    }

    fn take(
        &mut self,
        root: usize,
        walked: Walk,
        boundary: &Boundary,
        watch: &mut dyn Watch,
        gone: &mut BTreeSet<FileId>,
        work: &mut Work,
    ) {
        self.aliased |= walked.aliased;
        for (resolved, path) in walked.folders {
            self.folders.entry(resolved).or_default().push((root, path));
        }
        self.concern(&walked.entries, &Concern::Walk, watch);
        for manifest in walked.manifests {
            let id = FileId::new(root, manifest.path.clone());
            let origin = Origin::File { path: manifest.path, boundary: boundary.clone() };
            self.found(id, origin, manifest.entries, gone, work);
        }
        work.failures.extend(walked.failures);
    }

    fn found(
        &mut self,
        id: FileId,
        origin: Origin,
        entries: Vec<PathBuf>,
        gone: &mut BTreeSet<FileId>,
        work: &mut Work,
    ) {
        gone.remove(&id);
        let unchanged =
            self.files.get(&id).is_some_and(|known| known.entries == entries && known.is_unchanged());
        if !unchanged {
            work.read.insert(id.clone());
            self.remember(id, origin, entries);
        }
    }

    fn remember(&mut self, id: FileId, origin: Origin, entries: Vec<PathBuf>) {
        self.forget(&id);
        for entry in &entries {
            self.concerns.entry(entry.clone()).or_default().insert(Concern::File(id.clone()));
        }
        self.files.insert(id, Known { origin, entries, beside: Vec::new(), stamps: Vec::new() });
    }

    fn forget(&mut self, id: &FileId) -> bool {
        let Some(known) = self.files.remove(id) else { return false };
        self.release(id, known.entries.iter().chain(&known.beside));
        true
    }

    fn release<'a>(&mut self, id: &FileId, entries: impl Iterator<Item = &'a PathBuf>) {
        for entry in entries {
            if let Some(concerns) = self.concerns.get_mut(entry) {
                concerns.remove(&Concern::File(id.clone()));
                if concerns.is_empty() {
                    self.concerns.remove(entry);
                }
            }
        }
    }

    /// Before a file is read: the state that is read, or an older one.
    pub(crate) fn stamp(&mut self, id: &FileId) {
        let Some(known) = self.files.get_mut(id) else { return };
        let own = known.entries.first().and_then(|own| Some((own.parent()?, Path::new(own.file_name()?))));
        if let (Some((folder, name)), true) = (own, known.is_link()) {
            let entries = trail(folder, name, folder);
            let old = std::mem::replace(&mut known.entries, entries.clone());
            known.stamps = known.stamps_now();
            self.release(id, old.iter());
            for entry in entries {
                self.concerns.entry(entry).or_default().insert(Concern::File(id.clone()));
            }
        } else {
            known.stamps = known.stamps_now();
        }
    }

    /// After it was read: the files it takes data from. Whether a watch over one of their folders is new, so that a
    /// change may have been missed.
    pub(crate) fn depends(&mut self, id: &FileId, paths: &[PathBuf], watch: &mut dyn Watch) -> bool {
        let Some(known) = self.files.get_mut(id) else { return false };
        let within = match &known.origin {
            Origin::File { boundary, .. } => boundary.root().to_owned(),
            Origin::StandardInput => return false,
        };
        let mut is_new = false;
        // A manifest that is a link is watched where the link leads.
        if known.is_link() {
            is_new |= known
                .entries
                .iter()
                .filter_map(|entry| entry.parent())
                .fold(false, |new, folder| watch.watch(folder) | new);
        }
        let here = std::env::current_dir().unwrap_or_default();
        let mut beside: Vec<PathBuf> = paths.iter().flat_map(|path| trail(&here, path, &within)).collect();
        beside.sort();
        beside.dedup();
        for folder in beside.iter().filter_map(|entry| entry.parent()) {
            is_new |= watch.watch(folder);
        }
        if known.beside != beside {
            let old = std::mem::replace(&mut known.beside, beside.clone());
            known.stamps = known.stamps_now();
            let own = known.entries.clone();
            self.release(id, old.iter().filter(|entry| !own.contains(entry)));
            for entry in beside {
                self.concerns.entry(entry).or_default().insert(Concern::File(id.clone()));
            }
            is_new = true;
        }
        is_new
    }

    fn concern(&mut self, entries: &[PathBuf], concern: &Concern, watch: &mut dyn Watch) {
        for entry in entries {
            if let Some(folder) = entry.parent() {
                watch.watch(folder);
            }
            self.concerns.entry(entry.clone()).or_default().insert(concern.clone());
        }
    }
}

impl Known {
    fn is_link(&self) -> bool {
        self.entries.len() > 1
    }

    fn stamps_now(&self) -> Vec<Option<Stamp>> {
        self.entries.iter().chain(&self.beside).map(|entry| Stamp::of(entry)).collect()
    }

    fn is_unchanged(&self) -> bool {
        let now = self.stamps_now();
        self.stamps == now && now.iter().flatten().all(Stamp::is_settled)
    }
}
