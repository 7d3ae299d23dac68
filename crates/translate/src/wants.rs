//! Which names the certificate of a listener should have, for Gateways that have an issuer.
//!
//! A listener's own hostname is its owner's word. Without one, the names come from the routes that it took,
//! within the bounds that the Gateway's owner set; for each that is left out it is said why.

use std::collections::BTreeMap;

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

pub(crate) fn of_gateway(view: &GatewayView, routes: &[RouteNames<'_>]) -> BTreeMap<ListenerId, Wants> {
    let Some(issuer) = &view.issuer else { return BTreeMap::new() };
    if view.not_accepted().is_some() {
        return BTreeMap::new();
    }
    view.all_listeners()
        .filter(|listener| listener.is_accepted())
        .filter(|listener| matches!(listener.protocol, Some(Protocol::Https | Protocol::Tls)))
        .map(|listener| (listener.id.clone(), of_listener(listener, issuer, routes)))
        .collect()
}

fn of_listener(listener: &ListenerView, issuer: &IssuerView, routes: &[RouteNames<'_>]) -> Wants {
    let mut wants = Wants {
        listener: listener.id.clone(),
        issuer: issuer.issuer.clone(),
        secret: listener.secret.clone(),
        names: Vec::new(),
        left_out: Vec::new(),
    };
    // Over HTTP-01 and TLS-ALPN-01 nobody gets a wildcard.
    let cannot_do = |hostname: &Hostname| hostname.is_wildcard() && issuer.issuer == Issuer::Acme;
    match &listener.hostname {
        Some(hostname) if !listener.is_passthrough() && !cannot_do(hostname) => {
            wants.names.push(Wanted { name: hostname.clone(), routes: Vec::new() });
        }
        _ => infer(listener, issuer, routes, &mut wants),
    }
    wants.left_out.sort();
    wants
}

fn infer(listener: &ListenerView, issuer: &IssuerView, routes: &[RouteNames<'_>], wants: &mut Wants) {
    let mut carriers: BTreeMap<&Hostname, Vec<&RouteNames<'_>>> = BTreeMap::new();
    for route in routes.iter().filter(|route| !matches!(route.id.kind, RouteKind::Tcp | RouteKind::Udp)) {
        let mut leave_out = |name: Option<&Hostname>, why| {
            wants.left_out.push(LeftOut { name: name.cloned(), route: Some(route.id.clone()), why });
        };
        let Some(accepted) = route.output.accepted.iter().find(|accepted| accepted.listener == listener.id)
        else {
            if let Some(why) = refused(route, listener) {
                route.hostnames.iter().for_each(|name| leave_out(Some(name), why));
            }
            continue;
        };
        if listener.is_passthrough() {
            route.hostnames.iter().for_each(|name| leave_out(Some(name), WhyLeftOut::Passthrough));
            continue;
        }
        if route.hostnames.is_empty() {
            leave_out(None, WhyLeftOut::RouteWithoutHostnames);
            continue;
        }
        for name in route.hostnames {
            let is_outside = listener.hostname.as_ref().is_some_and(|hostname| !hostname.intersects(name));
            if is_outside {
                leave_out(Some(name), WhyLeftOut::OutsideListenerHostname);
            }
        }
        for name in &accepted.hostnames {
            if name.is_wildcard() {
                leave_out(Some(name), WhyLeftOut::WildcardOfRoute);
            } else if issuer.allows(name) {
                carriers.entry(name).or_default().push(route);
            } else {
                leave_out(Some(name), WhyLeftOut::NotOnAllowList);
            }
        }
    }
    apply_limits(carriers, issuer, wants);
}

/// Names of older routes go first, so that nobody who comes later takes their place.
fn apply_limits(carriers: BTreeMap<&Hostname, Vec<&RouteNames<'_>>>, issuer: &IssuerView, wants: &mut Wants) {
    let mut candidates: Vec<_> = carriers
        .into_iter()
        .map(|(name, mut routes)| {
            routes.sort_by(|a, b| (a.created, a.id).cmp(&(b.created, b.id)));
            (name, routes)
        })
        .collect();
    candidates.sort_by(|(a, first), (b, second)| {
        (first[0].created, &first[0].id.object, a).cmp(&(second[0].created, &second[0].id.object, b))
    });
    let mut per_namespace: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, routes) in candidates {
        let used = per_namespace.entry(&routes[0].id.object.namespace).or_default();
        let over = if *used >= issuer.namespace_limit {
            Some(WhyLeftOut::OverNamespaceLimit)
        } else if wants.names.len() >= issuer.limit {
            Some(WhyLeftOut::OverLimit)
        } else {
            None
        };
        if let Some(why) = over {
            wants.left_out.push(LeftOut { name: Some(name.clone()), route: Some(routes[0].id.clone()), why });
            continue;
        }
        *used += 1;
        wants.names.push(Wanted {
            name: name.clone(),
            routes: routes.iter().map(|route| route.id.clone()).collect(),
        });
    }
    wants.names.sort();
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
