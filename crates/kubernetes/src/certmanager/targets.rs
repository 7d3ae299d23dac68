//! Which Secrets Certificates are to be made for, with which names and for whom: read from Gateways, ListenerSets and
//! what translation says that their listeners want.
//!
//! A Secret of a listener that is ours is a target for as long as the listener names it, whether it has names at the
//! moment or not: a Gateway that is not accepted for a while loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_api::gateway::{Gateway, ListenerSet};
use tidegate_api::listener::{Listener, TlsMode};
use tidegate_api::refs::SecretReference;
use tidegate_api::{Kind, Meta, ObjectKey};
use tidegate_certs::Grouping;
use tidegate_plan::{Hostname, ListenerId, ObjectName, RouteId, RouteKind};
use tidegate_translate::{ISSUED_BY, Issuer, Resources, Translation, Wanted, Wants};

use super::annotations::{self, Asked, IssuerRef};
use super::there::There;

/// By which the Gateway's owner says that Tidegate itself makes certificates.
const OWN_ISSUER: &str = "gateway.tidegate.io/issuer";
/// By which cert-manager says which Certificate a Secret was made for.
const MADE_FOR: &str = "cert-manager.io/certificate-name";
/// Routes that cert-manager makes to answer challenges; they ask for no certificate.
const SOLVER_LABEL: &str = "acme.cert-manager.io/http01-solver";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// By the Secret that the listeners name.
    pub all: BTreeMap<ObjectName, Target>,
    /// Listeners that would be ours, and why nothing is asked for them.
    pub refused: BTreeMap<ListenerId, String>,
    /// Which Secret each listener of ours names.
    pub listeners: BTreeMap<ListenerId, ObjectName>,
    /// What is wrong with annotations.
    pub notes: BTreeMap<ObjectKey, Vec<String>>,
}

impl Targets {
    /// The Gateways of listeners that are ours, or would be.
    pub(super) fn gateways(&self) -> impl Iterator<Item = &ObjectName> {
        self.listeners.keys().chain(self.refused.keys()).map(|listener| &listener.gateway)
    }
}

/// A Secret that Certificates are to be made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub secret: ObjectName,
    pub gateway: ObjectName,
    pub(super) owner: Owner,
    /// Each name with those that it shares a Certificate with.
    pub(super) names: BTreeMap<Hostname, Arc<str>>,
    pub(super) asked: Arc<Asked>,
    /// Annotations of the Certificates by which cert-manager finds the way for challenges.
    pub(super) parent: BTreeMap<String, String>,
}

impl Target {
    #[must_use]
    pub fn issuer(&self) -> &IssuerRef {
        &self.asked.issuer
    }

    /// Why names are put together the way they are, for people.
    #[must_use]
    pub fn reason(&self, most: usize) -> String {
        match self.asked.together {
            Grouping::Listener => format!("all names of a Secret, {most} at most"),
            Grouping::Namespace => format!("names of one namespace, {most} at most"),
            Grouping::Name => "one Certificate for each name".to_owned(),
        }
    }
}

/// The Gateway or ListenerSet that Certificates belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) kind: Kind,
    pub(super) name: ObjectName,
    pub(super) uid: String,
}

impl Owner {
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind, name: self.name.clone() }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Reads them all. `together` is which names share a Certificate where annotations do not say.
#[must_use]
pub fn targets(
    translation: &Translation,
    resources: &Resources,
    there: &There,
    together: Grouping,
) -> Targets {
    let mut reader =
        Reader { translation, resources, together, found: Targets::default(), claims: Vec::new() };
    for gateway in translation.gateways().filter_map(|name| resources.gateways.get(name)) {
        reader.gateway(gateway);
    }
    let Reader { mut found, claims, .. } = reader;
    for claim in claims {
        settle(claim, resources, there, &mut found);
    }
    found
}

/// A listener's wish for a Secret.
struct Claim {
    listener: ListenerId,
    created: i64,
    target: Target,
}

struct Reader<'a> {
    translation: &'a Translation,
    resources: &'a Resources,
    together: Grouping,
    found: Targets,
    claims: Vec<Claim>,
}

