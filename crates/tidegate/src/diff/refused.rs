//! A flow that nobody takes: why, and what its client is told.

use serde::Serialize;
use tidegate_plan::{Admission, Reason, RuleHandle};

use crate::diff::Side;
use crate::diff::probe::Place;
use crate::explain::flow;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Refused {
    #[serde(rename = "refused")]
    pub(crate) reason: Reason,
    /// What the client sees, in the words of `explain`.
    pub(crate) answer: String,
    /// The rule that took it and leads nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) route: Option<String>,
    /// Which reference of the route is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// One reason is as good as another where the client is told the same.
impl PartialEq for Refused {
    fn eq(&self, other: &Self) -> bool {
        self.answer == other.answer
    }
}

impl Refused {
    pub(crate) fn new(place: &Place, side: &Side<'_>, reason: Reason, rule: Option<&RuleHandle>) -> Self {
        let http = matches!(place.admit(side), Some(Admission::Http | Admission::Https { .. }));
        Self {
            reason,
            answer: flow::answer(reason, http, rule, place.transport),
            route: rule.map(rule_words),
            message: None,
        }
    }

    /// By a rule whose backends are all at fault.
    pub(crate) fn by_backends(place: &Place, side: &Side<'_>, reason: Reason, rule: &RuleHandle) -> Self {
        let unresolved = rule.group().0.iter().any(|backend| backend.failure() == Some(reason));
        let message = side.meaning.unresolved(&rule.route().id).filter(|_| unresolved);
        Self { message: message.map(str::to_owned), ..Self::new(place, side, reason, Some(rule)) }
    }

    pub(crate) fn words(&self) -> String {
        let by = self.route.as_ref().map(|route| format!(", by {route}")).unwrap_or_default();
        format!("refused: {} ({}){by}", self.reason.text(), self.answer)
    }
}

/// `HTTPRoute default/web rule 0`.
pub(crate) fn rule_words(rule: &RuleHandle) -> String {
    match rule.rule() {
        tidegate_plan::Rule::Stream(_) => rule.route().id.to_string(),
        tidegate_plan::Rule::Http(_) | tidegate_plan::Rule::Grpc(_) => {
            format!("{} rule {}", rule.route().id, rule.index())
        }
    }
}
