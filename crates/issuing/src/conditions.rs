//! What listeners say about their certificates: whether every name has one, and if not, what is to be done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_api::ObjectKey;
use tidegate_api::status::{Condition, ConditionStatus, ConditionType, ListenerStatus, Reason, Status};
use tidegate_certs::{Conflict, Demand, Picture, State};
use tidegate_plan::{Hostname, ListenerId, ObjectName};
use tidegate_translate::{Source, Wants};

use crate::demand::{self, is_out_of_reach};
use crate::words::{late_in_words, not_asked_for, some_of, state_in_words};

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

/// A condition's status, reason and message.
pub type Told = (ConditionStatus, Reason, String);

/// Adds to a listener what is told of its certificates.
pub fn tell(listener: &mut ListenerStatus, (status, reason, message): Told) {
    let observed_generation = listener.conditions.first().map_or(0, |first| first.observed_generation);
    let kind = ConditionType::CertificatesIssued;
    listener.conditions.push(Condition { kind, status, reason, message, observed_generation });
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
            let listener = listeners.iter_mut().find(|listener| is_of(&wants.listener, key, set, listener));
            if let Some((listener, told)) = listener.zip(self.told(wants)) {
                tell(listener, told);
            }
        }
    }

    /// `None` where nobody brings a name, or the Secret is somebody else's.
    fn told(&self, wants: &Wants) -> Option<Told> {
        demand::issuer(wants)?;
        let secret = wants.secret.as_ref()?;
        if self.foreign.contains(secret) {
            return None;
        }
        let left_out = not_asked_for(wants);
        if wants.names.is_empty() {
            let message = format!("no name is asked for: {}", some_of(left_out.iter().cloned()));
            return (!left_out.is_empty()).then_some((
                ConditionStatus::False,
                Reason::IssuanceFailed,
                message,
            ));
        }
        let (status, reason, mut message) = self.progress(wants, secret);
        let late: Vec<String> = self.late(wants, secret).collect();
        for (title, more) in [("", late), ("not asked for: ", left_out)] {
            if !more.is_empty() {
                message = format!("{message}; {title}{}", some_of(more));
            }
        }
        Some((status, reason, message))
    }

    fn progress(&self, wants: &Wants, secret: &ObjectName) -> Told {
        let missing: Vec<(&Hostname, &State)> = wants
            .names
            .iter()
            .filter_map(|wanted| Some((&wanted.name, self.state_of(secret, &wanted.name)?)))
            .collect();
        let demand = self.picture.map(|picture| &*picture.demand);
        if let Some(message) = refusal(wants, demand, self.source) {
            (ConditionStatus::False, Reason::IssuanceFailed, message)
        } else if missing.is_empty() {
            let message = format!("all names have a certificate ({})", wants.names.len());
            (ConditionStatus::True, Reason::CertificatesIssued, message)
        } else {
            let failed = missing.iter().any(|(_, state)| is_failure(state));
            let reason = if failed { Reason::IssuanceFailed } else { Reason::Pending };
            let each = missing
                .iter()
                .map(|(name, state)| format!("{name}: {}", state_in_words(state, wants, self.source)));
            (ConditionStatus::False, reason, some_of(each))
        }
    }

    /// The names whose certificate should have been renewed by now.
    fn late(&self, wants: &Wants, secret: &ObjectName) -> impl Iterator<Item = String> {
        let late = self.picture.map(|picture| &picture.late);
        wants.names.iter().filter_map(move |wanted| {
            let late = late?.get(&(secret.clone(), wanted.name.clone()))?;
            Some(late_in_words(&wanted.name, late, wants, self.source))
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

/// Why an issuer of ours makes nothing for a listener, whatever its names, and what to do about it.
#[must_use]
pub fn refusal(wants: &Wants, demand: Option<&Demand>, source: Source) -> Option<String> {
    let (secret, issuer) = (wants.secret.as_ref()?, demand::issuer(wants)?);
    if is_out_of_reach(wants, source) {
        let own = &demand::owner(wants).namespace;
        return Some(format!(
            "Secret {secret} is in another namespace, where none is made; name a Secret of namespace {own}"
        ));
    }
    let is_ours = |conflict: &Conflict| {
        conflict.secret == *secret && conflict.gateway == wants.listener.gateway && conflict.issuer == issuer
    };
    let is_contested = demand.is_some_and(|demand| demand.conflicts.iter().any(is_ours));
    is_contested
        .then(|| format!("Secret {secret} is made by the issuer of another Gateway; name another Secret"))
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

#[cfg(test)]
mod tests {
    use tidegate_api::Kind;
    use tidegate_api::status::GatewayStatus;
    use tidegate_certs::Late;
    use tidegate_translate::{LeftOut, Wanted, WhyLeftOut};

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
    fn an_account_that_cannot_be_had_is_named_with_what_to_do() {
        let mut wants = wants("shop");
        for wants in wants.values_mut() {
            Arc::make_mut(wants).issuer = tidegate_translate::Issuer::Acme { account: Some("corp".into()) };
        }
        let demand = Arc::new(demand::demand(wants.values(), BTreeSet::new(), Source::Cluster));
        let key = (ObjectName::new("shop", "tls"), Hostname::parse("a.example.com").unwrap());
        for (state, beginning) in [
            (State::NoIssuer, "a.example.com: there is no ACME account corp here; name another ("),
            (State::NotPermitted, "a.example.com: ACME account corp is not for Gateways of namespace shop;"),
        ] {
            let missing = BTreeMap::from([(key.clone(), state)]);
            let picture = Picture { demand: Arc::clone(&demand), missing, ..Picture::default() };
            let (reason, message) = said(&wants, Some(&picture), &BTreeSet::new(), Source::Cluster).unwrap();
            assert_eq!(reason, Reason::IssuanceFailed);
            assert!(
                message.starts_with(beginning) && message.contains("certificates.acme.accounts"),
                "{message}"
            );
        }
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

    #[test]
    fn a_renewal_that_fails_is_told_though_there_is_a_certificate() {
        let own = wants("shop");
        let demand = Arc::new(demand::demand(own.values(), BTreeSet::new(), Source::Cluster));
        let key = (ObjectName::new("shop", "tls"), Hostname::parse("a.example.com").unwrap());
        let state = State::SetAside { until: 1_800_000_000, message: "no answer".to_owned() };
        let late = BTreeMap::from([(key, Late { ends: 1_800_086_400, state })]);
        let picture = Picture { demand, late, ..Picture::default() };
        let (reason, message) = said(&own, Some(&picture), &BTreeSet::new(), Source::Folder).unwrap();
        assert_eq!(reason, Reason::CertificatesIssued);
        assert_eq!(
            message,
            "all names have a certificate (1); the certificate of a.example.com ends at 2027-01-16T08:00:00Z and is not renewed: failed: no answer; it is tried again at 2027-01-15T08:00:00Z"
        );
    }

    #[test]
    fn names_that_are_left_out_are_told_with_others_and_alone() {
        let mut own = wants("shop");
        let demand = Arc::new(demand::demand(own.values(), BTreeSet::new(), Source::Cluster));
        let there = Picture { demand, ..Picture::default() };
        let left = |name: &str, why| LeftOut {
            name: Some(Hostname::parse(name).unwrap()),
            route: None,
            why,
            taken_by: None,
        };
        let wide = left("*.example.org", WhyLeftOut::WildcardOfRoute);
        let elsewhere = left("b.example.com", WhyLeftOut::NarrowerListener);
        for wants in own.values_mut() {
            Arc::make_mut(wants).left_out = vec![wide.clone(), elsewhere.clone()];
        }
        let (reason, message) = said(&own, Some(&there), &BTreeSet::new(), Source::Cluster).unwrap();
        assert_eq!(reason, Reason::CertificatesIssued);
        let beginning = "all names have a certificate (1); not asked for: *.example.org: a wildcard is";
        assert!(message.starts_with(beginning) && !message.contains("b.example.com"), "{message}");
        for wants in own.values_mut() {
            Arc::make_mut(wants).names.clear();
        }
        let (reason, message) = said(&own, Some(&there), &BTreeSet::new(), Source::Cluster).unwrap();
        assert_eq!(reason, Reason::IssuanceFailed);
        assert!(message.starts_with("no name is asked for: *.example.org: a wildcard"), "{message}");
        for wants in own.values_mut() {
            Arc::make_mut(wants).left_out = vec![elsewhere.clone()];
        }
        assert_eq!(said(&own, Some(&there), &BTreeSet::new(), Source::Cluster), None, "nothing is amiss");
    }
}
