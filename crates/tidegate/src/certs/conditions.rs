//! What listeners say about their certificates: whether every name has one, and if not, what is to be done.

use std::collections::BTreeSet;

use tidegate_api::ObjectKey;
use tidegate_api::status::{Condition, ConditionStatus, ConditionType, ListenerStatus, Reason, Status};
use tidegate_certs::{Picture, State};
use tidegate_plan::{Hostname, ListenerId, ObjectName};
use tidegate_translate::Wants;

use crate::certs::demand;
use crate::meaning::Meaning;
use crate::words;

/// Of so many names it is said what they wait for.
const SHOWN: usize = 5;

/// Adds the condition to each listener that wants certificates of an issuer of ours.
pub(crate) fn add(status: &mut Status, key: &ObjectKey, meaning: &Meaning) {
    let picture = meaning.issuance.as_deref();
    let (listeners, gateway) = match status {
        Status::Gateway(status) => (&mut status.listeners, None),
        Status::ListenerSet(status) => (&mut status.listeners, Some(key)),
        _ => return,
    };
    let foreign = meaning.manifests.foreign_secrets();
    for wants in meaning.translation().wants.values() {
        if let Some(listener) =
            listeners.iter_mut().find(|listener| is_of(&wants.listener, key, gateway, listener))
        {
            let generation = listener.conditions.first().map_or(0, |condition| condition.observed_generation);
            listener.conditions.extend(condition(wants, picture, &foreign, generation));
        }
    }
}

fn is_of(id: &ListenerId, key: &ObjectKey, set: Option<&ObjectKey>, listener: &ListenerStatus) -> bool {
    let owner = match set {
        Some(set) => id.listener_set.as_ref() == Some(&set.name),
        None => id.listener_set.is_none() && id.gateway == key.name,
    };
    owner && id.name == listener.name
}

/// `None` where nothing is asked for, or the Secret is somebody else's. Where there is no picture, nobody makes any.
fn condition(
    wants: &Wants,
    picture: Option<&Picture>,
    foreign: &BTreeSet<ObjectName>,
    generation: i64,
) -> Option<Condition> {
    let issuer = demand::issuer(wants)?;
    let secret = wants.secret.as_ref()?;
    if wants.names.is_empty() || foreign.contains(secret) {
        return None;
    }
    let state_of = |name: &Hostname| {
        let Some(picture) = picture else { return Some(&State::NoIssuer) };
        let target = picture.demand.targets.get(secret);
        let is_news = target.is_none_or(|target| !target.names.contains_key(name));
        picture.missing.get(&(secret.clone(), name.clone())).or(is_news.then_some(&State::Queued))
    };
    let missing: Vec<(&Hostname, &State)> =
        wants.names.iter().filter_map(|wanted| Some((&wanted.name, state_of(&wanted.name)?))).collect();
    let is_contested = picture.is_some_and(|picture| {
        picture.demand.conflicts.iter().any(|conflict| {
            conflict.secret == *secret
                && conflict.gateway == wants.listener.gateway
                && conflict.issuer == issuer
        })
    });
    let (status, reason, message) = if is_contested {
        let message =
            format!("Secret {secret} is made by the issuer of another Gateway; name another Secret");
        (ConditionStatus::False, Reason::IssuanceFailed, message)
    } else if missing.is_empty() {
        let message = format!("all names have a certificate ({})", wants.names.len());
        (ConditionStatus::True, Reason::CertificatesIssued, message)
    } else {
        let failed = missing.iter().any(|(_, state)| is_failure(state));
        let reason = if failed { Reason::IssuanceFailed } else { Reason::Pending };
        (ConditionStatus::False, reason, told(&missing))
    };
    Some(Condition {
        kind: ConditionType::CertificatesIssued,
        status,
        reason,
        message,
        observed_generation: generation,
    })
}

const fn is_failure(state: &State) -> bool {
    !matches!(state, State::Gathering { .. } | State::Ordered | State::Queued)
}

fn told(missing: &[(&Hostname, &State)]) -> String {
    let each: Vec<String> = missing
        .iter()
        .take(SHOWN)
        .map(|(name, state)| format!("{name}: {}", state_in_words(state)))
        .collect();
    let more = missing.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; and {more} more names") } else { String::new() };
    format!("{}{more}", each.join("; "))
}

/// Why a name has no certificate, and what to do about it.
pub(crate) fn state_in_words(state: &State) -> String {
    match state {
        State::Gathering { .. } => "waits a moment for other names".to_owned(),
        State::Ordered => "is being asked for".to_owned(),
        State::Queued => "waits for its turn".to_owned(),
        State::SetAside { until, message } => {
            format!("failed: {message}; it is tried again at {}", words::time(*until))
        }
        State::IssuerHeld { until, message } => {
            format!("the issuer is asked again at {}: {message}", words::time(*until))
        }
        State::OverBudget(pool) => format!(
            "{pool} has had its orders of this week; raise the budget, or have fewer names (--orders-per-gateway, --orders-per-namespace, --orders-per-domain)"
        ),
        State::NoIssuer => "the issuer is not set up here; start with --certs and --state".to_owned(),
    }
}

/// `Secret infra/tls`.
pub(crate) fn secret_in_words(secret: &ObjectName) -> String {
    format!("Secret {secret}")
}
