//! References to Secrets with a certificate and its key.

use std::sync::Arc;

use tidegate_api::refs::SecretReference;
use tidegate_api::status::Reason;
use tidegate_plan::ObjectName;

use crate::conditions::{Fault, kind_name};
use crate::credentials::KeyMaterial;
use crate::lookup::{Lookup, Referent, Referrer, not_permitted};
use crate::resources::ISSUED_BY;

/// The Secret that a reference names, its own namespace being the default.
pub(crate) fn secret_name(reference: &SecretReference, namespace: &str) -> ObjectName {
    let namespace = reference.namespace.as_ref().map_or(namespace, |name| name.as_str());
    ObjectName::new(namespace, reference.name.shared())
}

/// Opens the Secret. `invalid` is the reason for what is missing, malformed or of another kind; what no grant
/// permits is not looked at, so that nobody learns whether it is there.
pub(crate) fn resolve(
    reference: &SecretReference,
    referrer: &Referrer<'_>,
    invalid: Reason,
    lookup: &Lookup<'_>,
) -> Result<Arc<KeyMaterial>, Fault> {
    let name = secret_name(reference, referrer.namespace);
    if reference.group != "" || reference.kind != "Secret" {
        let kind = kind_name(reference.group.as_str(), reference.kind.as_str());
        let message = format!("{kind} cannot hold a certificate and its key; use a Secret");
        return Err(Fault::new(invalid, message));
    }
    let referent = Referent { group: "", kind: "Secret", namespace: &name.namespace, name: &name.name };
    if !lookup.permits(referrer, &referent) {
        return Err(Fault::new(Reason::RefNotPermitted, not_permitted(referrer, &referent)));
    }
    let Some(secret) = lookup.secret(&name) else {
        return Err(Fault::new(invalid, format!("Secret {name} does not exist; create it, or name another")));
    };
    lookup
        .credentials()
        .key(secret)
        .map_err(|error| Fault::new(invalid, format!("Secret {name} cannot be used: {error}")))
}

/// What an issuer of ours put into further Secrets for want of room in this one. Who can write them can write the
/// Secret itself: they are in its namespace.
pub(crate) fn beside(secret: &ObjectName, lookup: &Lookup<'_>) -> Vec<Arc<KeyMaterial>> {
    let further = lookup.certificates_of(secret);
    further.into_iter().filter_map(|secret| lookup.credentials().key(secret).ok()).collect()
}

/// Whether an issuer of ours made it, for the names it has and no others.
pub(crate) fn is_issued(secret: &ObjectName, lookup: &Lookup<'_>) -> bool {
    lookup.secret(secret).is_some_and(|secret| secret.meta.annotation(ISSUED_BY).is_some())
}
