//! The part of a plan that one Gateway's data planes need, and no more: they are not told of other Gateways, nor
//! handed keys that they have no use for.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{
    Addresses, BackendId, BlobId, Body, Filter, Fragment, FragmentId, Group, ListenerId, ObjectName, Plan,
    Proof, RouteId, RouteKind, Rules, Target, Trust, Upstream,
};

impl Plan {
    /// What of this plan concerns one Gateway.
    #[must_use]
    pub fn of_gateway(&self, gateway: &ObjectName) -> Self {
        let mut part = Self::default();
        let own = FragmentId::Gateway(gateway.clone());
        part.fragments.extend(self.fragments.get(&own).map(|fragment| (own, Arc::clone(fragment))));
        part.fragments.extend(self.listeners_of(gateway));
        part.fragments.extend(self.routes_of(gateway));

        let backends: BTreeSet<BackendId> =
            part.fragments.values().flat_map(|fragment| fragment.body.backends()).cloned().collect();
        for id in backends {
            let id = FragmentId::Backend(id);
            part.fragments.extend(self.fragments.get(&id).map(|fragment| (id, Arc::clone(fragment))));
        }
        for fragment in part.fragments.values() {
            for id in fragment.body.blobs() {
                part.blobs.extend(self.blobs.get(id).map(|blob| (id.clone(), Arc::clone(blob))));
            }
            if let Body::Backend(backend) = &fragment.body
                && let Addresses::Endpoints(id) = &backend.addresses
            {
                let endpoints = self.endpoints.get(id);
                part.endpoints.extend(endpoints.map(|endpoints| (id.clone(), Arc::clone(endpoints))));
            }
        }
        part
    }

    /// In the order of fragments, the listeners of a Gateway stand together.
    fn listeners_of(&self, gateway: &ObjectName) -> impl Iterator<Item = (FragmentId, Arc<Fragment>)> {
        let first = ListenerId { gateway: gateway.clone(), listener_set: None, name: "".into() };
        self.fragments
            .range(FragmentId::Listener(first)..)
            .take_while(|(id, _)| matches!(id, FragmentId::Listener(id) if id.gateway == *gateway))
            .map(|(id, fragment)| (id.clone(), Arc::clone(fragment)))
    }

    fn routes_of(&self, gateway: &ObjectName) -> impl Iterator<Item = (FragmentId, Arc<Fragment>)> {
        let first = RouteId { kind: RouteKind::ALL[0], object: ObjectName::new("", "") };
        self.fragments
            .range(FragmentId::Route(first)..)
            .take_while(|(id, _)| matches!(id, FragmentId::Route(_)))
            .filter_map(|(id, fragment)| Some((id.clone(), attached_to(gateway, fragment)?)))
    }
}

/// The same fragment where it is about this Gateway alone, one without the others' listeners where it is not.
fn attached_to(gateway: &ObjectName, fragment: &Arc<Fragment>) -> Option<Arc<Fragment>> {
    let Body::Route(route) = &fragment.body else { return None };
    let is_own = |listener: &ListenerId| listener.gateway == *gateway;
    match route.listeners.iter().filter(|listener| is_own(listener)).count() {
        0 => None,
        own if own == route.listeners.len() => Some(Arc::clone(fragment)),
        _ => {
            let mut route = route.clone();
            route.listeners.retain(is_own);
            Some(Arc::new(Fragment::new(Body::Route(route))))
        }
    }
}

impl Body {
    /// Every backend that traffic may be sent to because of this: by weight, as a mirror, to ask for permission.
    pub fn backends(&self) -> impl Iterator<Item = &BackendId> {
        let mut targets: Vec<&Target> = Vec::new();
        match self {
            Self::Gateway(_) | Self::Backend(_) | Self::Challenge(_) => {}
            Self::Listener(listener) => {
                targets.extend(listener.external_auth.iter().map(|auth| &auth.target));
            }
            Self::Route(route) => match &route.rules {
                Rules::Http(rules) => {
                    rules.iter().for_each(|rule| of_rule(&rule.filters, &rule.backends, &mut targets));
                }
                Rules::Grpc(rules) => {
                    rules.iter().for_each(|rule| of_rule(&rule.filters, &rule.backends, &mut targets));
                }
                Rules::Stream(rule) => of_rule(&[], &rule.backends, &mut targets),
            },
        }
        targets.into_iter().filter_map(|target| match target {
            Target::Backend(id) => Some(id),
            Target::Invalid(_) => None,
        })
    }

    /// Keys and CAs that this refers to.
    pub fn blobs(&self) -> impl Iterator<Item = &BlobId> {
        let mut blobs: Vec<&BlobId> = Vec::new();
        match self {
            Self::Gateway(gateway) => blobs.extend(gateway.client_certificate.as_ref().map(|own| &own.id)),
            Self::Listener(listener) => {
                if let Some(tls) = listener.handling.server_tls() {
                    blobs.extend(tls.certificates.iter().map(|certificate| &certificate.id));
                    blobs.extend(tls.client_certificates.iter().flat_map(|clients| &clients.trust));
                }
            }
            Self::Route(_) => {}
            Self::Challenge(challenge) => {
                if let Proof::Certificate(id) = &challenge.proof {
                    blobs.push(id);
                }
            }
            Self::Backend(backend) => {
                if let Upstream::Tls(tls) = &backend.upstream {
                    if let Trust::Bundles(bundles) = &tls.trust {
                        blobs.extend(bundles);
                    }
                    blobs.extend(tls.client_certificate.as_ref().map(|own| &own.id));
                }
            }
        }
        blobs.into_iter()
    }
}

fn of_rule<'a>(filters: &'a [Filter], backends: &'a Group, targets: &mut Vec<&'a Target>) {
    targets.extend(backends.0.iter().map(|backend| &backend.target));
    let of_backends = backends.0.iter().flat_map(|backend| &backend.filters);
    targets.extend(filters.iter().chain(of_backends).filter_map(|filter| match filter {
        Filter::Mirror { target, .. } => Some(target),
        Filter::ExternalAuth(auth) => Some(&auth.target),
        Filter::RequestHeaders(_)
        | Filter::ResponseHeaders(_)
        | Filter::Redirect(_)
        | Filter::Rewrite(_)
        | Filter::Cors(_) => None,
    }));
}
