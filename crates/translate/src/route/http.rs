//! The rules of an HTTPRoute.

use tidegate_api::http_route::{HttpRoute, HttpRule};
use tidegate_api::route::Weight;
use tidegate_plan::{Group, HttpMatch, PathMatch, Retry, Rules, Timeouts, WeightedBackend};

use super::filters::{self, Context};
use super::{RulesOutput, Usage, matches};
use crate::lookup::{Lookup, Referrer};

pub(super) fn rules(route: &HttpRoute, referrer: Referrer<'_>, lookup: &Lookup<'_>) -> RulesOutput {
    let mut context = Context::new(referrer, lookup);
    let mut rules = Vec::new();
    let mut dropped = Vec::new();
    for (index, entry) in route.spec.rules.iter().enumerate() {
        match rule(entry, &format!("spec.rules[{index}]"), &mut context) {
            Ok(rule) => rules.push(rule),
            Err(message) => dropped.push(message),
        }
    }
    let all_dropped = rules.is_empty() && !dropped.is_empty();
    dropped.append(&mut context.impossible);
    if route.spec.rules.is_empty() {
        rules.push(tidegate_plan::HttpRule {
            name: None,
            matches: vec![everything()],
            filters: Vec::new(),
            backends: Group::default(),
            timeouts: Timeouts::default(),
            retry: None,
            session: None,
            refuse: None,
        });
    }
    RulesOutput {
        rules: Rules::Http(rules),
        faults: context.faults,
        dropped,
        all_dropped,
        backends: context.backends,
        notes: Vec::new(),
    }
}

fn rule(rule: &HttpRule, field: &str, context: &mut Context<'_>) -> Result<tidegate_plan::HttpRule, String> {
    let mut entries = rule
        .matches
        .iter()
        .enumerate()
        .map(|(index, entry)| matches::http(entry, &format!("{field}.matches[{index}]")))
        .collect::<Result<Vec<_>, _>>()?;
    if entries.is_empty() {
        entries.push(everything());
    }
    context.begin_rule();
    let filters = filters::http(&rule.filters, &format!("{field}.filters"), context);
    let mut backends = Vec::new();
    for (index, backend) in rule.backend_refs.iter().enumerate() {
        let field = format!("{field}.backendRefs[{index}]");
        backends.push(WeightedBackend {
            weight: weight(backend.weight),
            target: context.target(&backend.backend, Usage::Requests, &field),
            filters: filters::http(&backend.filters, &format!("{field}.filters"), context),
        });
    }
    Ok(tidegate_plan::HttpRule {
        name: rule.name.as_ref().map(ToString::to_string),
        matches: entries,
        filters,
        backends: Group(backends),
        timeouts: rule.timeouts.as_ref().map_or_else(Timeouts::default, |timeouts| Timeouts {
            request: timeouts.request.map(|duration| duration.0),
            backend_request: timeouts.backend_request.map(|duration| duration.0),
        }),
        retry: rule.retry.as_ref().map(|retry| Retry {
            codes: retry.codes.iter().filter_map(|code| u16::try_from(code.get()).ok()).collect(),
            attempts: u32::try_from(retry.attempts.get()).ok(),
            backoff: retry.backoff.map(|duration| duration.0),
        }),
        session: rule.session_persistence.as_ref().map(crate::backend::session),
        refuse: context.refuse,
    })
}

fn everything() -> HttpMatch {
    HttpMatch {
        path: PathMatch::Prefix("/".to_owned()),
        method: None,
        headers: Vec::new(),
        query: Vec::new(),
    }
}

pub(super) fn weight(weight: Weight) -> u32 {
    u32::try_from(weight.get()).expect("a weight is at most 1,000,000")
}
