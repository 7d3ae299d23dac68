//! Manifests from folders, files and standard input, as if a cluster held them.
//!
//! Every file is read for itself and keeps its own state; putting the files together is a second step that reads
//! nothing. When one of them changes, it is read again, and what comes out is the objects that differ.

mod added;
mod boundary;
mod file;
mod objects;
mod stamp;
mod trail;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;
use tidegate_api::{Kind, Object, ObjectKey, Problem, Severity, render};
use tidegate_plan::ObjectName;
use tidegate_translate::{Change, Resources};

use crate::output::{Error, Terminal};
use crate::source::added::manifest;
use crate::source::file::{File, line};
use crate::source::objects::Objects;
use crate::source::tree::{Tree, Work};

pub(crate) use crate::source::objects::FileId;
pub(crate) use crate::source::tree::{Unwatched, Watch};
pub(crate) use crate::source::walk::is_manifest;

#[derive(Debug)]
pub(crate) struct Manifests {
    tree: Tree,
    objects: Objects,
}

/// What came of reading files.
#[derive(Debug, Default)]
pub(crate) struct Update {
    pub(crate) changes: Vec<Change>,
    /// Files that were read, and those that are gone.
    pub(crate) files: BTreeSet<FileId>,
    /// What could not be looked at.
    pub(crate) failures: Vec<Error>,
}

