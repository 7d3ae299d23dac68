//! One file of manifests: what it holds and what is wrong with it, without a look at any other.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_api::core::EndpointSlice;
use tidegate_api::{Node, Object, ObjectKey, Problem, Reading, Severity, Span, folder, read_object, yaml};

use crate::source::boundary::Boundary;

/// Many thousand objects fit; what is larger was not meant.
const MAX_BYTES: u64 = 256 << 20;

/// The state of a file. When it changes, it is read again and nothing else is.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// As it was named, for people.
    pub(crate) name: Arc<str>,
    pub(crate) text: String,
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) problems: Vec<Problem>,
    /// The files that its objects take data from, whether they are there or not.
    pub(crate) beside: Vec<PathBuf>,
    /// The objects of which an earlier state is used, because the newer one is wrong.
    pub(crate) kept: BTreeSet<ObjectKey>,
}

/// One object as it was written.
#[derive(Debug)]
pub(crate) struct Entry {
    /// `None` for kinds that are not used here.
    pub(crate) key: Option<ObjectKey>,
    /// `None` where it is invalid.
    pub(crate) object: Option<Object>,
    /// What the annotation of a Service stands for.
    pub(crate) slices: Vec<EndpointSlice>,
    pub(crate) node: Node,
    /// Counted from 1.
    pub(crate) line: usize,
    /// Without a mistake, also in what it refers to beside itself.
    good: bool,
}

/// Where a file comes from, and what it may refer to.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    StandardInput,
    File { path: PathBuf, boundary: Boundary },
}

impl Origin {
    pub(crate) fn name(&self) -> String {
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

    fn path_beside(&self, name: &str) -> Option<PathBuf> {
        match self {
            Self::StandardInput => None,
            Self::File { path, .. } => Some(path.parent().unwrap_or(Path::new("")).join(name)),
        }
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

/// Reads a file. Where it is wrong, its objects stay as they were `before`: all of them where it cannot be taken
/// apart, else those that are wrong.
pub(crate) fn read(origin: &Origin, before: Option<&File>) -> std::io::Result<File> {
    let bytes = origin.read()?;
    let mut file = File::empty(&origin.name());
    let broken = match String::from_utf8(bytes) {
        Ok(text) => {
            file.text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
            file.read_objects(origin)
        }
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            file.text = String::from_utf8_lossy(&error.into_bytes()).into_owned();
            file.problems.push(not_utf8(valid));
            true
        }
    };
    match before {
        Some(before) if broken => file.keep_all(before),
        Some(before) => file.keep_wrong(before),
        None => {}
    }
    Ok(file)
}

/// A file that cannot be read at all.
pub(crate) fn unreadable(origin: &Origin, error: &std::io::Error, before: Option<&File>) -> File {
    let mut file = File::empty(&origin.name());
    file.problems.push(Problem {
        severity: Severity::Error,
        rule: "readable",
        object: String::new(),
        field: String::new(),
        span: Span::default(),
        message: format!("the file cannot be read: {error}"),
        help: String::new(),
    });
    if let Some(before) = before {
        file.keep_all(before);
    }
    file
}

impl File {
    fn empty(name: &str) -> Self {
        Self {
            name: name.into(),
            text: String::new(),
            entries: Vec::new(),
            problems: Vec::new(),
            beside: Vec::new(),
            kept: BTreeSet::new(),
        }
    }

    /// Whether the text could not be taken apart into objects.
    fn read_objects(&mut self, origin: &Origin) -> bool {
        let (documents, problems) = yaml::documents(&self.text);
        self.problems = problems;
        let mut lines = Lines::default();
        let mut nodes = Vec::new();
        for document in documents {
            let (found, problems) = tidegate_api::objects(document);
            self.problems.extend(problems);
            nodes.extend(found);
        }
        let broken = self.problems.iter().any(|problem| problem.severity == Severity::Error);
        for node in nodes {
            let line = lines.of(&self.text, node.span.start);
            let entry = self.entry(node, line, origin);
            self.entries.push(Arc::new(entry));
        }
        broken
    }

    fn entry(&mut self, node: Node, line: usize, origin: &Origin) -> Entry {
        let Reading { object, draft, key, problems } = read_object(&node);
        self.problems.extend(problems);
        // What else is wrong with it is told at once, in its annotations too.
        if let Some(draft) = draft {
            if let Object::Service(service) = &draft {
                self.problems.extend(folder::endpoint_slices(service, &node).1);
            }
            self.with_files(draft, &node, origin);
        }
        let object = object.and_then(|object| self.with_files(object, &node, origin));
        let mut good = object.is_some();
        let mut slices = Vec::new();
        if let Some(Object::Service(service)) = &object {
            let (found, problems) = folder::endpoint_slices(service, &node);
            slices = found;
            good = problems.iter().all(|problem| problem.severity != Severity::Error);
            self.problems.extend(problems);
        }
        Entry { key, object, slices, node, line, good }
    }

    /// The object with the data that its annotation takes from files; nothing, where one is not to be had.
    fn with_files(&mut self, mut object: Object, node: &Node, origin: &Origin) -> Option<Object> {
        let (files, mut problems) = folder::data_files(&object, node);
        for file in files {
            self.beside.extend(origin.path_beside(&file.path));
            match origin.beside(&file.path) {
                Ok(content) => folder::add_file(&mut object, &file.key, content),
                Err((message, help)) => problems.push(no_file(&object, node, message, help)),
            }
        }
        let good = problems.is_empty();
        self.problems.append(&mut problems);
        good.then_some(object)
    }

    /// Which objects a file that cannot be taken apart would have is anybody's guess, so none of it is used.
    fn keep_all(&mut self, before: &Self) {
        self.entries.clone_from(&before.entries);
        self.beside.extend(before.beside.iter().cloned());
        self.kept = self
            .entries
            .iter()
            .filter(|entry| entry.object.is_some())
            .filter_map(|entry| entry.key.clone())
            .collect();
    }

    fn keep_wrong(&mut self, before: &Self) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.good) {
            let Some(key) = &entry.key else { continue };
            let earlier =
                before.entries.iter().find(|earlier| earlier.key.as_ref() == Some(key) && earlier.good);
            if let Some(earlier) = earlier {
                self.kept.insert(key.clone());
                *entry = Arc::clone(earlier);
            }
        }
    }

    /// The first thing that is wrong with an object, or with the file as a whole, and its line.
    pub(crate) fn first_error(&self, object: Option<&str>) -> Option<(&Problem, usize)> {
        let problem = self.problems.iter().find(|problem| {
            problem.severity == Severity::Error
                && (problem.object.is_empty() || object.is_none_or(|object| problem.object == object))
        })?;
        Some((problem, line(&self.text, problem.span.start)))
    }
}

/// Counts lines once from the top, however many are asked for.
#[derive(Default)]
struct Lines {
    counted: usize,
    before: usize,
}

impl Lines {
    fn of(&mut self, text: &str, at: usize) -> usize {
        if at >= self.counted {
            self.before += line(&text[self.counted..], at - self.counted) - 1;
            self.counted = at;
            return self.before + 1;
        }
        line(text, at)
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
