//! From what listeners want to what an issuer of ours is asked for.

use std::sync::Arc;

use tidegate_certs::{Demand, Issuer, Want, WantedName};
use tidegate_translate::{Wanted, Wants};

use crate::meaning::Meaning;

pub(crate) fn of(meaning: &Meaning) -> Demand {
    let wants = meaning.translation().wants.values().filter_map(|wants| want(wants));
    Demand::new(wants, meaning.manifests.foreign_secrets())
}

/// `None` where another tool makes the certificate, or there is no Secret to put it in.
fn want(wants: &Wants) -> Option<Want> {
    Some(Want {
        secret: wants.secret.clone()?,
        gateway: wants.listener.gateway.clone(),
        issuer: issuer(wants)?,
        names: wants
            .names
            .iter()
            .map(|wanted| WantedName { name: wanted.name.clone(), namespace: namespace(wants, wanted) })
            .collect(),
    })
}

pub(crate) fn issuer(wants: &Wants) -> Option<Issuer> {
    match wants.issuer {
        tidegate_translate::Issuer::Embedded => Some(Issuer::Embedded),
        tidegate_translate::Issuer::Acme => Some(Issuer::acme()),
        tidegate_translate::Issuer::CertManager { .. } => None,
    }
}

/// Of the oldest route that carries a name, or of the object that the listener is written in.
fn namespace(wants: &Wants, wanted: &Wanted) -> Arc<str> {
    let owner = wants.listener.listener_set.as_ref().unwrap_or(&wants.listener.gateway);
    let object = wanted.routes.first().map_or(owner, |route| &route.object);
    Arc::clone(&object.namespace)
}
