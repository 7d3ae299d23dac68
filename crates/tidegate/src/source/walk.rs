//! Which files of a folder are manifests.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::output::Error;

/// The manifests below a folder, in the order of their paths.
///
/// Links are followed, so that a mounted ConfigMap (`a.yaml -> ..data/a.yaml`) is read once, through the name that
/// is not hidden.
pub(crate) fn manifests(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    walk(folder, &mut seen, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(folder: &Path, seen: &mut BTreeSet<PathBuf>, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| Error::Read { path, error }
    };
    // A link back to a folder above would never end.
    if !seen.insert(folder.canonicalize().map_err(failed(folder))?) {
        return Ok(());
    }
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        entries.push(entry.map_err(failed(folder))?.path());
    }
    entries.sort();
    for path in entries {
        if is_hidden(&path) {
            continue;
        }
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            // A link that leads nowhere matters only where a manifest was meant.
            Err(_) if !is_manifest(&path) => continue,
            Err(error) => return Err(Error::Read { path, error }),
        };
        if metadata.is_dir() {
            walk(&path, seen, found)?;
        } else if metadata.is_file()
            && is_manifest(&path)
            && seen.insert(path.canonicalize().map_err(failed(&path))?)
        {
            found.push(path);
        }
    }
    Ok(())
}

/// Also what editors leave behind while they write: `.a.yaml.swp`, `.#a.yaml`.
fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with('.'))
}

/// `a.yaml~`, `#a.yaml#` and `a.yaml.tmp` have other endings and are passed over.
fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|ending| matches!(ending, "yaml" | "yml" | "json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(folder: &Path) -> Vec<String> {
        let found = manifests(folder).unwrap();
        found.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
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
    fn a_manifest_that_leads_nowhere_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        symlink("nowhere", folder.path().join("notes")).unwrap();
        assert!(names(folder.path()).is_empty());
        symlink("nowhere", folder.path().join("a.yaml")).unwrap();
        assert!(manifests(folder.path()).is_err());
    }
}
