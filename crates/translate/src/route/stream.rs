//! TLSRoute, TCPRoute and UDPRoute: one rule, backends by weight.

use tidegate_api::route::{BackendRef, StreamRule};
use tidegate_plan::{Group, Rules, WeightedBackend};

use super::filters::Context;
use super::{RulesOutput, Usage};
use crate::lookup::{Lookup, Referrer};

pub(super) fn rules(
    rules: &[StreamRule],
    usage: Usage,
    referrer: Referrer<'_>,
    lookup: &Lookup<'_>,
) -> RulesOutput {
    let mut context = Context::new(referrer, lookup);
    let first = rules.first();
    let backends = first.map_or_else(Group::default, |rule| {
        let refs = rule.backend_refs.iter().enumerate();
        Group(refs.map(|(index, backend)| weighted(backend, index, usage, &mut context)).collect())
    });
    let mut notes = Vec::new();
    if rules.len() > 1 {
        notes.push(format!("it has {} rules, and only the first one is used", rules.len()));
    }
    RulesOutput {
        rules: Rules::Stream(tidegate_plan::StreamRule {
            name: first.and_then(|rule| rule.name.as_ref()).map(ToString::to_string),
            backends,
        }),
        faults: context.faults,
        dropped: Vec::new(),
        all_dropped: false,
        backends: context.backends,
        notes,
    }
}

fn weighted(backend: &BackendRef, index: usize, usage: Usage, context: &mut Context<'_>) -> WeightedBackend {
    WeightedBackend {
        weight: super::http::weight(backend.weight),
        target: context.target(&backend.backend, usage, &format!("spec.rules[0].backendRefs[{index}]")),
        filters: Vec::new(),
    }
}
