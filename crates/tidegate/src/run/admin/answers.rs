//! What is asked, and what is said to it.

use std::fmt::Write;

use hyper::StatusCode;
use tidegate_proxy::{Proxy, Refused};

use crate::check::{findings, list, table};
use crate::layout::paragraph;
use crate::meaning::Meaning;
use crate::output::{BAD, FAINT, STRONG, styled};
use crate::run::live::{Live, Phase};

/// The paths that are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    All,
    /// What may be public.
    Health,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
    /// Whether everything is served as written, where that was looked at.
    pub(crate) well: Option<bool>,
}

impl Answer {
    pub(crate) fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.into(), well: None }
    }

    fn json(value: &impl serde::Serialize) -> Self {
        match serde_json::to_string_pretty(value) {
            Ok(text) => {
                Self { status: StatusCode::OK, kind: "application/json", body: text + "\n", well: None }
            }
            Err(error) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

pub(crate) struct Question {
    path: String,
    output: Option<String>,
    last: usize,
    wants_json: bool,
}

impl Question {
    pub(crate) fn new(path: &str, query: Option<&str>, accept: Option<&str>) -> Self {
        let parameter = |name: &str| {
            let pairs = query.into_iter().flat_map(|query| query.split('&'));
            pairs
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        Self {
            path: path.to_owned(),
            output: parameter("output").map(str::to_owned),
            last: parameter("last").and_then(|last| last.parse().ok()).unwrap_or(usize::MAX),
            wants_json: accept.is_some_and(|accept| accept.contains("application/json")),
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

impl Answers {
    pub(crate) fn to(self, question: &Question, live: &Live) -> Answer {
        match (question.path.as_str(), self) {
            ("/healthz", _) => Answer::text(StatusCode::OK, "ok\n"),
            ("/readyz", _) => ready(live.phase()),
            ("/metrics", _) => Answer {
                status: StatusCode::OK,
                kind: Proxy::METRICS_TYPE,
                body: live.metrics() + &live.proxy.metrics(),
                well: None,
            },
            ("/status", Self::All) => status(question, live),
            ("/refused", Self::All) => refused(question, live),
            ("/", Self::All) => Answer::text(StatusCode::OK, INDEX),
            _ => Answer::text(StatusCode::NOT_FOUND, "there is nothing here\n"),
        }
    }
}

fn ready(phase: Phase) -> Answer {
    match phase {
        Phase::Ready => Answer::text(StatusCode::OK, "ready\n"),
        Phase::Starting => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
        Phase::Draining => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
    }
}

fn unknown_output(known: &str) -> Answer {
    Answer::text(StatusCode::BAD_REQUEST, format!("output is one of {known}\n"))
}

fn status(question: &Question, live: &Live) -> Answer {
    let meaning = live.meaning();
    let findings = findings::find(&meaning);
    let well = Some(findings.is_empty());
    let as_json = match (question.output.as_deref(), question.wants_json) {
        (Some("table"), _) => {
            let text = table::render(&meaning, &findings) + &kept(&meaning);
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

/// Objects that are served as they were before somebody broke them.
fn kept(meaning: &Meaning) -> String {
    let mut text = String::new();
    for (key, why) in meaning.manifests.kept() {
        if text.is_empty() {
            let _ = writeln!(text, "\n{}", styled(BAD, "Served in their last good state"));
        }
        let _ = writeln!(text, "  {}", styled(STRONG, key));
        text.push_str(&paragraph(6, &why));
    }
    text
}

fn refused(question: &Question, live: &Live) -> Answer {
    let mut refused = live.proxy.refused();
    refused.refused.truncate(question.last);
    match question.output.as_deref() {
        None | Some("json") => Answer::json(&refused),
        Some("text") if refused.refused.is_empty() => {
            Answer::text(StatusCode::OK, "No connection was refused.\n")
        }
        Some("text") => {
            let refused = refused.refused.iter().map(for_people);
            Answer::text(StatusCode::OK, refused.collect::<Vec<_>>().join("\n"))
        }
        Some(_) => unknown_output("json, text"),
    }
}

/// As `explain` tells of a flow.
fn for_people(refused: &Refused) -> String {
    let time = humantime::format_rfc3339_millis(refused.at);
    let sni = refused.sni.as_ref().map(|sni| format!(", TLS for {sni:?}")).unwrap_or_default();
    let mut text = format!(
        "{} {}\n",
        styled(FAINT, time),
        styled(STRONG, format_args!("from {} to {}{sni}", refused.client, refused.local))
    );
    for (number, step) in refused.steps.iter().enumerate() {
        let _ = writeln!(text, "  {:>2}. {step}", number + 1);
    }
    // Where the plan refused it, the last step has said so.
    if refused.steps.is_empty() {
        let _ = writeln!(text, "  {}: {}", styled(BAD, "refused"), refused.ending.text());
    }
    if let Some(detail) = &refused.detail {
        text.push_str(&paragraph(6, detail));
    }
    text
}