impl Manifests {
    /// Reads once; what cannot be read is an error.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, Error> {
        let (manifests, update) = Self::open(paths, &mut Unwatched);
        match update.failures.into_iter().next() {
            Some(failure) => Err(failure),
            None => Ok(manifests),
        }
    }

    /// Reads what can be read, and has everything watched that may change it.
    pub(crate) fn open(paths: &[PathBuf], watch: &mut dyn Watch) -> (Self, Update) {
        let mut manifests = Self { tree: Tree::new(paths), objects: Objects::default() };
        let work = manifests.tree.walk(watch);
        let update = manifests.take(work, watch);
        (manifests, update)
    }

    /// Reads again what the changed entries of folders have to do with.
    pub(crate) fn changed(&mut self, entries: &BTreeSet<PathBuf>, watch: &mut dyn Watch) -> Update {
        let work = self.tree.changed(entries, watch);
        self.take(work, watch)
    }

    /// Finds out which files there are, and reads those that look different.
    pub(crate) fn look_again(&mut self, watch: &mut dyn Watch) -> Update {
        let work = self.tree.walk(watch);
        self.take(work, watch)
    }

    /// Reads all files again.
    pub(crate) fn read_again(&mut self, watch: &mut dyn Watch) -> Update {
        let mut work = self.tree.walk(watch);
        let files = self.objects.files().keys();
        // What came by standard input came once.
        work.read.extend(files.filter(|id| !work.gone.contains(id) && id.path() != "-").cloned());
        self.take(work, watch)
    }

    /// Takes the Secrets that we made in place of those before.
    pub(crate) fn provide(&mut self, made: BTreeMap<ObjectKey, Object>) -> Vec<Change> {
        self.objects.provide(made)
    }

    /// The Secrets that others wrote, be it wrongly.
    pub(crate) fn foreign_secrets(&self) -> BTreeSet<ObjectName> {
        self.objects.claimed(Kind::Secret).map(|key| key.name.clone()).collect()
    }

    fn take(&mut self, work: Work, watch: &mut dyn Watch) -> Update {
        let mut update = Update { failures: work.failures, ..Update::default() };
        let mut files: Vec<(FileId, Option<File>)> = work.gone.into_iter().map(|id| (id, None)).collect();
        for id in work.read {
            if let Some(file) = self.read_one(&id, watch, &mut update.failures) {
                files.push((id, Some(file)));
            }
        }
        update.files = files.iter().map(|(id, _)| id.clone()).collect();
        update.changes = self.objects.replace(files);
        update
    }

    fn read_one(&mut self, id: &FileId, watch: &mut dyn Watch, failures: &mut Vec<Error>) -> Option<File> {
        let origin = self.tree.origin(id)?;
        let before = self.objects.files().get(id);
        // A file whose data comes from a folder that is only now watched is read once more.
        for _ in 0..3 {
            self.tree.stamp(id);
            match file::read(&origin, before) {
                Ok(file) => {
                    if !self.tree.depends(id, &file.beside, watch) {
                        return Some(file);
                    }
                }
                Err(error) => {
                    let file = file::unreadable(&origin, &error, before);
                    failures.push(Error::Read { path: id.path().clone(), error });
                    return Some(file);
                }
            }
        }
        file::read(&origin, before).ok()
    }

    /// Everything that is valid, with what a cluster would have added.
    pub(crate) fn resources(&self) -> &Resources {
        self.objects.resources()
    }

    /// The objects that are used, as they were written and in that order, and those that were added.
    pub(crate) fn written(&self) -> impl Iterator<Item = (Option<&ObjectKey>, Value)> {
        let added = self.objects.added().filter_map(|(key, object)| Some((Some(key), manifest(&object)?)));
        self.as_written().chain(added)
    }

    /// Only those that somebody wrote.
    pub(crate) fn as_written(&self) -> impl Iterator<Item = (Option<&ObjectKey>, Value)> {
        let written = self.objects.files().iter().flat_map(move |(id, file)| {
            file.entries.iter().enumerate().filter(move |(number, entry)| match &entry.key {
                Some(key) => entry.object.is_some() && self.objects.is_first(key, id, *number),
                None => true,
            })
        });
        written.map(|(_, entry)| (entry.key.as_ref(), entry.node.to_json()))
    }

    /// What could not be read, with its place: an object, or a file where it cannot be told which.
    pub(crate) fn invalid(&self) -> impl Iterator<Item = (String, String)> {
        self.objects.files().iter().flat_map(move |(id, file)| {
            let problems = self.problems(id, file).into_iter();
            problems.filter(|problem| problem.severity == Severity::Error).map(|problem| {
                let what = if problem.object.is_empty() { file.name.to_string() } else { problem.object };
                (what, format!("{}:{}", file.name, line(&file.text, problem.span.start)))
            })
        })
    }

    /// The objects that are used in an earlier state, with what is wrong with the newer one.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (&ObjectKey, String)> {
        self.objects.files().values().flat_map(|file| {
            file.kept.iter().filter_map(|key| {
                let (problem, line) = file.first_error(Some(&key.to_string()))?;
                Some((key, format!("{}:{line}: {problem}", file.name)))
            })
        })
    }

    /// Shows what is wrong, file by file.
    pub(crate) fn report(&self, terminal: &mut Terminal) {
        for id in self.objects.files().keys() {
            if let Some(text) = self.complaint(id) {
                terminal.remark(text.trim_end());
                terminal.remark("");
            }
        }
    }

    /// What is wrong with a file, with the lines it is about.
    pub(crate) fn complaint(&self, id: &FileId) -> Option<String> {
        let file = self.objects.files().get(id)?;
        let problems = self.problems(id, file);
        (!problems.is_empty()).then(|| render(&file.name, &file.text, &problems, true))
    }

    /// The same in a line each: the place, what is wrong, and whether objects stay as they were.
    pub(crate) fn remarks(&self, id: &FileId) -> Vec<Remark> {
        let Some(file) = self.objects.files().get(id) else { return Vec::new() };
        let remark = |problem: Problem| Remark {
            place: format!("{}:{}", file.name, line(&file.text, problem.span.start)),
            kept: if problem.object.is_empty() {
                file.kept.len()
            } else {
                usize::from(file.kept.iter().any(|key| key.to_string() == problem.object))
            },
            problem,
        };
        self.problems(id, file).into_iter().map(remark).collect()
    }

    fn problems(&self, id: &FileId, file: &File) -> Vec<Problem> {
        let mut problems = file.problems.clone();
        problems.extend(self.objects.duplicates(id));
        problems
    }
}

/// One thing that is wrong with a file.
#[derive(Debug)]
pub(crate) struct Remark {
    /// `web.yaml:3`.
    pub(crate) place: String,
    pub(crate) problem: Problem,
    /// How many objects stay as they were because of it.
    pub(crate) kept: usize,
}
