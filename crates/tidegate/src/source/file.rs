//! One file of manifests: what it holds and what is wrong with it, without a look at any other.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_api::core::EndpointSlice;
use tidegate_api::{Node, Object, ObjectKey, Problem, Reading, Severity, Span, folder, read_object, yaml};

use crate::output::Error;
use crate::source::boundary::Boundary;

/// Many thousand objects fit; what is larger was not meant.
const MAX_BYTES: u64 = 256 << 20;

/// The state of a file. When it changes, it is read again and nothing else is.
pub(crate) struct File {
    /// As it was named, for people.
    pub(crate) name: Arc<str>,
    pub(crate) text: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
}

/// One object as it was written.
pub(crate) struct Entry {
    /// `None` for kinds that are not used here.
    pub(crate) key: Option<ObjectKey>,
    /// `None` where it is invalid.
    pub(crate) object: Option<Object>,
    /// What the annotation of a Service stands for.
    pub(crate) slices: Vec<EndpointSlice>,
    pub(crate) node: Node,
}

/// Where a file comes from, and what it may refer to.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    StandardInput,
    File { path: PathBuf, boundary: Boundary },
}

impl Origin {
    fn name(&self) -> String {
        match self {
            Self::StandardInput => "<stdin>".to_owned(),
            Self::File { path, .. } => path.display().to_string(),
        }
    }

    fn read(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Self::StandardInput => std::io::stdin().take(MAX_BYTES + 1).read_to_end(&mut bytes)?,
            Self::File { path, .. } => {
                std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?
            }
        };
        if bytes.len() as u64 > MAX_BYTES {
            return Err(std::io::Error::other("it is larger than 256 MiB"));
        }
        Ok(bytes)
    }

    /// A file that an object of this one names, or what is wrong with it and what to do.
    fn beside(&self, name: &str) -> Result<Vec<u8>, (String, &'static str)> {
        match self {
            Self::StandardInput => {
                let message = format!("`{name}` is beside no manifest: this one comes from standard input");
                Err((message, "name the file or folder of the manifests instead of `-`"))
            }
            Self::File { path, boundary } => boundary
                .read_beside(path, name)
                .map_err(|message| (message, "put the file into the folder of the manifests")),
        }
    }
}

pub(crate) fn read(origin: &Origin) -> Result<File, Error> {
    let name = origin.name();
    let bytes = origin.read().map_err(|error| Error::Read { path: PathBuf::from(&name), error })?;
    let mut file = File { name: name.into(), text: String::new(), entries: Vec::new(), problems: Vec::new() };
    match String::from_utf8(bytes) {
        Ok(text) => file.text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            file.text = String::from_utf8_lossy(&error.into_bytes()).into_owned();
            file.problems.push(not_utf8(valid));
            return Ok(file);
        }
    }
    file.read_objects(origin);
    Ok(file)
}

impl File {
    fn read_objects(&mut self, origin: &Origin) {
        let (documents, problems) = yaml::documents(&self.text);
        self.problems = problems;
        for document in documents {
            let (nodes, problems) = tidegate_api::objects(document);
            self.problems.extend(problems);
            for node in nodes {
                let entry = self.entry(node, origin);
                self.entries.push(entry);
            }
        }
    }

    fn entry(&mut self, node: Node, origin: &Origin) -> Entry {
        let Reading { object, key, problems } = read_object(&node);
        self.problems.extend(problems);
        let object = object.and_then(|object| self.with_files(object, &node, origin));
        let mut slices = Vec::new();
        if let Some(Object::Service(service)) = &object {
            let (found, problems) = folder::endpoint_slices(service, &node);
            slices = found;
            self.problems.extend(problems);
        }
        Entry { key, object, slices, node }
    }

    /// The object with the data that its annotation takes from files; nothing, where one is not to be had.
    fn with_files(&mut self, mut object: Object, node: &Node, origin: &Origin) -> Option<Object> {
        let (files, mut problems) = folder::data_files(&object, node);
        for file in files {
            match origin.beside(&file.path) {
                Ok(content) => folder::add_file(&mut object, &file.key, content),
                Err((message, help)) => problems.push(no_file(&object, node, message, help)),
            }
        }
        let good = problems.is_empty();
        self.problems.append(&mut problems);
        good.then_some(object)
    }
}

fn no_file(object: &Object, node: &Node, message: String, help: &str) -> Problem {
    let field = format!("metadata.annotations[{:?}]", folder::FILES_ANNOTATION);
    Problem {
        severity: Severity::Error,
        rule: "files_annotation",
        object: object.key().to_string(),
        span: node.nearest(&field).span,
        field,
        message,
        help: help.to_owned(),
    }
}

fn not_utf8(at: usize) -> Problem {
    Problem {
        severity: Severity::Error,
        rule: "utf-8",
        object: String::new(),
        field: String::new(),
        span: Span { start: at, end: at + 1 },
        message: "the file is not UTF-8 from here on".to_owned(),
        help: "save it as UTF-8".to_owned(),
    }
}

/// The line of a byte, counted from 1.
pub(crate) fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}
