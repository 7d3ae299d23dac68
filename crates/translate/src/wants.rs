//! Which names the certificate of a listener should have, for Gateways that have an issuer.
//!
//! The hostname of a Gateway's listener is its owner's word. Others' names, of ListenerSets and of the routes that a
//! listener without a hostname took, or a wide one whose certificate does not cover them, are held to the bounds that
//! the Gateway's owner set; for each that is left out it is said why.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_plan::{Hostname, ListenerId, RouteId, RouteKind};

use crate::gateway::{GatewayView, ListenerView, Protocol};
use crate::issuer::IssuerView;
use crate::route::RouteOutput;
use crate::translation::{Issuer, LeftOut, Verdict, Wanted, Wants, WhyLeftOut};

/// A route as far as names are concerned.
#[derive(Clone, Copy)]
pub(crate) struct RouteNames<'a> {
    pub(crate) id: &'a RouteId,
    pub(crate) created: i64,
    /// As written.
    pub(crate) hostnames: &'a [Hostname],
    pub(crate) output: &'a RouteOutput,
}

/// `others` are the Gateways that share its ports.
pub(crate) fn of_gateway(
    view: &GatewayView,
    others: &[&GatewayView],
    routes: &[RouteNames<'_>],
) -> BTreeMap<ListenerId, Wants> {
    let Some(issuer) = &view.issuer else { return BTreeMap::new() };
    if view.not_accepted().is_some() {
        return BTreeMap::new();
    }
    let takers = Takers::of(others.iter().copied().chain([view]));
    let mut candidates = Vec::new();
    let mut all = BTreeMap::new();
    for listener in view.all_listeners().filter(|listener| listener.is_accepted()) {
        if matches!(listener.protocol, Some(Protocol::Https | Protocol::Tls)) {
            let wants = of_listener(listener, issuer, &takers, routes, &mut candidates);
            all.insert(listener.id.clone(), wants);
        }
    }
    apply_limits(candidates, issuer, &mut all);
    for wants in all.values_mut() {
        wants.names.sort();
        wants.left_out.sort();
    }
    all
}

/// A name that somebody other than the Gateway's owner brings, so that the limits hold for it.
struct Candidate<'a> {
    listener: &'a ListenerId,
    name: &'a Hostname,
    /// Oldest first; empty where a ListenerSet brings it.
    routes: Vec<&'a RouteNames<'a>>,
}

impl Candidate<'_> {
    fn namespace(&self) -> &str {
        let set = self.listener.listener_set.as_ref().map_or(&self.listener.gateway, |set| set);
        self.routes.first().map_or(&set.namespace, |route| &route.id.object.namespace)
    }

    /// Names of ListenerSets go first, then those of older routes, so that nobody who comes later takes the
    /// place of another.
    fn precedence(&self) -> (Option<(i64, &RouteId)>, &Hostname, &ListenerId) {
        (self.routes.first().map(|route| (route.created, route.id)), self.name, self.listener)
    }
}

fn of_listener<'a>(
    listener: &'a ListenerView,
    issuer: &IssuerView,
    takers: &Takers<'_>,
    routes: &'a [RouteNames<'a>],
    candidates: &mut Vec<Candidate<'a>>,
) -> Wants {
    let mut wants = Wants {
        listener: listener.id.clone(),
        issuer: issuer.issuer.clone(),
        secret: listener.secret.clone(),
        names: Vec::new(),
        stand_in: issuer.stand_in,
        left_out: Vec::new(),
    };
    let Some(hostname) = listener.hostname.as_ref().filter(|_| !listener.is_passthrough()) else {
        infer(listener, issuer, takers, routes, None, &mut wants, candidates);
        return wants;
    };
    let mut leave_out = |why| {
        wants.left_out.push(LeftOut { name: Some(hostname.clone()), route: None, why, taken_by: None });
    };
    let mut covered = Some(hostname);
    // Over HTTP-01 and TLS-ALPN-01 nobody gets a wildcard.
    if hostname.is_wildcard() && matches!(issuer.issuer, Issuer::Acme { .. }) {
        leave_out(WhyLeftOut::IssuerWithoutWildcards);
        covered = None;
    } else if listener.id.listener_set.is_none() {
        wants.names.push(Wanted { name: hostname.clone(), routes: Vec::new() });
    } else if issuer.allows(hostname) {
        candidates.push(Candidate { listener: &listener.id, name: hostname, routes: Vec::new() });
    } else {
        leave_out(WhyLeftOut::NotOnAllowList);
        covered = None;
    }
    if hostname.is_wildcard() {
        infer(listener, issuer, takers, routes, covered, &mut wants, candidates);
    }
    wants
}

/// Whether a certificate for one name is good for the other: a wildcard stands for one label.
fn covers(own: &Hostname, name: &Hostname) -> bool {
    let below = || name.as_str().split_once('.').is_some_and(|(_, rest)| rest == own.base());
    own == name || (own.is_wildcard() && !name.is_wildcard() && below())
}

