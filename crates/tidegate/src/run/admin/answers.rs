//! What is asked, and what is said to it.

use std::fmt::Write;

use anstream::adapter::strip_str;
use hyper::StatusCode;
use tidegate_plan::Step;
use tidegate_proxy::{Proxy, Recent, Refused};

use crate::layout::paragraph;
use crate::output::{BAD, FAINT, STRONG, styled};
use crate::run::phase::Phase;

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

const TEXT: &str = "text/plain; charset=utf-8";

impl Answer {
    pub(crate) fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, kind: TEXT, body: body.into(), well: None }
    }

    pub(crate) fn json(value: &impl serde::Serialize) -> Self {
        match serde_json::to_string_pretty(value) {
            Ok(text) => {
                Self { status: StatusCode::OK, kind: "application/json", body: text + "\n", well: None }
            }
            Err(error) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}

pub(crate) struct Question {
    pub(crate) path: String,
    pub(crate) output: Option<String>,
    last: usize,
    pub(crate) wants_json: bool,
    /// For a terminal. Whoever else asks gets text without colours.
    colour: bool,
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
            colour: parameter("color") == Some("always"),
            wants_json: accept.is_some_and(|accept| accept.contains("application/json")),
        }
    }
}

/// A process that can be asked.
pub(crate) trait Shown: Send + Sync + 'static {
    fn phase(&self) -> Phase;

    fn proxy(&self) -> &Proxy;

    /// What there is to measure besides the data plane, to stand before that.
    fn metrics(&self) -> String;

    /// What it tells to those who may know everything, beyond what all tell.
    fn answer(&self, question: &Question) -> Option<Answer>;
}

impl Answers {
    pub(crate) fn to(self, question: &Question, shown: &impl Shown) -> Answer {
        let mut answer = self.coloured(question, shown);
        if !question.colour && answer.kind == TEXT {
            answer.body = strip_str(&answer.body).to_string();
        }
        answer
    }

    fn coloured(self, question: &Question, shown: &impl Shown) -> Answer {
        let nothing = || Answer::text(StatusCode::NOT_FOUND, "there is nothing here\n");
        match (question.path.as_str(), self) {
            ("/healthz", _) => Answer::text(StatusCode::OK, "ok\n"),
            ("/readyz", _) => ready(shown.phase()),
            ("/metrics", _) => Answer {
                status: StatusCode::OK,
                kind: Proxy::METRICS_TYPE,
                body: shown.metrics() + &shown.proxy().metrics(),
                well: None,
            },
            ("/refused", Self::All) => refused(question, shown.proxy()),
            (_, Self::All) => shown.answer(question).unwrap_or_else(nothing),
            (_, Self::Health) => nothing(),
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

pub(crate) fn unknown_output(known: &str) -> Answer {
    Answer::text(StatusCode::BAD_REQUEST, format!("output is one of {known}\n"))
}

fn refused(question: &Question, proxy: &Proxy) -> Answer {
    let mut refused = proxy.refused();
    refused.refused.truncate(question.last);
    match question.output.as_deref() {
        None | Some("json") => Answer::json(&refused),
        Some("text") => Answer::text(StatusCode::OK, all_for_people(&refused)),
        Some(_) => unknown_output("json, text"),
    }
}

fn all_for_people(recent: &Recent) -> String {
    let mut text = recent.refused.iter().map(for_people).collect::<Vec<_>>().join("\n");
    if text.is_empty() {
        text.push_str("No connection was refused.\n");
    }
    if recent.passed_over > 0 {
        let more = recent.passed_over;
        let _ = writeln!(text, "\nSince the start, {more} more came too many at a time to be kept.");
    }
    text
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
    if !matches!(refused.steps.last(), Some(Step::Refused { .. } | Step::ListenerRefuses { .. })) {
        let _ = writeln!(text, "  {}: {}", styled(BAD, "refused"), refused.ending.text());
    }
    if let Some(detail) = &refused.detail {
        // Part of it may be the client's or the backend's own words.
        text.push_str(&paragraph(6, &detail.replace(char::is_control, "\u{fffd}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use tidegate_plan::Reason;
    use tidegate_proxy::Ending;

    use super::*;

    fn refused(ending: Ending, steps: Vec<Step>) -> Refused {
        Refused {
            at: UNIX_EPOCH + Duration::from_secs(1_794_800_475),
            client: "192.0.2.1:40000".parse().unwrap(),
            local: "192.0.2.9:443".parse().unwrap(),
            sni: Some("a\n\x1b[31m".to_owned()),
            listener: None,
            ending,
            detail: Some("it said \x1b[2J".to_owned()),
            steps,
        }
    }

    #[test]
    fn refusals_for_people() {
        let steps = vec![Step::Refused { reason: Reason::NoListener }];
        let recent = Recent {
            passed_over: 2,
            refused: vec![
                refused(Ending::Refused(Reason::NoListener), steps),
                refused(Ending::ConnectFailed, vec![]),
            ],
        };
        let head =
            "2026-11-16T03:41:15.000Z from 192.0.2.1:40000 to 192.0.2.9:443, TLS for \"a\\n\\u{1b}[31m\"";
        assert_eq!(
            strip_str(&all_for_people(&recent)).to_string(),
            format!(
                "{head}\n   1. refused: no listener on this address and port\n      it said \u{fffd}[2J\n\n\
                 {head}\n  refused: no endpoint of the backend accepted the connection\n      \
                 it said \u{fffd}[2J\n\nSince the start, 2 more came too many at a time to be kept.\n"
            )
        );
        let nothing = Recent { passed_over: 0, refused: vec![] };
        assert_eq!(all_for_people(&nothing), "No connection was refused.\n");
    }
}
