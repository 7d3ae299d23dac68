//! Manifests from folders, files and standard input, as if a cluster held them.
//!
//! Every file is read for itself and keeps its own state; putting the files together is a second step that reads
//! nothing.

mod added;
mod boundary;
mod file;
mod walk;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tidegate_api::folder::duplicates;
use tidegate_api::{Object, ObjectKey, Problem, Severity, render};
use tidegate_translate::Resources;

use crate::output::{Error, Terminal};
use crate::source::added::{manifest, with_additions};
use crate::source::boundary::Boundary;
use crate::source::file::{File, Origin, line};

pub(crate) struct Manifests {
    files: Vec<File>,
    /// Everything that is valid, with what a cluster would have added.
    pub(crate) resources: Resources,
    /// What was added, in the order of kinds and names.
    added: Vec<(ObjectKey, Value)>,
    /// Where each object was first written: the file and the entry in it.
    first: BTreeMap<ObjectKey, (usize, usize)>,
}

impl Manifests {
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut files = Vec::new();
        for path in paths {
            for origin in origins(path)? {
                files.push(file::read(&origin)?);
            }
        }
        Ok(Self::together(files))
    }

    /// Of two objects with one name the first is kept.
    fn together(mut files: Vec<File>) -> Self {
        let first = keep_first(&mut files);
        let mut objects = Vec::new();
        let mut slices = Vec::new();
        for &(file, entry) in first.values() {
            let entry = &files[file].entries[entry];
            objects.extend(entry.object.clone());
            // A slice that was written under the same name goes first, as everything does.
            let slices_of_entry =
                entry.slices.iter().cloned().map(|slice| Object::EndpointSlice(Arc::new(slice)));
            slices.extend(slices_of_entry.filter(|slice| !first.contains_key(&slice.key())));
        }
        let (objects, mut added) = with_additions(objects);
        added.extend(slices.iter().filter_map(|slice| Some((slice.key(), manifest(slice)?))));
        let mut resources = Resources::default();
        for object in objects.into_iter().chain(slices) {
            resources.insert(object);
        }
        Self { files, resources, added, first }
    }

    /// The objects that are used, as they were written and in that order, and those that were added.
    pub(crate) fn written(&self) -> impl Iterator<Item = (Option<&ObjectKey>, Value)> {
        let written = self.files.iter().enumerate().flat_map(move |(index, file)| {
            file.entries.iter().enumerate().filter(move |(number, entry)| match &entry.key {
                Some(key) => entry.object.is_some() && self.first.get(key) == Some(&(index, *number)),
                None => true,
            })
        });
        written
            .map(|(_, entry)| (entry.key.as_ref(), entry.node.to_json()))
            .chain(self.added.iter().map(|(key, value)| (Some(key), value.clone())))
    }

    /// What could not be read, with its place: an object, or a file where it cannot be told which.
    pub(crate) fn invalid(&self) -> impl Iterator<Item = (String, String)> {
        self.files.iter().flat_map(|file| {
            file.problems.iter().filter(|problem| problem.severity == Severity::Error).map(|problem| {
                let what =
                    if problem.object.is_empty() { file.name.to_string() } else { problem.object.clone() };
                (what, Place { file, at: problem.span.start }.to_string())
            })
        })
    }

    /// Shows what is wrong, file by file.
    pub(crate) fn report(&self, terminal: &mut Terminal) {
        for file in &self.files {
            if !file.problems.is_empty() {
                terminal.remark(render(&file.name, &file.text, &file.problems, true).trim_end());
                terminal.remark("");
            }
        }
    }
}

fn origins(path: &Path) -> Result<Vec<Origin>, Error> {
    if path == Path::new("-") {
        return Ok(vec![Origin::StandardInput]);
    }
    let failed = |error| Error::Read { path: path.to_owned(), error };
    if std::fs::metadata(path).map_err(failed)?.is_dir() {
        let boundary = Boundary::new(path).map_err(failed)?;
        let files = walk::manifests(path)?.into_iter();
        return Ok(files.map(|path| Origin::File { path, boundary: boundary.clone() }).collect());
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let boundary = Boundary::new(folder).map_err(failed)?;
    Ok(vec![Origin::File { path: path.to_owned(), boundary }])
}

/// Where each object is written first; what is written again is a problem of its file.
fn keep_first(files: &mut [File]) -> BTreeMap<ObjectKey, (usize, usize)> {
    let mut first = BTreeMap::new();
    let mut objects = Vec::new();
    let mut owners = Vec::new();
    for (index, file) in files.iter().enumerate() {
        for (number, entry) in file.entries.iter().enumerate() {
            let Some(key) = &entry.key else { continue };
            objects.push((key.clone(), Place { file, at: entry.node.span.start }, entry.node.span));
            owners.push(index);
            first.entry(key.clone()).or_insert((index, number));
        }
    }
    let again: Vec<(usize, Problem)> = duplicates(&objects)
        .into_iter()
        .map(|duplicate| (owners[duplicate.index], duplicate.problem))
        .collect();
    for (owner, problem) in again {
        files[owner].problems.push(problem);
    }
    first
}

/// `web.yaml:3`; the line is counted only when somebody asks.
struct Place<'a> {
    file: &'a File,
    at: usize,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.name, line(&self.file.text, self.at))
    }
}
