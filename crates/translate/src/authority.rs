//! Bundles of CA certificates by reference: ConfigMaps with `ca.crt`, and ClusterTrustBundles.

use std::sync::Arc;

use tidegate_plan::{Blob, ObjectName};

use crate::conditions::kind_name;
use crate::credentials;
use crate::lookup::{Lookup, Referent};

/// Why a reference gives no CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthorityFault {
    /// It is of a kind that holds none.
    Kind(String),
    /// It is missing or malformed.
    Reference(String),
}

pub(crate) fn is_cluster_scoped(referent: &Referent<'_>) -> bool {
    referent.group == "certificates.k8s.io" && referent.kind == "ClusterTrustBundle"
}

/// Opens a reference that is permitted.
pub(crate) fn bundle(referent: &Referent<'_>, lookup: &Lookup<'_>) -> Result<Arc<Blob>, AuthorityFault> {
    let missing = |what: String| {
        AuthorityFault::Reference(format!("{what} does not exist; create it, or name another"))
    };
    let (what, pem) = match (referent.group, referent.kind) {
        ("", "ConfigMap") => {
            let name = ObjectName::new(referent.namespace, referent.name);
            let what = format!("ConfigMap {name}");
            let map = lookup.config_map(&name).ok_or_else(|| missing(what.clone()))?;
            let pem = map.spec.get("ca.crt").filter(|pem| !pem.is_empty());
            let pem = pem.ok_or_else(|| {
                AuthorityFault::Reference(format!(
                    "{what} has no `ca.crt`; put the CA certificates there, in PEM"
                ))
            })?;
            (format!("{what}: its `ca.crt`"), pem)
        }
        _ if is_cluster_scoped(referent) => {
            let what = format!("ClusterTrustBundle {}", referent.name);
            let bundle = lookup.cluster_trust_bundle(referent.name).ok_or_else(|| missing(what.clone()))?;
            (format!("{what}: its `trustBundle`"), bundle.spec.trust_bundle.as_bytes())
        }
        (group, kind) => {
            return Err(AuthorityFault::Kind(format!(
                "{} cannot hold CA certificates; use a ConfigMap with `ca.crt`, or a ClusterTrustBundle",
                kind_name(group, kind)
            )));
        }
    };
    match credentials::bundle(pem) {
        Ok(blob) => Ok(Arc::new(blob)),
        Err(error) => Err(AuthorityFault::Reference(format!("{what} {error}"))),
    }
}
