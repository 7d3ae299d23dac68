//! What the parts of a running Tidegate share: the manifests with their meaning, the data plane, and how far it is.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;
use tidegate_proxy::Proxy;

use crate::check::{findings, list, table};
use crate::layout::paragraph;
use crate::meaning::Meaning;
use crate::output::{BAD, STRONG, styled};
use crate::run::admin::{Answer, Question, Shown, unknown_output};
use crate::run::kept;
use crate::run::phase::{Phase, Progress};
use crate::words;

pub(crate) struct Live {
    meaning: Mutex<Meaning>,
    pub(crate) proxy: Proxy,
    pub(crate) progress: Progress,
    /// Changes of manifests that were taken, and problems in them at this moment.
    pub(crate) changes: AtomicU64,
    pub(crate) problems: AtomicUsize,
}

impl Live {
    pub(crate) fn new(meaning: Meaning, proxy: Proxy) -> Self {
        Self {
            meaning: Mutex::new(meaning),
            proxy,
            progress: Progress::new(),
            changes: AtomicU64::new(0),
            problems: AtomicUsize::new(0),
        }
    }

    /// A panic while it was held has spoilt at most one answer: objects are replaced whole.
    pub(crate) fn meaning(&self) -> MutexGuard<'_, Meaning> {
        self.meaning.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shown for Live {
    fn phase(&self) -> Phase {
        self.progress.phase()
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// What there is to measure about manifests and certificates, to stand before what the data plane measures.
    fn metrics(&self) -> String {
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
        manifests + &tidegate_issuing::metrics(&issuance)
    }

    fn answer(&self, question: &Question) -> Option<Answer> {
        match question.path.as_str() {
            "/status" => Some(status(question, self)),
            "/" => Some(Answer::text(StatusCode::OK, INDEX)),
            _ => None,
        }
    }
}

const INDEX: &str = "\
/healthz   the process lives
/readyz    it serves: the manifests are read and all sockets tried
/metrics   for Prometheus
/status    all objects with their status, as YAML; ?output=json or ?output=table
/refused   the last refused connections and why; ?output=text, ?last=10
";

fn status(question: &Question, live: &Live) -> Answer {
    let meaning = live.meaning();
    let findings = findings::find(&meaning);
    let well = Some(findings.is_empty());
    let as_json = match (question.output.as_deref(), question.wants_json) {
        (Some("table"), _) => {
            let text =
                table::render(&meaning, &findings) + &certificates(&meaning) + &kept(&meaning, &live.proxy);
            return Answer { well, ..Answer::text(StatusCode::OK, text) };
        }
        (Some("json"), _) | (None, true) => true,
        (Some("yaml"), _) | (None, false) => false,
        (Some(_), _) => return unknown_output("yaml, json, table"),
    };
    let list = list::list(&meaning);
    // Changes need not wait until it is written out.
    drop(meaning);
    let answer = if as_json {
        Answer::json(&list)
    } else {
        Answer { kind: "application/yaml", ..Answer::text(StatusCode::OK, tidegate_api::to_yaml(&list)) }
    };
    Answer { well, ..answer }
}

/// When the certificates end that listeners show.
fn certificates(meaning: &Meaning) -> String {
    let listeners = meaning.translation().plan.listeners();
    let shown = listeners.filter_map(|listener| listener.handling.server_tls());
    let lines: BTreeSet<String> =
        shown.flat_map(|tls| &tls.certificates).map(|one| paragraph(2, &words::certificate(one))).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{}\n{}", styled(STRONG, "Certificates"), lines.into_iter().collect::<String>())
}

/// Objects that are served as they were before somebody broke them, and listeners with the certificates they had.
fn kept(meaning: &Meaning, proxy: &Proxy) -> String {
    let mut text = String::new();
    for (key, why) in meaning.manifests.kept() {
        let _ = writeln!(text, "  {}", styled(STRONG, key));
        text.push_str(&paragraph(6, &why));
    }
    for kept in &*proxy.kept() {
        text.push_str(&paragraph(2, &kept::words(kept)));
    }
    if !text.is_empty() {
        text.insert_str(0, &format!("\n{}\n", styled(BAD, "Served in their last good state")));
    }
    text
}
