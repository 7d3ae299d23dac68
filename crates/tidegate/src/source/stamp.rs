//! Whether a file is still the one that was read.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    identity: (u64, u64),
    size: u64,
    changed: Duration,
    /// Older than a tick of the clock that files are stamped by, so that a later change has another time.
    settled: bool,
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        // Unlike the time of modification, this one cannot be set.
        let changed = Duration::new(
            u64::try_from(metadata.ctime()).unwrap_or_default(),
            u32::try_from(metadata.ctime_nsec()).unwrap_or_default(),
        );
        let age = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(changed);
        Some(Self {
            identity: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            changed,
            settled: age > Duration::from_millis(50),
        })
    }

    pub(crate) const fn is_settled(&self) -> bool {
        self.settled
    }
}
