//! A data plane that follows a controller, as those see it who ask.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;
use serde_json::json;
use tidegate_plan::{Endpoints, EndpointsId, Fragment, FragmentId, ListenerId};
use tidegate_proxy::{KeptCertificate, Proxy};

use crate::run::admin::{Answer, Question, Shown, unknown_output};
use crate::run::kept;
use crate::run::phase::{Phase, Progress};

pub(super) struct Live {
    pub(super) proxy: Proxy,
    pub(super) progress: Progress,
    link: Mutex<Link>,
}

/// How it is with the controller, and what came from there.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) connected: bool,
    /// Why it is not, the last time.
    pub(super) lost: Option<String>,
    pub(super) version: u64,
    pub(super) changes: u64,
    pub(super) failures: u64,
    pub(super) breaks: u64,
    /// Fragments that are not served.
    pub(super) refused: usize,
    pub(super) fragments: BTreeMap<FragmentId, Arc<Fragment>>,
    pub(super) endpoints: BTreeMap<EndpointsId, Arc<Endpoints>>,
    pub(super) listeners: BTreeMap<ListenerId, Result<(), String>>,
    pub(super) kept: Arc<[KeptCertificate]>,
}

impl Live {
    pub(super) fn new(proxy: Proxy) -> Self {
        Self { proxy, progress: Progress::new(), link: Mutex::default() }
    }

    pub(super) fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const INDEX: &str = "\
/healthz   the process lives
/readyz    it serves: there is a plan and all its sockets were tried
/metrics   for Prometheus
/status    the link and the listeners, as JSON; ?output=table
/plan      what is served, as JSON; ?output=whole with endpoints
/refused   the last refused connections and why; ?output=text, ?last=10
";

impl Shown for Live {
    fn phase(&self) -> Phase {
        self.progress.phase()
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn metrics(&self) -> String {
        let link = self.link();
        let mut text = String::new();
        for (name, kind, help, value) in [
            ("connected", "gauge", "Whether a controller is followed.", u64::from(link.connected)),
            ("version", "gauge", "The version of the plan that is served.", link.version),
            ("refused_fragments", "gauge", "Parts of the plan that are not served.", link.refused as u64),
            ("changes", "counter", "Changes of the plan that were taken.", link.changes),
            ("failures", "counter", "Changes of the plan of which nothing was taken.", link.failures),
            ("breaks", "counter", "Times that no controller could be followed.", link.breaks),
        ] {
            let total = if kind == "counter" { "_total" } else { "" };
            let _ = writeln!(text, "# HELP tidegate_link_{name} {help}");
            let _ = writeln!(text, "# TYPE tidegate_link_{name} {kind}");
            let _ = writeln!(text, "tidegate_link_{name}{total} {value}");
        }
        text
    }

    fn answer(&self, question: &Question) -> Option<Answer> {
        match question.path.as_str() {
            "/status" => Some(self.status(question)),
            "/plan" => Some(self.plan(question)),
            "/" => Some(Answer::text(StatusCode::OK, INDEX)),
            _ => None,
        }
    }
}

impl Live {
    fn plan(&self, question: &Question) -> Answer {
        let link = self.link();
        let fragments: Vec<_> = link.fragments.values().map(|told| self.proxy.served(told)).collect();
        match question.output.as_deref() {
            None | Some("json") => Answer::json(&fragments),
            Some("whole") => {
                let endpoints: Vec<_> = link.endpoints.values().collect();
                Answer::json(
                    &json!({"version": link.version, "fragments": fragments, "endpoints": endpoints}),
                )
            }
            Some(_) => unknown_output("json, whole"),
        }
    }

    fn status(&self, question: &Question) -> Answer {
        let link = self.link();
        let open = link.listeners.values().all(Result::is_ok);
        let well = Some(link.connected && open && link.refused == 0);
        let answer = match question.output.as_deref() {
            None | Some("json") => {
                let listeners = link.listeners.iter().map(
                    |(id, state)| json!({ "id": id, "open": state.is_ok(), "error": state.as_ref().err() }),
                );
                Answer::json(&json!({
                    "connected": link.connected,
                    "lost": link.lost,
                    "version": link.version,
                    "refusedFragments": link.refused,
                    "listeners": listeners.collect::<Vec<_>>(),
                    "keptCertificates": link.kept.iter().map(kept::json).collect::<Vec<_>>(),
                }))
            }
            Some("table") => Answer::text(StatusCode::OK, link.table()),
            Some(_) => return unknown_output("json, table"),
        };
        Answer { well, ..answer }
    }
}

impl Link {
    fn table(&self) -> String {
        let mut text = match (&self.lost, self.connected) {
            (_, true) => "Follows its controller".to_owned(),
            (Some(why), false) => format!("No controller: {why}"),
            (None, false) => "No controller yet".to_owned(),
        };
        let _ = writeln!(text, "; version {} is served, {} parts are refused", self.version, self.refused);
        for (id, state) in &self.listeners {
            let _ = match state {
                Ok(()) => writeln!(text, "  {id}: open"),
                Err(why) => writeln!(text, "  {id}: {why}"),
            };
        }
        for kept in &*self.kept {
            let _ = writeln!(text, "  {}", kept::words(kept));
        }
        text
    }
}
