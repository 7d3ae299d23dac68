//! Which entries of which folders have changed, told by the kernel as soon as a file is closed or renamed.
//!
//! inotify itself rather than a library over it: those subscribe to the opening of files too, and reading ten
//! thousand of them would overflow the queue that tells of changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::source::{Watch, is_manifest};

/// Editors move a file away and write a new one under its name: a manifest that goes may come back within this time, and
/// is not gone before.
const ABSENCE: Duration = Duration::from_millis(100);

pub(crate) struct Watcher {
    inotify: AsyncFd<OwnedFd>,
    folders: BTreeMap<PathBuf, i32>,
    names: HashMap<i32, PathBuf>,
    /// Folders that cannot be watched, until somebody has been told.
    failures: Vec<(PathBuf, Errno)>,
    /// What was seen and not told yet.
    pending: Events,
    /// Those of them that went away.
    absent: BTreeSet<PathBuf>,
    /// Until when these are waited for.
    until: Option<Instant>,
}

/// What has happened since the last look, each entry once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Events {
    pub(crate) entries: BTreeSet<PathBuf>,
    /// More has happened than the kernel remembers.
    pub(crate) lost: bool,
}

impl Watcher {
    /// Must be called within a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // What is wrong with it is that other types can lie about their descriptor; an `OwnedFd` cannot.
        #[expect(deprecated, reason = "the newer one is unsafe")]
        let inotify = AsyncFd::new(inotify)?;
        Ok(Self {
            inotify,
            folders: BTreeMap::new(),
            names: HashMap::new(),
            failures: Vec::new(),
            pending: Events::default(),
            absent: BTreeSet::new(),
            until: None,
        })
    }

    /// Waits until something happens, and takes all of it at once. Nothing is lost where this is cancelled.
    pub(crate) async fn next(&mut self) -> io::Result<Events> {
        loop {
            let until = self.until;
            let absence = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ready = self.inotify.readable() => {
                    ready?.clear_ready();
                    self.drain()?;
                    if !self.absent.is_empty() {
                        self.until.get_or_insert(Instant::now() + ABSENCE);
                    } else if self.pending != Events::default() {
                        return Ok(self.told());
                    }
                }
                () = absence => return Ok(self.told()),
            }
        }
    }

    fn told(&mut self) -> Events {
        self.until = None;
        // One that is there again and still open is told of when it is closed.
        for entry in std::mem::take(&mut self.absent) {
            if is_being_written(&entry) {
                self.pending.entries.remove(&entry);
            }
        }
        std::mem::take(&mut self.pending)
    }

    pub(crate) fn failures(&mut self) -> Vec<(PathBuf, Errno)> {
        std::mem::take(&mut self.failures)
    }

    fn drain(&mut self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(self.inotify.get_ref(), &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let flags = event.events();
            self.pending.lost |= flags.contains(ReadFlags::QUEUE_OVERFLOW);
            if flags.contains(ReadFlags::IGNORED) {
                if let Some(folder) = self.names.remove(&event.wd()) {
                    self.folders.remove(&folder);
                }
                continue;
            }
            let Some(folder) = self.names.get(&event.wd()) else { continue };
            let Some(name) = event.file_name() else { continue };
            let entry = folder.join(OsStr::from_bytes(name.to_bytes()));
            if flags.contains(ReadFlags::CREATE) && is_being_written(&entry) {
                continue;
            }
            // A new file may come under another name and be moved to its place: that name is nothing to wait for.
            if flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) && is_manifest(&entry) {
                self.absent.insert(entry.clone());
            } else if flags.intersects(ReadFlags::CREATE | ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO) {
                self.absent.remove(&entry);
            }
            self.pending.entries.insert(entry);
        }
    }
}

/// A new file is told of again when it is closed; before that there is only a part of it. Folders, links, and
/// further names of a file are whole at once.
fn is_being_written(entry: &Path) -> bool {
    fs::symlink_metadata(entry).is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 1)
}

impl Watch for Watcher {
    fn watch(&mut self, folder: &Path) -> bool {
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        // Asked each time: the folder of this name may be another one by now.
        match inotify::add_watch(self.inotify.get_ref(), folder, flags) {
            Ok(number) => {
                let before = self.folders.insert(folder.to_owned(), number);
                if before == Some(number) {
                    return false;
                }
                self.names.insert(number, folder.to_owned());
                true
            }
            Err(Errno::NOENT) => false,
            Err(error) => {
                self.failures.push((folder.to_owned(), error));
                false
            }
        }
    }