/// The names that routes bring, besides those that `covered` is good for.
fn infer<'a>(
    listener: &'a ListenerView,
    issuer: &IssuerView,
    takers: &Takers<'_>,
    routes: &'a [RouteNames<'a>],
    covered: Option<&Hostname>,
    wants: &mut Wants,
    candidates: &mut Vec<Candidate<'a>>,
) {
    let mut carriers: BTreeMap<&Hostname, Vec<&RouteNames<'_>>> = BTreeMap::new();
    for route in routes.iter().filter(|route| !matches!(route.id.kind, RouteKind::Tcp | RouteKind::Udp)) {
        let mut leave_out = |name: Option<&Hostname>, why, taken_by: Option<&ListenerId>| {
            let (name, route, taken_by) = (name.cloned(), Some(route.id.clone()), taken_by.cloned());
            wants.left_out.push(LeftOut { name, route, why, taken_by });
        };
        let Some(accepted) = route.output.accepted.iter().find(|accepted| accepted.listener == listener.id)
        else {
            if let Some(why) = refused(route, listener) {
                route.hostnames.iter().for_each(|name| leave_out(Some(name), why, None));
            }
            continue;
        };
        if listener.is_passthrough() {
            route.hostnames.iter().for_each(|name| leave_out(Some(name), WhyLeftOut::Passthrough, None));
            continue;
        }
        if route.hostnames.is_empty() {
            // It takes whatever the listener has a certificate for.
            if covered.is_none() {
                leave_out(None, WhyLeftOut::RouteWithoutHostnames, None);
            }
            continue;
        }
        let outside = |name: &&Hostname| listener.hostname.as_ref().is_some_and(|own| !own.intersects(name));
        for name in route.hostnames.iter().filter(outside) {
            leave_out(Some(name), WhyLeftOut::OutsideListenerHostname, None);
        }
        let others = |name: &&Hostname| covered.is_none_or(|own| !covers(own, name));
        for name in accepted.hostnames.iter().filter(others) {
            if name.is_wildcard() {
                leave_out(Some(name), WhyLeftOut::WildcardOfRoute, None);
            } else if let Some(narrower) = takers.narrower(name, listener) {
                leave_out(Some(name), WhyLeftOut::NarrowerListener, Some(narrower));
            } else if issuer.allows(name) {
                carriers.entry(name).or_default().push(route);
            } else {
                leave_out(Some(name), WhyLeftOut::NotOnAllowList, None);
            }
        }
    }
    candidates.extend(carriers.into_iter().map(|(name, mut routes)| {
        routes.sort_by(|a, b| (a.created, a.id).cmp(&(b.created, b.id)));
        Candidate { listener: &listener.id, name, routes }
    }));
}

/// The listeners that take connections by a name of their own: of those on a port, the most specific one.
struct Takers<'a> {
    by_hostname: BTreeMap<(u16, &'a str), &'a ListenerId>,
}

impl<'a> Takers<'a> {
    fn of(views: impl Iterator<Item = &'a GatewayView>) -> Self {
        let listeners =
            views.filter(|view| view.not_accepted().is_none()).flat_map(GatewayView::all_listeners);
        // One that must refuse keeps its names.
        let tls = listeners
            .filter(|one| one.occupies() && matches!(one.protocol, Some(Protocol::Https | Protocol::Tls)));
        let named = tls.filter_map(|one| Some(((one.port, one.hostname.as_ref()?.as_str()), &one.id)));
        Self { by_hostname: named.collect() }
    }

    /// The listener that takes connections for a name before this one does.
    fn narrower(&self, name: &Hostname, than: &ListenerView) -> Option<&'a ListenerId> {
        let own = than.hostname.as_ref().map(Hostname::as_str);
        let wildcards = name.as_str().match_indices('.').map(|(at, _)| format!("*{}", &name.as_str()[at..]));
        for hostname in std::iter::once(name.to_string()).chain(wildcards) {
            if own == Some(&hostname) {
                return None;
            }
            if let Some(taker) = self.by_hostname.get(&(than.port, hostname.as_str())) {
                return Some(taker);
            }
        }
        None
    }
}

/// A name counts once, on however many listeners it is.
fn apply_limits(
    mut candidates: Vec<Candidate<'_>>,
    issuer: &IssuerView,
    all: &mut BTreeMap<ListenerId, Wants>,
) {
    candidates.sort_by(|a, b| a.precedence().cmp(&b.precedence()));
    let mut granted: BTreeSet<&Hostname> = BTreeSet::new();
    let mut per_namespace: BTreeMap<&str, usize> = BTreeMap::new();
    for candidate in &candidates {
        let Some(wants) = all.get_mut(candidate.listener) else { continue };
        let used = per_namespace.entry(candidate.namespace()).or_default();
        let over = if granted.contains(candidate.name) {
            None
        } else if *used >= issuer.namespace_limit {
            Some(WhyLeftOut::OverNamespaceLimit)
        } else {
            (granted.len() >= issuer.limit).then_some(WhyLeftOut::OverLimit)
        };
        let name = candidate.name.clone();
        let mut routes = candidate.routes.iter().map(|route| route.id.clone());
        if let Some(why) = over {
            wants.left_out.push(LeftOut { name: Some(name), route: routes.next(), why, taken_by: None });
            continue;
        }
        *used += usize::from(granted.insert(candidate.name));
        wants.names.push(Wanted { name, routes: routes.collect() });
    }
}

/// Why a route that names the listener's parent did not get in; `None` where it did not mean this listener.
fn refused(route: &RouteNames<'_>, listener: &ListenerView) -> Option<WhyLeftOut> {
    let verdicts = route.output.attachments.parents.iter().flat_map(|parent| &parent.listeners);
    let verdict = verdicts.filter(|(id, _)| *id == listener.id).map(|(_, verdict)| verdict).next()?;
    match verdict {
        Verdict::NoCommonHostname => Some(WhyLeftOut::OutsideListenerHostname),
        Verdict::NamespaceNotAllowed | Verdict::Attached(_) => Some(WhyLeftOut::RouteNotAccepted),
        Verdict::OtherSection | Verdict::OtherPort | Verdict::KindNotAllowed => None,
    }
}
