//! Who uses a BackendTLSPolicy, and what it makes of the connections to the backend.

use tidegate_api::ObjectKey;
use tidegate_api::status::Status;
use tidegate_plan::{Backend, Handling, ObjectName, Plan, RouteId, Rules, Target};

use crate::conditions::Health;
use crate::explain::backends::upstream;
use crate::explain::object::{Entry, Part};
use crate::meaning::Meaning;
use crate::words;

pub(crate) fn parts(meaning: &Meaning, key: &ObjectKey) -> (Vec<String>, Vec<Part>) {
    let Some(policy) = meaning.resources().backend_tls_policies.get(&key.name) else {
        return Default::default();
    };
    let notes =
        meaning.translation().notes.get(key).into_iter().flatten().map(|note| note.message.clone()).collect();
    let ancestors = match meaning.status(key) {
        Some(Status::Policy(status)) => &*status.ancestors,
        _ => &[],
    };
    let of_ancestor = ancestors.iter().map(|ancestor| {
        let name = words::parent(&ancestor.ancestor_ref, &key.name.namespace);
        Part::new(name, &ancestor.conditions, Vec::new())
    });
    let mut parts: Vec<Part> = of_ancestor.collect();
    for target in &policy.spec.target_refs {
        let service = ObjectName::new(key.name.namespace.clone(), target.name.as_str());
        let backends = meaning.translation().plan.backends().filter(|backend| backend.id.object == service);
        parts.extend(backends.map(|backend| part(&meaning.translation().plan, backend)));
    }
    if parts.is_empty() {
        parts.push(Part::without_conditions(
            "users".to_owned(),
            Health::Care,
            "no route leads to its targets",
        ));
    }
    (notes, parts)
}

fn part(plan: &Plan, backend: &Backend) -> Part {
    let routes = plan.routes().filter(|route| leads_to(&route.rules, backend));
    let entries = routes.flat_map(|route| {
        let listeners = plan.listeners().filter(|listener| route.listeners.contains(&listener.id));
        listeners
            .map(|listener| entry(&route.id, &listener.id.to_string(), &listener.handling))
            .collect::<Vec<_>>()
    });
    let entries = entries.collect();
    Part {
        entries,
        ..Part::without_conditions(backend.id.to_string(), Health::Good, &upstream(&backend.upstream))
    }
}

fn entry(route: &RouteId, listener: &str, handling: &Handling) -> Entry {
    let passed = matches!(handling, Handling::Passthrough);
    let why = if passed {
        "does not use the policy: a passthrough listener sends the client's TLS on as it is"
    } else {
        "uses it for every connection to the backend"
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