/// The object that listeners are written in.
struct Holder<'a> {
    meta: &'a Meta,
    owner: Owner,
    gateway: ObjectName,
    listeners: &'a [Listener],
    /// What holds for all of its listeners.
    asked: Arc<Asked>,
    parent: BTreeMap<String, String>,
}

impl<'a> Reader<'a> {
    fn gateway(&mut self, gateway: &'a Gateway) {
        let name = gateway.meta.object_name();
        let is_own = |wants: &Arc<Wants>| !matches!(wants.issuer, Issuer::CertManager { .. });
        self.sets_alone(gateway, &name);
        if gateway.meta.deleting
            || !annotations::has_issuer(&gateway.meta)
            || gateway.meta.annotation(OWN_ISSUER).is_some()
            || self.translation.wants_of(&name).any(is_own)
        {
            return;
        }
        let of_gateway = self.asked(&gateway.meta, Kind::Gateway);
        self.holder(&gateway.meta, Kind::Gateway, &name, &gateway.spec.listeners, &of_gateway, |_| {
            parent("Gateway", &name.name, None)
        });
        let sets: Vec<&Arc<ListenerSet>> = self.resources.listener_sets_of(&name).collect();
        for set in sets.into_iter().filter(|set| !set.meta.deleting) {
            // Who shares a Gateway may have another issuer than its owner.
            let own = annotations::has_issuer(&set.meta).then(|| self.asked(&set.meta, Kind::ListenerSet));
            let asked = own.as_ref().unwrap_or(&of_gateway);
            self.holder(&set.meta, Kind::ListenerSet, &name, &set.spec.listeners, asked, |meta| {
                parent_of_set(meta, &name)
            });
        }
    }

    /// ListenerSets with an issuer on a Gateway without one: its owner has not said that names of routes are asked for.
    fn sets_alone(&mut self, gateway: &Gateway, name: &ObjectName) {
        if annotations::has_issuer(&gateway.meta)
            || gateway.meta.annotation(OWN_ISSUER).is_some()
            || self.translation.wants_of(name).next().is_some()
        {
            return;
        }
        let sets = self.resources.listener_sets_of(name).filter(|set| annotations::has_issuer(&set.meta));
        let why = format!(
            "names of routes are asked for where the Gateway has an issuer as well: annotate Gateway {name} with cert-manager.io/issuer or cluster-issuer, or write a hostname in the listener"
        );
        for set in sets {
            let open = set.spec.listeners.iter().filter(|each| ends_tls(each) && each.hostname.is_none());
            self.found.refused.extend(open.map(|listener| {
                let listener_set = Some(set.meta.object_name());
                (
                    ListenerId { gateway: name.clone(), listener_set, name: listener.name.shared() },
                    why.clone(),
                )
            }));
        }
    }

    fn asked(&mut self, meta: &Meta, kind: Kind) -> Result<Arc<Asked>, String> {
        let mut notes = Vec::new();
        let asked = annotations::read(meta, self.together, &mut notes);
        notes.extend(asked.as_ref().err().cloned());
        if !notes.is_empty() {
            self.found.notes.insert(ObjectKey { kind, name: meta.object_name() }, notes);
        }
        asked.map(Arc::new)
    }

    fn holder(
        &mut self,
        meta: &'a Meta,
        kind: Kind,
        gateway: &ObjectName,
        listeners: &'a [Listener],
        asked: &Result<Arc<Asked>, String>,
        parent: impl Fn(&Meta) -> BTreeMap<String, String>,
    ) {
        let name = meta.object_name();
        let id = |listener: &Listener| ListenerId {
            gateway: gateway.clone(),
            listener_set: (kind == Kind::ListenerSet).then(|| name.clone()),
            name: listener.name.shared(),
        };
        match asked {
            Ok(asked) => {
                let holder = Holder {
                    meta,
                    owner: Owner { kind, name: name.clone(), uid: meta.uid.clone() },
                    gateway: gateway.clone(),
                    listeners,
                    asked: Arc::clone(asked),
                    parent: parent(meta),
                };
                for listener in listeners.iter().filter(|listener| ends_tls(listener)) {
                    self.listener(&holder, listener, id(listener));
                }
            }
            Err(why) => {
                let open = listeners.iter().filter(|each| ends_tls(each) && each.hostname.is_none());
                self.found.refused.extend(open.map(|listener| (id(listener), why.clone())));
            }
        }
    }

