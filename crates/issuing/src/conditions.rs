//! What listeners say about their certificates: whether every name has one, and if not, what is to be done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tidegate_api::ObjectKey;
use tidegate_api::status::{Condition, ConditionStatus, ConditionType, ListenerStatus, Reason, Status};
use tidegate_certs::{Picture, Seconds, State};
use tidegate_plan::{Hostname, ListenerId, ObjectName};
use tidegate_translate::{Source, Wants};

use crate::demand::{self, is_out_of_reach};

/// Of so many names it is said what they wait for.
const SHOWN: usize = 5;

/// All that there is to be known about certificates at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Issuing<'a> {
    pub wants: &'a BTreeMap<ListenerId, Arc<Wants>>,
    /// Where there is none, nobody makes certificates.
    pub picture: Option<&'a Picture>,
    /// Secrets that others wrote.
    pub foreign: &'a BTreeSet<ObjectName>,
    pub source: Source,
}

impl Issuing<'_> {
    /// Adds the condition to each listener that wants certificates of an issuer of ours.
    pub fn add(&self, status: &mut Status, key: &ObjectKey) {
        let (listeners, set) = match status {
            Status::Gateway(status) => (&mut status.listeners, None),
            Status::ListenerSet(status) => (&mut status.listeners, Some(key)),
            _ => return,
        };
        // The listeners of a Gateway stand together; those of a set, with its Gateway's.
        let first = ListenerId { gateway: key.name.clone(), listener_set: None, name: "".into() };
        let own = self.wants.range(first..).take_while(|(id, _)| set.is_none() && id.gateway == key.name);
        let of_set = self.wants.iter().filter(|_| set.is_some());
        for (_, wants) in own.chain(of_set) {
            if let Some(listener) =
                listeners.iter_mut().find(|listener| is_of(&wants.listener, key, set, listener))
            {
                let generation =
                    listener.conditions.first().map_or(0, |condition| condition.observed_generation);
                listener.conditions.extend(self.condition(wants, generation));
            }
        }
    }

    /// `None` where nothing is asked for, or the Secret is somebody else's.
    fn condition(&self, wants: &Wants, generation: i64) -> Option<Condition> {
        let issuer = demand::issuer(wants)?;
        let secret = wants.secret.as_ref()?;
        if wants.names.is_empty() || self.foreign.contains(secret) {
            return None;
        }
        let missing: Vec<(&Hostname, &State)> = wants
            .names
            .iter()
            .filter_map(|wanted| Some((&wanted.name, self.state_of(secret, &wanted.name)?)))
            .collect();
        let is_contested = self.picture.is_some_and(|picture| {
            picture.demand.conflicts.iter().any(|conflict| {
                conflict.secret == *secret
                    && conflict.gateway == wants.listener.gateway
                    && conflict.issuer == issuer
            })
        });
        let (status, reason, message) = if is_out_of_reach(wants, self.source) {
            let own = &demand::owner(wants).namespace;
            let message = format!(
                "Secret {secret} is in another namespace, where none is made; name a Secret of namespace {own}"
            );
            (ConditionStatus::False, Reason::IssuanceFailed, message)
        } else if is_contested {
            let message =
                format!("Secret {secret} is made by the issuer of another Gateway; name another Secret");
            (ConditionStatus::False, Reason::IssuanceFailed, message)
        } else if missing.is_empty() {
            let message = format!("all names have a certificate ({})", wants.names.len());
            (ConditionStatus::True, Reason::CertificatesIssued, message)
        } else {
            let failed = missing.iter().any(|(_, state)| is_failure(state));
            let reason = if failed { Reason::IssuanceFailed } else { Reason::Pending };
            (ConditionStatus::False, reason, told(&missing, self.source))
        };
        Some(Condition {
            kind: ConditionType::CertificatesIssued,
            status,
            reason,
            message,
            observed_generation: generation,
        })
    }

    /// `None`: it has a certificate.
    fn state_of(&self, secret: &ObjectName, name: &Hostname) -> Option<&State> {
        let Some(picture) = self.picture else { return Some(&State::NoIssuer) };
        let target = picture.demand.targets.get(secret);
        let is_news = target.is_none_or(|target| !target.names.contains_key(name));
        picture.missing.get(&(secret.clone(), name.clone())).or(is_news.then_some(&State::Queued))
    }
}

fn is_of(id: &ListenerId, key: &ObjectKey, set: Option<&ObjectKey>, listener: &ListenerStatus) -> bool {
    let owner = match set {
        Some(set) => id.listener_set.as_ref() == Some(&set.name),
        None => id.listener_set.is_none() && id.gateway == key.name,
    };
    owner && id.name == listener.name
}

const fn is_failure(state: &State) -> bool {
    !matches!(state, State::Gathering { .. } | State::Ordered | State::Queued)
}

