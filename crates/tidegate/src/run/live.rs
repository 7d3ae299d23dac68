//! What the parts of a running Tidegate share: the manifests with their meaning, the data plane, and how far it is.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_proxy::Proxy;

use crate::meaning::Meaning;

pub(crate) struct Live {
    meaning: Mutex<Meaning>,
    pub(crate) proxy: Proxy,
    phase: AtomicU8,
    /// Changes of manifests that were taken, and problems in them at this moment.
    pub(crate) changes: AtomicU64,
    pub(crate) problems: AtomicUsize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Starting,
    Ready,
    Draining,
}

impl Live {
    pub(crate) fn new(meaning: Meaning, proxy: Proxy) -> Self {
        Self {
            meaning: Mutex::new(meaning),
            proxy,
            phase: AtomicU8::new(Phase::Starting as u8),
            changes: AtomicU64::new(0),
            problems: AtomicUsize::new(0),
        }
    }

    /// A panic while it was held has spoilt at most one answer: objects are replaced whole.
    pub(crate) fn meaning(&self) -> MutexGuard<'_, Meaning> {
        self.meaning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    /// What there is to measure about manifests, to stand before what the data plane measures.
    pub(crate) fn metrics(&self) -> String {
        format!(
            "# HELP tidegate_manifest_changes Changes of manifests that were taken.\n\
             # TYPE tidegate_manifest_changes counter\n\
             tidegate_manifest_changes_total {}\n\
             # HELP tidegate_manifest_problems Mistakes in manifests at this moment.\n\
             # TYPE tidegate_manifest_problems gauge\n\
             tidegate_manifest_problems {}\n",
            self.changes.load(Relaxed),
            self.problems.load(Relaxed),
        )
    }
}