    fn listener(&mut self, holder: &Holder<'a>, listener: &Listener, id: ListenerId) {
        let is_open = listener.hostname.is_none() && !annotations::is_ignored(holder.meta, &id.name);
        let Some(secret) = first_secret(listener, holder.meta) else { return };
        if !is_open && !holder.asked.all_listeners {
            return;
        }
        if secret.namespace != holder.meta.namespace {
            let why = format!(
                "Secret {secret} is not in the namespace of {}, and a Certificate is made beside its owner; name a Secret of that namespace",
                holder.owner
            );
            self.found.refused.insert(id, why);
            return;
        }
        if let Some(other) = of_the_shim(holder, &secret) {
            let why = format!(
                "Secret {secret} is also named by listener {other}, which has a hostname: cert-manager's gateway-shim makes it; name another Secret"
            );
            self.found.refused.insert(id, why);
            return;
        }
        let wants = self.translation.wants.get(&id);
        let names = wants.into_iter().flat_map(|wants| &wants.names);
        let mut names: BTreeMap<Hostname, Arc<str>> =
            names.filter_map(|wanted| Some((wanted.name.clone(), self.group(wanted, holder)?))).collect();
        for name in &holder.asked.alt_names {
            let group = together(holder, name, &holder.meta.namespace);
            names.entry(name.clone()).or_insert(group);
        }
        let target = Target {
            secret,
            gateway: holder.gateway.clone(),
            owner: holder.owner.clone(),
            names,
            asked: Arc::clone(&holder.asked),
            parent: holder.parent.clone(),
        };
        self.claims.push(Claim { listener: id, created: holder.meta.created, target });
    }

    /// Whom a name shares a Certificate with; `None` where only challenges have it.
    fn group(&self, wanted: &Wanted, holder: &Holder<'_>) -> Option<Arc<str>> {
        let route = wanted.routes.iter().find(|route| !self.is_solver(route));
        let namespace = match route {
            Some(route) => &route.object.namespace,
            None if wanted.routes.is_empty() => &holder.meta.namespace,
            None => return None,
        };
        Some(together(holder, &wanted.name, namespace))
    }

    fn is_solver(&self, route: &RouteId) -> bool {
        route.kind == RouteKind::Http
            && self
                .resources
                .http_routes
                .get(&route.object)
                .is_some_and(|route| route.meta.labels.contains_key(SOLVER_LABEL))
    }
}

fn together(holder: &Holder<'_>, name: &Hostname, namespace: &Arc<str>) -> Arc<str> {
    match holder.asked.together {
        Grouping::Namespace => Arc::clone(namespace),
        Grouping::Listener => "".into(),
        Grouping::Name => name.as_str().into(),
    }
}

fn ends_tls(listener: &Listener) -> bool {
    let mode = listener.tls.as_ref().and_then(|tls| tls.mode);
    matches!(listener.protocol.as_str(), "HTTPS" | "TLS") && mode != Some(TlsMode::Passthrough)
}

fn named(reference: &SecretReference, meta: &Meta) -> Option<ObjectName> {
    let is_secret = reference.group == "" && reference.kind == "Secret";
    let namespace = reference.namespace.as_ref().map_or(&*meta.namespace, |name| name.as_str());
    is_secret.then(|| ObjectName::new(namespace, reference.name.shared()))
}

/// Where an issuer puts a certificate.
fn first_secret(listener: &Listener, meta: &Meta) -> Option<ObjectName> {
    named(listener.tls.as_ref()?.certificate_refs.first()?, meta)
}

/// The listener for which cert-manager's gateway-shim makes a Secret.
fn of_the_shim<'a>(holder: &Holder<'a>, secret: &ObjectName) -> Option<&'a str> {
    if holder.asked.all_listeners || !annotations::has_issuer(holder.meta) {
        return None;
    }
    let shims = holder.listeners.iter().filter(|listener| {
        ends_tls(listener)
            && listener.hostname.is_some()
            && !annotations::is_ignored(holder.meta, listener.name.as_str())
    });
    let names_it = |listener: &&Listener| {
        let references = listener.tls.iter().flat_map(|tls| tls.certificate_refs.iter());
        references.into_iter().any(|reference| named(reference, holder.meta).as_ref() == Some(secret))
    };
    shims.into_iter().find(names_it).map(|listener| listener.name.as_str())
}