    fn retain(&mut self, keep: &dyn Fn(&Path) -> bool) {
        let Self { inotify, folders, names, .. } = self;
        folders.retain(|folder, number| {
            let keep = keep(folder);
            // A folder that was renamed is watched under its new name by the same number.
            if !keep && names.get(number) == Some(folder) {
                names.remove(number);
                // It is gone already where the folder is.
                let _ = inotify::remove_watch(inotify.get_ref(), *number);
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    /// What happens in a folder while `act` runs, by name.
    async fn seen(act: impl FnOnce(&Path)) -> BTreeSet<String> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::write(root.join("old.yaml"), "old").unwrap();
        let mut watcher = Watcher::new().unwrap();
        assert!(watcher.watch(&root));
        assert!(!watcher.watch(&root));
        act(&root);
        // Events come in order: once the mark is seen, so is everything before it.
        fs::write(root.join("mark"), "").unwrap();
        let mut names = BTreeSet::new();
        while !names.contains("mark") {
            let events =
                tokio::time::timeout(Duration::from_secs(30), watcher.next()).await.unwrap().unwrap();
            assert!(!events.lost);
            names.extend(events.entries.iter().map(|entry| entry.file_name().unwrap().display().to_string()));
        }
        names.remove("mark");
        names
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn every_way_to_change_a_file_is_seen() {
        let rename = |root: &Path| {
            fs::write(root.join("new.tmp"), "new").unwrap();
            fs::rename(root.join("new.tmp"), root.join("old.yaml")).unwrap();
        };
        assert_eq!(seen(rename).await, names(&["new.tmp", "old.yaml"]));
        assert_eq!(seen(|root| fs::write(root.join("old.yaml"), "new").unwrap()).await, names(&["old.yaml"]));
        assert_eq!(seen(|root| fs::remove_file(root.join("old.yaml")).unwrap()).await, names(&["old.yaml"]));
        assert_eq!(seen(|root| fs::create_dir(root.join("folder")).unwrap()).await, names(&["folder"]));
        assert_eq!(seen(|root| symlink("x", root.join("..data")).unwrap()).await, names(&["..data"]));
        let link = |root: &Path| fs::hard_link(root.join("old.yaml"), root.join("more.yaml")).unwrap();
        assert!(seen(link).await.contains("more.yaml"));
    }

    #[tokio::test]
    async fn reading_is_not_seen_and_neither_is_a_file_that_is_still_open() {
        let read = |root: &Path| drop(fs::read(root.join("old.yaml")).unwrap());
        assert_eq!(seen(read).await, names(&[]));
        let mut open = None;
        let half = |root: &Path| {
            use std::io::Write;
            let mut file = fs::File::create(root.join("half.yaml")).unwrap();
            file.write_all(b"half").unwrap();
            open = Some(file);
        };
        assert_eq!(seen(half).await, names(&[]));
    }

    #[tokio::test]
    async fn a_file_that_is_moved_away_and_written_anew_is_not_gone_in_between() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = root.join("a.yaml");
        fs::write(&file, "old").unwrap();
        let mut watcher = Watcher::new().unwrap();
        watcher.watch(&root);
        fs::rename(&file, root.join("a.yaml~")).unwrap();
        {
            // Whoever waits meanwhile and is cancelled takes nothing with him.
            let told = tokio::time::timeout(ABSENCE / 10, watcher.next()).await;
            assert!(told.is_err(), "{told:?}");
        }
        fs::write(&file, "new").unwrap();
        let events = watcher.next().await.unwrap();
        assert_eq!(events.entries, BTreeSet::from([file.clone(), root.join("a.yaml~")]));
        fs::remove_file(&file).unwrap();
        assert_eq!(watcher.next().await.unwrap().entries, BTreeSet::from([file.clone()]), "it is gone");
        fs::write(&file, "there").unwrap();
        watcher.next().await.unwrap();
        fs::remove_file(&file).unwrap();
        let open = fs::File::create(&file).unwrap();
        assert_eq!(
            watcher.next().await.unwrap(),
            Events::default(),
            "it is there again, and told of when closed"
        );
        drop(open);
        assert_eq!(watcher.next().await.unwrap().entries, BTreeSet::from([file]));
    }

    #[tokio::test]
    async fn a_folder_that_no_longer_matters_is_not_watched() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("inner")).unwrap();
        let mut watcher = Watcher::new().unwrap();
        watcher.watch(&root);
        watcher.watch(&root.join("inner"));
        watcher.retain(&|path| path == root);
        fs::write(root.join("inner/a.yaml"), "").unwrap();
        fs::write(root.join("b.yaml"), "").unwrap();
        let events = watcher.next().await.unwrap();
        assert_eq!(events.entries, BTreeSet::from([root.join("b.yaml")]));
        assert!(watcher.watch(&root.join("inner")), "it can be watched again");
        fs::rename(root.join("inner"), root.join("other")).unwrap();
        watcher.watch(&root.join("other"));
        watcher.retain(&|path| path == root || path == root.join("other"));
        watcher.next().await.unwrap();
        fs::write(root.join("other/a.yaml"), "").unwrap();
        assert_eq!(watcher.next().await.unwrap().entries, BTreeSet::from([root.join("other/a.yaml")]));
    }
}
