//! What the parts of a running Tidegate share: the manifests with their meaning, the data plane, and how far it is.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_certs::Picture;
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

    /// What there is to measure about manifests and certificates, to stand before what the data plane measures.
    pub(crate) fn metrics(&self) -> String {
        let issuance = self.meaning().issuance.clone().unwrap_or_default();
        let manifests = format!(
            "# HELP tidegate_manifest_changes Changes of manifests that were taken.\n\
             # TYPE tidegate_manifest_changes counter\n\
             tidegate_manifest_changes_total {}\n\
             # HELP tidegate_manifest_problems Mistakes in manifests at this moment.\n\
             # TYPE tidegate_manifest_problems gauge\n\
             tidegate_manifest_problems {}\n",
            self.changes.load(Relaxed),
            self.problems.load(Relaxed),
        );
        manifests + &of_certificates(&issuance)
    }
}

fn of_certificates(picture: &Picture) -> String {
    let Picture { certificates, missing, orders, failures, in_flight, .. } = picture;
    let mut text = format!(
        "# HELP tidegate_certificate_orders Certificates that were asked for.\n\
         # TYPE tidegate_certificate_orders counter\n\
         tidegate_certificate_orders_total {orders}\n\
         # HELP tidegate_certificate_failures Orders that came to nothing.\n\
         # TYPE tidegate_certificate_failures counter\n\
         tidegate_certificate_failures_total {failures}\n\
         # HELP tidegate_certificate_orders_in_flight Orders on their way at this moment.\n\
         # TYPE tidegate_certificate_orders_in_flight gauge\n\
         tidegate_certificate_orders_in_flight {in_flight}\n\
         # HELP tidegate_certificate_names_missing Names that are wanted and have no certificate.\n\
         # TYPE tidegate_certificate_names_missing gauge\n\
         tidegate_certificate_names_missing {}\n\
         # HELP tidegate_certificate_not_after_seconds When a certificate ends, in seconds since 1970.\n\
         # TYPE tidegate_certificate_not_after_seconds gauge\n",
        missing.len(),
    );
    for (secret, certificate) in certificates {
        // Names of objects and issuers have nothing in them that would have to be escaped.
        text.push_str(&format!(
            "tidegate_certificate_not_after_seconds{{namespace=\"{}\",secret=\"{}\",issuer=\"{}\"}} {}\n",
            secret.namespace, secret.name, certificate.held.issuer, certificate.held.not_after
        ));
    }
    text
}
