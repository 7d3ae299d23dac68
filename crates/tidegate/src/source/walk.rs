//! Which files of a folder are manifests.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::output::Error;
use crate::source::trail::trail;

/// What is below a folder.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The manifests, in the order of their paths.
    pub(crate) manifests: Vec<Manifest>,
    /// The folders that were looked into: resolved, and as they were reached.
    pub(crate) folders: Vec<(PathBuf, PathBuf)>,
    /// Entries that decide which folders there are.
    pub(crate) entries: Vec<PathBuf>,
    /// Whether something was reached on two ways and taken once.
    pub(crate) aliased: bool,
    /// What could not be looked at.
    pub(crate) failures: Vec<Error>,
    seen: BTreeSet<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) path: PathBuf,
    /// The entries that decide what it holds.
    pub(crate) entries: Vec<PathBuf>,
}

/// Walks a folder and all below it; `enter` is told of each, resolved, before it is looked into.
///
/// Links are followed, so that a mounted ConfigMap (`a.yaml -> ..data/a.yaml`) is read once, through the name that
/// is not hidden.
pub(crate) fn walk(folder: &Path, enter: &mut dyn FnMut(&Path)) -> Walk {
    let mut walk = Walk::default();
    walk.folder(folder, enter);
    walk
}

impl Walk {
    fn folder(&mut self, path: &Path, enter: &mut dyn FnMut(&Path)) {
        let resolved = match path.canonicalize() {
            Ok(resolved) => resolved,
            Err(error) => return self.failed(path, error),
        };
        // A link back to a folder above would never end.
        if !self.seen.insert(resolved.clone()) {
            self.aliased = true;
            return;
        }
        enter(&resolved);
        let entries: io::Result<Vec<fs::DirEntry>> = fs::read_dir(path).and_then(Iterator::collect);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.failed(path, error),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        self.folders.push((resolved.clone(), path.to_owned()));
        for entry in entries {
            let name = entry.file_name();
            if is_hidden(Path::new(&name)) {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => self.link(&resolved, &entry.path(), enter),
                Ok(kind) if kind.is_dir() => {
                    self.entries.push(resolved.join(&name));
                    self.folder(&entry.path(), enter);
                }
                Ok(kind) if kind.is_file() && is_manifest(Path::new(&name)) => {
                    let place = resolved.join(&name);
                    self.manifest(&place, entry.path(), vec![place.clone()]);
                }
                Ok(_) => {}
                Err(error) => self.failed(&entry.path(), error),
            }
        }
    }

    fn link(&mut self, folder: &Path, path: &Path, enter: &mut dyn FnMut(&Path)) {
        let name = Path::new(path.file_name().unwrap_or_default());
        let entries = trail(folder, name, folder);
        let target = fs::metadata(path).and_then(|metadata| Ok((metadata, path.canonicalize()?)));
        match target {
            Ok((metadata, _)) if metadata.is_dir() => {
                self.entries.extend(entries);
                self.folder(path, enter);
            }
            Ok((metadata, resolved)) if metadata.is_file() && is_manifest(path) => {
                self.manifest(&resolved, path.to_owned(), entries);
            }
            Ok(_) => {}
            // A link that leads nowhere matters only where a manifest was meant.
            Err(error) => {
                self.entries.extend(entries);
                if is_manifest(path) {
                    self.failed(path, error);
                }
            }
        }
    }

    fn manifest(&mut self, resolved: &Path, path: PathBuf, entries: Vec<PathBuf>) {
        if self.seen.insert(resolved.to_owned()) {
            self.manifests.push(Manifest { path, entries });
        } else {
            self.aliased = true;
            self.entries.extend(entries);
        }
    }

    fn failed(&mut self, path: &Path, error: io::Error) {
        self.failures.push(Error::Read { path: path.to_owned(), error });
    }
}

/// Also what editors leave behind while they write: `.a.yaml.swp`, `.#a.yaml`.
pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with('.'))
}

/// `a.yaml~`, `#a.yaml#` and `a.yaml.tmp` have other endings and are passed over.
pub(crate) fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|ending| matches!(ending, "yaml" | "yml" | "json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(folder: &Path) -> Vec<String> {
        let found = walk(folder, &mut |_| {});
        let paths = found.manifests.iter().map(|manifest| manifest.path.strip_prefix(folder).unwrap());
        paths.map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn hidden_and_temporary_files_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "b.yaml",
            "a.yml",
            "c.json",
            ".a.yaml.swp",
            ".#b.yaml",
            "b.yaml~",
            "#b.yaml#",
            "b.yaml.tmp",
            "notes.txt",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("deeper")).unwrap();
        fs::write(folder.path().join("deeper/d.yaml"), "").unwrap();
        assert_eq!(names(folder.path()), ["a.yml", "b.yaml", "c.json", "deeper/d.yaml"]);
    }

    #[test]
    fn a_mounted_config_map_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("..2026_01_01")).unwrap();
        fs::write(folder.path().join("..2026_01_01/a.yaml"), "").unwrap();
        symlink("..2026_01_01", folder.path().join("..data")).unwrap();
        symlink("..data/a.yaml", folder.path().join("a.yaml")).unwrap();
        assert_eq!(names(folder.path()), ["a.yaml"]);
        let found = walk(folder.path(), &mut |_| {});
        let decides: Vec<_> =
            found.manifests[0].entries.iter().map(|entry| entry.file_name().unwrap()).collect();
        assert_eq!(decides, ["a.yaml", "..data", "..2026_01_01", "a.yaml"]);
    }

    #[test]
    fn what_is_reached_twice_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.yaml"), "").unwrap();
        assert!(!walk(folder.path(), &mut |_| {}).aliased);
        symlink("b.yaml", folder.path().join("a.yaml")).unwrap();
        assert_eq!(names(folder.path()), ["a.yaml"]);
        assert!(walk(folder.path(), &mut |_| {}).aliased);
    }

    #[test]
    fn a_link_to_a_folder_above_ends() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/a.yaml"), "").unwrap();
        symlink("..", folder.path().join("a/up")).unwrap();
        assert_eq!(names(folder.path()), ["a/a.yaml"]);
    }

    #[test]
    fn a_manifest_that_leads_nowhere_is_told() {
        let folder = tempfile::tempdir().unwrap();
        symlink("nowhere", folder.path().join("notes")).unwrap();
        assert!(names(folder.path()).is_empty());
        symlink("nowhere", folder.path().join("a.yaml")).unwrap();
        assert_eq!(walk(folder.path(), &mut |_| {}).failures.len(), 1);
    }
}
