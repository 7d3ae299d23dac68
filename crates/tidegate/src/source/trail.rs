//! Which entries of which folders decide what a path leads to.
//!
//! A path goes through links, and each of them can be made to lead elsewhere: that is how a mounted ConfigMap
//! changes. Each entry is named by the resolved path of its folder and its name in it, as a watch names it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// The entries on the way from the resolved folder `from` along `path`, the last one included: every one below
/// `within`, and above it those that are links. It ends where nothing is.
pub(crate) fn trail(from: &Path, path: &Path, within: &Path) -> Vec<PathBuf> {
    let mut entries = Vec::new();
    let mut at = from.to_owned();
    let mut ahead: VecDeque<OsString> = VecDeque::new();
    lead(path, &mut at, &mut ahead);
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let entry = at.join(&name);
        match fs::read_link(&entry) {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                entries.push(entry);
                lead(&target, &mut at, &mut ahead);
            }
            Ok(_) => break,
            Err(_) => {
                let there = fs::symlink_metadata(&entry).is_ok();
                if ahead.is_empty() || !there || (entry.starts_with(within) && entry != within) {
                    entries.push(entry.clone());
                }
                if !there {
                    break;
                }
                at = entry;
            }
        }
    }
    entries
}

/// Puts the parts of a path before what is still ahead; an absolute one begins anew.
fn lead(path: &Path, at: &mut PathBuf, ahead: &mut VecDeque<OsString>) {
    if path.is_absolute() {
        *at = PathBuf::from("/");
    }
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    for part in parts.collect::<Vec<_>>().into_iter().rev() {
        ahead.push_front(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_named_and_so_is_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("mount/..1")).unwrap();
        fs::write(root.join("mount/..1/a.pem"), "").unwrap();
        symlink("..1", root.join("mount/..data")).unwrap();
        symlink("..data/a.pem", root.join("mount/a.pem")).unwrap();
        let names = |path: &str, within: &str| -> Vec<String> {
            let entries = trail(&root, Path::new(path), &root.join(within));
            entries.iter().map(|entry| entry.strip_prefix(&root).unwrap().display().to_string()).collect()
        };
        assert_eq!(
            names("mount/a.pem", "mount"),
            ["mount/a.pem", "mount/..data", "mount/..1", "mount/..1/a.pem"]
        );
        assert_eq!(names("mount/../mount/..1/a.pem", "elsewhere"), ["mount/..1/a.pem"]);
        assert_eq!(names("missing/deeper/a.pem", ""), ["missing"]);
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(names("loop", "").len(), MAX_LINKS);
    }
}
