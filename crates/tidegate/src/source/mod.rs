//! Manifests from folders, files and standard input, as if a cluster held them.
//!
//! Every file is read for itself and keeps its own state; putting the files together is a second step that reads
//! nothing.

mod boundary;
pub(crate) mod file;
mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_api::{ObjectKey, Problem, Severity};
use tidegate_translate::Resources;

use crate::output::{Error, Terminal};
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
        let mut first: BTreeMap<ObjectKey, (usize, usize)> = BTreeMap::new();
        let mut again: Vec<(usize, Problem)> = Vec::new();
        for (index, file) in files.iter().enumerate() {
            for (number, entry) in file.entries.iter().enumerate() {
                let Some(key) = &entry.key else { continue };
                if let Some(&(other, place)) = first.get(key) {
                    let other = &files[other];
                    let line = line(&other.text, other.entries[place].node.span.start);
                    again.push((index, twice(key, entry.node.span, &format!("{}:{line}", other.name))));
                } else {
                    first.insert(key.clone(), (index, number));
                }
            }
        }
        for (index, problem) in again {
            files[index].problems.push(problem);
        }
        let mut resources = Resources::default();
        for &(file, entry) in first.values() {
            if let Some(object) = &files[file].entries[entry].object {
                resources.insert(object.clone());
            }
        }
        let added = crate::stand_in::fill_in(&mut resources);
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
                (what, format!("{}:{}", file.name, line(&file.text, problem.span.start)))
            })
        })
    }

    /// Shows what is wrong, file by file.
    pub(crate) fn report(&self, terminal: &mut Terminal) {
        for file in &self.files {
            if !file.problems.is_empty() {
                terminal.remark(&crate::stand_in::render(&file.name, &file.text, &file.problems));
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

fn twice(key: &ObjectKey, span: tidegate_api::Span, first: &str) -> Problem {
    Problem {
        severity: Severity::Error,
        rule: "duplicate-object",
        object: key.to_string(),
        field: String::new(),
        span,
        message: format!("{key} is written a second time"),
        help: format!("the first is at {first} and is kept; remove one of them, or rename it"),
    }
}
