//! XBackendTrafficPolicy: session persistence and retry budgets of a backend.

use std::sync::Arc;

use tidegate_api::policy::XBackendTrafficPolicy;
use tidegate_api::refs::{EXPERIMENTAL_GROUP, LocalObjectReference};
use tidegate_api::session::{CookieLifetime, SessionType};
use tidegate_api::status::{Condition, ConditionType, Reason};
use tidegate_plan::{BackendKind, Cookie, ObjectName, RetryBudget, SessionKey, SessionPersistence};

use crate::conditions::{Fault, holds, kind_name};
use crate::lookup::Lookup;

#[derive(Default)]
pub(super) struct Traffic {
    pub(super) session: Option<SessionPersistence>,
    pub(super) retry_budget: Option<RetryBudget>,
}

/// What the policy of a backend says; the older one has the say.
pub(super) fn of(backend: &ObjectName, kind: BackendKind, lookup: &Lookup<'_>) -> Traffic {
    let policies = lookup.traffic_policies_of(backend);
    let of_kind = policies.into_iter().filter(|policy| targets(policy, kind, &backend.name));
    let Some(policy) = of_kind.min_by(|a, b| a.meta.precedence().cmp(&b.meta.precedence())) else {
        return Traffic::default();
    };
    let number = |number: i64| u32::try_from(number).expect("read as a small number");
    Traffic {
        session: policy.spec.session_persistence.as_ref().map(session),
        retry_budget: policy.spec.retry_constraint.as_ref().map(|constraint| RetryBudget {
            percent: number(constraint.budget.percent.get()),
            interval: constraint.budget.interval.0,
            minimum: number(constraint.min_retry_rate.count.get()),
            minimum_interval: constraint.min_retry_rate.interval.0,
        }),
    }
}

fn targets(policy: &XBackendTrafficPolicy, kind: BackendKind, name: &str) -> bool {
    policy.spec.target_refs.iter().any(|target| kind_of(target) == Some(kind) && target.name == *name)
}

/// `None` for what no policy can be about.
fn kind_of(target: &LocalObjectReference) -> Option<BackendKind> {
    match (target.group.as_str(), target.kind.as_str()) {
        ("", "Service") => Some(BackendKind::Service),
        (EXPERIMENTAL_GROUP, "XBackend") => Some(BackendKind::XBackend),
        _ => None,
    }
}

pub(crate) fn session(session: &tidegate_api::session::SessionPersistence) -> SessionPersistence {
    let key = match session.kind {
        SessionType::Cookie => {
            SessionKey::Cookie(session.cookie.as_ref().map_or_else(Cookie::default, |cookie| Cookie {
                name: cookie.name.as_ref().map(ToString::to_string),
                path: Some(cookie.path.to_string()),
                permanent: cookie.lifetime_type == CookieLifetime::Permanent,
            }))
        }
        SessionType::Header => SessionKey::Header(
            session
                .header
                .as_ref()
                .map_or_else(String::new, |header| header.name.as_str().to_ascii_lowercase()),
        ),
    };
    SessionPersistence { key, absolute_timeout: session.absolute_timeout.map(|duration| duration.0) }
}

/// What a policy came to, before it is known who uses it.
pub(crate) struct TrafficOutput {
    pub(crate) conditions: Vec<Condition>,
    /// Those whose users are its ancestors.
    pub(crate) backends: Vec<(BackendKind, ObjectName)>,
    pub(crate) fault: Option<Fault>,
}

pub(crate) fn status(policy: &XBackendTrafficPolicy, lookup: &Lookup<'_>) -> TrafficOutput {
    let mut faults = Vec::new();
    let mut backends = Vec::new();
    for (index, target) in policy.spec.target_refs.iter().enumerate() {
        let name = ObjectName::new(Arc::clone(&policy.meta.namespace), target.name.shared());
        let mut refuse = |reason, message: String| {
            faults.push(Fault::new(reason, format!("spec.targetRefs[{index}]: {message}")));
        };
        let Some(kind) = kind_of(target) else {
            let kind = kind_name(target.group.as_str(), target.kind.as_str());
            refuse(Reason::Invalid, format!("{kind} cannot be a target; name a Service or an XBackend"));
            continue;
        };
        let exists = match kind {
            BackendKind::Service => lookup.service(&name).is_some(),
            BackendKind::XBackend => lookup.xbackend(&name).is_some(),
        };
        if !exists {
            let message = format!("{kind} {name} does not exist; create it, or name another");
            refuse(Reason::TargetNotFound, message);
            continue;
        }
        let rivals = lookup.traffic_policies_of(&name);
        let older = rivals.iter().find(|rival| {
            targets(rival, kind, &name.name) && rival.meta.precedence() < policy.meta.precedence()
        });
        if let Some(older) = older {
            let message = format!(
                "XBackendTrafficPolicy {}, which is older or first by name, has the same target; remove one of them",
                older.meta.name
            );
            refuse(Reason::Conflicted, message);
        }
        backends.push((kind, name));
    }
    let fault = Fault::worst(&faults);
    let good = (Reason::Accepted, "the policy is accepted");
    let conditions = vec![holds(ConditionType::Accepted, fault.as_ref(), good, policy.meta.generation)];
    TrafficOutput { conditions, backends, fault }
}
