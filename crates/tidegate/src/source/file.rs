//! One file of manifests: what it holds and what is wrong with it, without a look at any other.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_api::{Node, Object, ObjectKey, Problem, Severity, Span, read_object, yaml};

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

    /// A file that an object of this one names.
    pub(crate) fn beside(&self, name: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::StandardInput => {
                Err(format!("`{name}` has no folder to be read from, with manifests from standard input"))
            }
            Self::File { path, boundary } => boundary.read_beside(path, name),
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
    fn with_files(&mut self, object: Object, node: &Node, origin: &Origin) -> Option<Object> {
        let key = object.key();
        match crate::stand_in::with_files(object, |name| origin.beside(name)) {
            Ok(object) => Some(object),
            Err(message) => {
                self.problems.push(Problem {
                    severity: Severity::Error,
                    rule: "files",
                    object: key.to_string(),
                    field: "metadata.annotations".to_owned(),
                    span: node.nearest("metadata.annotations").span,
                    message,
                    help: String::new(),
                });
                None
            }
        }
    }

    fn read_objects(&mut self, origin: &Origin) {
        let (documents, problems) = yaml::documents(&self.text);
        self.problems = problems;
        for document in documents {
            let (nodes, problems) = crate::stand_in::objects(document);
            self.problems.extend(problems);
            for node in nodes {
                let mut reading = read_object(&node);
                self.problems.append(&mut reading.problems);
                let object = reading.object.and_then(|object| self.with_files(object, &node, origin));
                self.entries.push(Entry { key: reading.key, object, node });
            }
        }
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
