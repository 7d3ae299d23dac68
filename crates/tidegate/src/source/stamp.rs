//! Whether a file is still the one that was read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    identity: (u64, u64),
    size: u64,
    changed: (i64, i64),
    /// Older than a tick of the clock that files are stamped by, so that a later change has another time.
    settled: bool,
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let age = metadata.modified().ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        Some(Self {
            identity: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            settled: age.is_some_and(|age| age > Duration::from_millis(50)),
        })
    }

    pub(crate) const fn is_settled(&self) -> bool {
        self.settled
    }
}
