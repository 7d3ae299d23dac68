//! References to Secrets with a certificate and its key.

use std::cmp::Reverse;
use std::sync::Arc;

use tidegate_api::refs::SecretReference;
use tidegate_api::status::Reason;
use tidegate_plan::{LastGood, ObjectName};

use crate::conditions::{Fault, kind_name};
use crate::credentials::KeyMaterial;
use crate::lookup::{Lookup, Referent, Referrer, not_permitted};
use crate::resources::{ISSUED_BY, STAND_IN};

/// How long data planes go on with the certificate of a Secret that is gone. Whoever deletes one by mistake has this
/// time to notice; whoever means it has not long to wait.
const KEPT_WHEN_GONE: u32 = 60 * 60;

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
    if !is_secret(reference) {
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

/// What data planes may go on with where the Secret of a reference has nothing to serve: its last good certificate, by
/// name. Nothing of what is not permitted, or not asked for any more.
pub(crate) fn last_good(
    reference: &SecretReference,
    fault: &Fault,
    name: &ObjectName,
    place: usize,
    lookup: &Lookup<'_>,
) -> Option<LastGood> {
    if !is_secret(reference) || fault.reason == Reason::RefNotPermitted {
        return None;
    }
    let seconds = lookup.secret(name).is_none().then_some(KEPT_WHEN_GONE);
    Some(LastGood { secret: name.clone(), place, seconds })
}

/// The same in words, to go behind those of the fault.
pub(crate) fn kept(last_good: &LastGood) -> &'static str {
    match last_good.seconds {
        Some(_) => "where a good one was served, it is kept for one hour",
        None => "where a good one was served, it is kept until it expires",
    }
}

fn is_secret(reference: &SecretReference) -> bool {
    reference.group == "" && reference.kind == "Secret"
}

/// What an issuer of ours put into further Secrets for want of room in this one. Who can write them can write the
/// Secret itself: they are in its namespace.
pub(crate) fn beside(secret: &ObjectName, lookup: &Lookup<'_>) -> Vec<Arc<KeyMaterial>> {
    let further = lookup.certificates_of(secret);
    further.into_iter().filter_map(|secret| lookup.credentials().key(secret).ok()).collect()
}

/// In the order in which they are shown: one of an issuer's that was replaced for some of its names may still be there
/// for the others. A Secret that somebody wrote goes before all, and what vouches for itself comes last.
pub(crate) fn newest_first(keys: &mut [Arc<KeyMaterial>], lookup: &Lookup<'_>) {
    keys.sort_by_cached_key(|key| {
        let secret = lookup.secret(&key.certificate.secret);
        let rank = match secret.and_then(|secret| secret.meta.annotation(ISSUED_BY)) {
            None => 0,
            Some(STAND_IN) => 2,
            Some(_) => 1,
        };
        (rank, Reverse(key.certificate.not_after))
    });
}

/// Whether an issuer of ours made it, for the names it has and no others.
pub(crate) fn is_issued(secret: &ObjectName, lookup: &Lookup<'_>) -> bool {
    lookup.secret(secret).is_some_and(|secret| secret.meta.annotation(ISSUED_BY).is_some())
}
