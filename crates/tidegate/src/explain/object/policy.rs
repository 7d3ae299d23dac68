//! Who uses a policy or an XBackend, and what it makes of the connections to the backend.

use tidegate_api::status::Status;
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::{Backend, BackendKind, Handling, ObjectName, Plan, RouteId, Rules, Target};

use crate::conditions::Health;
use crate::explain::backends::{retry_budget, upstream};
use crate::explain::object::{Entry, Part};
use crate::explain::request;
use crate::meaning::Meaning;
use crate::words;

pub(crate) fn parts(meaning: &Meaning, key: &ObjectKey) -> (Vec<String>, Vec<Part>) {
    let notes = meaning.translation().notes.get(key).into_iter().flatten();
    let ancestors = match meaning.status(key) {
        Some(Status::Policy(status)) => &*status.ancestors,
        _ => &[],
    };
    let of_ancestor = ancestors.iter().map(|ancestor| {
        let name = words::parent(&ancestor.ancestor_ref, &key.name.namespace);
        Part::new(name, &ancestor.conditions, Vec::new())
    });
    let mut parts: Vec<Part> = of_ancestor.collect();
    let targets = targets(meaning, key);
    let plan = &meaning.translation().plan;
    let is_target = |backend: &&Backend| targets.contains(&(backend.id.kind, backend.id.object.clone()));
    parts.extend(plan.backends().filter(is_target).map(|backend| part(plan, backend, key.kind)));
    if let Some(note) = meaning.refused_in_notes(key) {
        let reason = note.reason.map(|reason| format!("{reason:?}")).unwrap_or_default();
        let refused = Part::without_conditions("refused".to_owned(), Health::Bad, &reason);
        parts.push(Part { messages: vec![note.message.clone()], ..refused });
    } else if parts.is_empty() {
        parts.push(Part::without_conditions(
            "users".to_owned(),
            Health::Care,
            if key.kind == Kind::XBackend { "no route leads to it" } else { "no route leads to its targets" },
        ));
    }
    (notes.filter(|note| note.reason.is_none()).map(|note| note.message.clone()).collect(), parts)
}

/// The backends that an object is about.
fn targets(meaning: &Meaning, key: &ObjectKey) -> Vec<(BackendKind, ObjectName)> {
    let resources = meaning.resources();
    let named = |name: &str| ObjectName::new(key.name.namespace.clone(), name);
    if let Some(policy) =
        resources.backend_tls_policies.get(&key.name).filter(|_| key.kind == Kind::BackendTlsPolicy)
    {
        let targets = policy.spec.target_refs.iter();
        return targets.map(|target| (BackendKind::Service, named(target.name.as_str()))).collect();
    }
    if key.kind == Kind::XBackend {
        return vec![(BackendKind::XBackend, key.name.clone())];
    }
    let policy = resources.xbackend_traffic_policies.get(&key.name);
    let targets = policy.iter().flat_map(|policy| &*policy.spec.target_refs);
    targets
        .map(|target| {
            let kind = if target.kind == "XBackend" { BackendKind::XBackend } else { BackendKind::Service };
            (kind, named(target.name.as_str()))
        })
        .collect()
}

fn part(plan: &Plan, backend: &Backend, about: Kind) -> Part {
    let routes = plan.routes().filter(|route| leads_to(&route.rules, backend));
    let entries = routes.flat_map(|route| {
        let listeners = plan.listeners().filter(|listener| route.listeners.contains(&listener.id));
        listeners
            .map(|listener| entry(&route.id, &listener.id.to_string(), &listener.handling, about))
            .collect::<Vec<_>>()
    });
    let entries = entries.collect();
    let state = match about {
        Kind::XBackendTrafficPolicy => traffic(backend),
        _ => upstream(&backend.upstream),
    };
    Part { entries, ..Part::without_conditions(backend.id.to_string(), Health::Good, &state) }
}

/// What a traffic policy came to; it may be another than the one that is asked about.
fn traffic(backend: &Backend) -> String {
    let session = backend.session.as_ref().map(request::session);
    let words: Vec<String> = session.into_iter().chain(backend.retry_budget.map(retry_budget)).collect();
    if words.is_empty() { "neither sessions nor a retry budget".to_owned() } else { words.join("; ") }
}

fn entry(route: &RouteId, listener: &str, handling: &Handling, about: Kind) -> Entry {
    let passed = matches!(handling, Handling::Passthrough) && about == Kind::BackendTlsPolicy;
    let why = if passed {
        "does not use the policy: a passthrough listener sends the client's TLS on as it is"
    } else {
        match about {
            Kind::XBackend => "leads to it",
            _ => "uses it for every connection to the backend",
        }
    };
    Entry { name: format!("{route} on {listener}"), good: !passed, why: why.to_owned(), change: None }
}

fn leads_to(rules: &Rules, backend: &Backend) -> bool {
    let groups: Vec<_> = match rules {
        Rules::Http(rules) => rules.iter().map(|rule| &rule.backends).collect(),
        Rules::Grpc(rules) => rules.iter().map(|rule| &rule.backends).collect(),
        Rules::Stream(rule) => vec![&rule.backends],
    };
    groups
        .iter()
        .flat_map(|group| &group.0)
        .any(|weighted| weighted.target == Target::Backend(backend.id.clone()))
}
