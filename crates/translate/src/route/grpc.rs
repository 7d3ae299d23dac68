//! The rules of a GRPCRoute.

use tidegate_api::grpc_route::{GrpcRoute, GrpcRule};
use tidegate_plan::{Group, GrpcMatch, Rules, WeightedBackend};

use super::filters::{self, Context};
use super::http::weight;
use super::{RulesOutput, Usage, matches};
use crate::lookup::{Lookup, Referrer};

pub(super) fn rules(route: &GrpcRoute, referrer: Referrer<'_>, lookup: &Lookup<'_>) -> RulesOutput {
    let mut context = Context::new(referrer, lookup);
    let mut rules = Vec::new();
    let mut dropped = Vec::new();
    for (index, entry) in route.spec.rules.iter().enumerate() {
        match rule(entry, &format!("spec.rules[{index}]"), &mut context) {
            Ok(rule) => rules.push(rule),
            Err(message) => dropped.push(message),
        }
    }
    dropped.append(&mut context.impossible);
    RulesOutput {
        all_dropped: rules.is_empty() && !dropped.is_empty(),
        rules: Rules::Grpc(rules),
        faults: context.faults,
        dropped,
        backends: context.backends,
        notes: Vec::new(),
    }
}

fn rule(rule: &GrpcRule, field: &str, context: &mut Context<'_>) -> Result<tidegate_plan::GrpcRule, String> {
    let mut entries = rule
        .matches
        .iter()
        .enumerate()
        .map(|(index, entry)| matches::grpc(entry, &format!("{field}.matches[{index}]")))
        .collect::<Result<Vec<_>, _>>()?;
    if entries.is_empty() {
        entries.push(GrpcMatch::default());
    }
    context.begin_rule();
    let filters = filters::grpc(&rule.filters, &format!("{field}.filters"), context);
    let mut backends = Vec::new();
    for (index, backend) in rule.backend_refs.iter().enumerate() {
        let field = format!("{field}.backendRefs[{index}]");
        backends.push(WeightedBackend {
            weight: weight(backend.weight),
            target: context.target(&backend.backend, Usage::Requests, &field),
            filters: filters::grpc(&backend.filters, &format!("{field}.filters"), context),
        });
    }
    Ok(tidegate_plan::GrpcRule {
        name: rule.name.as_ref().map(ToString::to_string),
        matches: entries,
        filters,
        backends: Group(backends),
        session: rule.session_persistence.as_ref().map(crate::backend::session),
        refuse: context.refuse,
    })
}