fn told(missing: &[(&Hostname, &State)], source: Source) -> String {
    let each: Vec<String> = missing
        .iter()
        .take(SHOWN)
        .map(|(name, state)| format!("{name}: {}", state_in_words(state, source)))
        .collect();
    let more = missing.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; and {more} more names") } else { String::new() };
    format!("{}{more}", each.join("; "))
}

/// Why a name has no certificate, and what to do about it.
#[must_use]
pub fn state_in_words(state: &State, source: Source) -> String {
    match state {
        State::Gathering { .. } => "waits a moment for other names".to_owned(),
        State::Ordered => "is being asked for".to_owned(),
        State::Queued => "waits for its turn".to_owned(),
        State::SetAside { until, message } => {
            format!("failed: {message}; it is tried again at {}", time(*until))
        }
        State::IssuerHeld { until, message } => {
            format!("the issuer is asked again at {}: {message}", time(*until))
        }
        State::OverBudget(pool) => format!(
            "{pool} has had its orders of this week; raise the budget, or have fewer names (--orders-per-gateway, --orders-per-namespace, --orders-per-domain)"
        ),
        State::NoIssuer => match source {
            Source::Folder => "the issuer is not set up here; start with --certs and --state".to_owned(),
            Source::Cluster => {
                "the controller does not have this issuer; switch it on (--issuer, certificates.issuers of the chart)"
                    .to_owned()
            }
        },
    }
}

/// `Secret infra/tls`.
#[must_use]
pub fn secret_in_words(secret: &ObjectName) -> String {
    format!("Secret {secret}")
}

fn time(seconds: Seconds) -> String {
    let since = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use tidegate_api::Kind;
    use tidegate_api::status::GatewayStatus;
    use tidegate_certs::Demand;
    use tidegate_translate::Wanted;

    use super::*;

    fn wants(secret_namespace: &str) -> BTreeMap<ListenerId, Arc<Wants>> {
        let listener =
            ListenerId { gateway: ObjectName::new("shop", "web"), listener_set: None, name: "https".into() };
        let name = Hostname::parse("a.example.com").unwrap();
        let wants = Wants {
            listener: listener.clone(),
            issuer: tidegate_translate::Issuer::Embedded,
            secret: Some(ObjectName::new(secret_namespace, "tls")),
            names: vec![Wanted { name, routes: Vec::new() }],
            stand_in: None,
            left_out: Vec::new(),
        };
        BTreeMap::from([(listener, Arc::new(wants))])
    }

    fn said(
        wants: &BTreeMap<ListenerId, Arc<Wants>>,
        picture: Option<&Picture>,
        foreign: &BTreeSet<ObjectName>,
        source: Source,
    ) -> Option<(Reason, String)> {
        let listener = ListenerStatus {
            name: "https".into(),
            supported_kinds: Vec::new(),
            attached_routes: 0,
            conditions: Vec::new(),
        };
        let mut status = Status::Gateway(GatewayStatus {
            addresses: Vec::new(),
            conditions: Vec::new(),
            listeners: vec![listener],
            attached_listener_sets: 0,
        });
        let key = ObjectKey { kind: Kind::Gateway, name: ObjectName::new("shop", "web") };
        Issuing { wants, picture, foreign, source }.add(&mut status, &key);
        let Status::Gateway(status) = status else { panic!("another status") };
        let condition = status.listeners[0].conditions.first();
        condition.map(|condition| (condition.reason, condition.message.clone()))
    }

    #[test]
    fn in_a_cluster_nothing_is_made_in_another_namespace() {
        let (elsewhere, nothing) = (wants("bank"), BTreeSet::new());
        let asked = |source| demand::demand(elsewhere.values(), BTreeSet::new(), source);
        assert_eq!(asked(Source::Cluster), Demand::default());
        assert_eq!(asked(Source::Folder).targets.len(), 1);
        let picture = Picture::default();
        let (reason, message) = said(&elsewhere, Some(&picture), &nothing, Source::Cluster).unwrap();
        assert_eq!(reason, Reason::IssuanceFailed);
        assert!(message.ends_with("name a Secret of namespace shop"), "{message}");
    }

    #[test]
    fn what_is_said_is_what_there_is() {
        let (own, nothing) = (wants("shop"), BTreeSet::new());
        let reason = |picture: Option<&Picture>| {
            said(&own, picture, &nothing, Source::Cluster).map(|(reason, _)| reason)
        };
        assert_eq!(reason(None), Some(Reason::IssuanceFailed), "nobody makes any");
        assert_eq!(reason(Some(&Picture::default())), Some(Reason::Pending), "nobody has looked yet");
        let demand = Arc::new(demand::demand(own.values(), BTreeSet::new(), Source::Cluster));
        let there = Picture { demand, ..Picture::default() };
        assert_eq!(reason(Some(&there)), Some(Reason::CertificatesIssued));
        let foreign = BTreeSet::from([ObjectName::new("shop", "tls")]);
        assert_eq!(said(&own, Some(&there), &foreign, Source::Cluster), None, "it is somebody's own");
    }
}