/// Where cert-manager attaches the routes that answer challenges, as the gateway-shim says it.
fn parent(kind: &str, name: &str, namespace: Option<&str>) -> BTreeMap<String, String> {
    let namespace = namespace.map(|namespace| ("http01-parentrefnamespace", namespace));
    let entries =
        [("http01-parentrefkind", kind), ("http01-parentrefname", name)].into_iter().chain(namespace);
    entries.map(|(key, value)| (format!("acme.cert-manager.io/{key}"), value.to_owned())).collect()
}

fn parent_of_set(meta: &Meta, gateway: &ObjectName) -> BTreeMap<String, String> {
    let fallback = meta.annotation("acme.cert-manager.io/http01-parentreffallback");
    if fallback.is_some_and(|text| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")) {
        parent("Gateway", &gateway.name, Some(&gateway.namespace))
    } else {
        parent("ListenerSet", &meta.name, None)
    }
}

/// Joins listeners of one owner that name one Secret. Of two owners the one has it that its Certificate belongs to
/// already, then the older.
fn settle(claim: Claim, resources: &Resources, there: &There, found: &mut Targets) {
    let secret = claim.target.secret.clone();
    if is_foreign(&secret, resources, there) {
        let why = format!(
            "Secret {secret} exists and was not made for a Certificate of Tidegate's: it is used as it is; name another Secret, or delete it"
        );
        found.refused.insert(claim.listener, why);
        return;
    }
    let rank = |target: &Target, created: i64| {
        let has_it = there
            .owner(&secret)
            .is_some_and(|(kind, name)| kind == target.owner.kind && *name == target.owner.name);
        (!has_it, created, target.owner.clone())
    };
    let created = |owner: &Owner| {
        let key = ObjectKey { kind: owner.kind, name: owner.name.clone() };
        resources.get(&key).map_or(0, |object| object.meta().created)
    };
    match found.all.get_mut(&secret) {
        None => {
            found.listeners.insert(claim.listener, secret.clone());
            found.all.insert(secret, claim.target);
        }
        Some(first) if first.owner == claim.target.owner => {
            found.listeners.insert(claim.listener, secret);
            for (name, group) in claim.target.names {
                first.names.entry(name).or_insert(group);
            }
        }
        Some(first) if rank(first, created(&first.owner)) <= rank(&claim.target, claim.created) => {
            found.refused.insert(claim.listener, shared(&secret, &first.owner));
        }
        Some(first) => {
            let why = shared(&secret, &claim.target.owner);
            *first = claim.target;
            let losers: Vec<ListenerId> = found
                .listeners
                .iter()
                .filter(|(_, named)| **named == secret)
                .map(|(id, _)| id.clone())
                .collect();
            for loser in losers {
                found.listeners.remove(&loser);
                found.refused.insert(loser, why.clone());
            }
            found.listeners.insert(claim.listener, secret);
        }
    }
}

fn shared(secret: &ObjectName, owner: &Owner) -> String {
    format!("Secret {secret} is made for {owner}; name another Secret")
}

/// The Secrets that were made for no Certificate of ours: their names cannot be had.
#[must_use]
pub fn taken(resources: &Resources) -> BTreeSet<ObjectName> {
    let others = resources
        .secrets
        .iter()
        .filter(|(name, secret)| !is_made_for(name, |key| secret.meta.annotation(key)));
    others.map(|(name, _)| name.clone()).collect()
}

/// Whether there is a Secret that somebody else made. Once a Certificate of ours is there, it is cert-manager's.
fn is_foreign(secret: &ObjectName, resources: &Resources, there: &There) -> bool {
    let Some(found) = resources.secrets.get(secret) else { return false };
    !is_made_for(secret, |key| found.meta.annotation(key)) && there.owner(secret).is_none()
}

/// Whether a Secret with these annotations was made for the Certificate of its name, and that one is of ours.
pub(super) fn is_made_for<'a>(
    certificate: &ObjectName,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    annotation(MADE_FOR) == Some(&*certificate.name) && annotation(ISSUED_BY).is_some()
}
