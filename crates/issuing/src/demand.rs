//! From what listeners want to what an issuer of ours is asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_certs::{Demand, Issuer, Want, WantedName};
use tidegate_plan::ObjectName;
use tidegate_translate::{Source, Wanted, Wants};

/// All that is wanted of issuers of ours. `foreign` are the Secrets that others wrote.
pub fn demand<'a>(
    wants: impl IntoIterator<Item = &'a Arc<Wants>>,
    foreign: BTreeSet<ObjectName>,
    source: Source,
) -> Demand {
    Demand::new(wants.into_iter().filter_map(|wants| want(wants, source)), foreign)
}

/// `None` where another tool makes the certificate, or there is no Secret to put it in.
fn want(wants: &Wants, source: Source) -> Option<Want> {
    let secret = wants.secret.clone()?;
    if is_out_of_reach(wants, source) {
        return None;
    }
    Some(Want {
        secret,
        gateway: wants.listener.gateway.clone(),
        issuer: issuer(wants)?,
        names: wants
            .names
            .iter()
            .map(|wanted| WantedName { name: wanted.name.clone(), namespace: namespace(wants, wanted) })
            .collect(),
    })
}

/// In a cluster a Secret belongs to the object that its listener is written in, and that must be in its namespace: who
/// lets a Gateway refer to Secrets has not said that it may write them.
pub(crate) fn is_out_of_reach(wants: &Wants, source: Source) -> bool {
    let secret = wants.secret.as_ref();
    source == Source::Cluster && secret.is_some_and(|secret| secret.namespace != owner(wants).namespace)
}

/// The object that the listener is written in: its ListenerSet or its Gateway.
#[must_use]
pub fn owner(wants: &Wants) -> &ObjectName {
    wants.listener.listener_set.as_ref().unwrap_or(&wants.listener.gateway)
}

#[must_use]
pub fn issuer(wants: &Wants) -> Option<Issuer> {
    match &wants.issuer {
        tidegate_translate::Issuer::Embedded => Some(Issuer::Embedded),
        tidegate_translate::Issuer::Acme { account: None } => Some(Issuer::acme()),
        tidegate_translate::Issuer::Acme { account: Some(name) } => Some(Issuer::Acme(Arc::clone(name))),
        tidegate_translate::Issuer::CertManager { .. } => None,
    }
}

/// Of the oldest route that carries a name, or of the object that the listener is written in.
fn namespace(wants: &Wants, wanted: &Wanted) -> Arc<str> {
    let object = wanted.routes.first().map_or(owner(wants), |route| &route.object);
    Arc::clone(&object.namespace)
}
