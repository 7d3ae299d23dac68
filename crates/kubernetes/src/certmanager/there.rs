//! The Certificates that there are: ours, and those of others, which are never touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::DynamicObject;
use serde_json::Value as Json;
use tidegate_api::Kind;
use tidegate_plan::{Hostname, ObjectName};
use tidegate_translate::{CERTIFICATE_OF, short_hash};

use super::keep::{object_name, plain};
use super::targets::Owner;
use crate::planes::ROLE_LABEL;

/// What a Secret that cert-manager made for a Certificate of ours says of its issuer.
pub(crate) const BY_CERT_MANAGER: &str = "cert-manager";
/// The role of Certificates of ours.
pub(super) const ROLE: &str = "certificate";
/// Which names a Certificate is for: those of this namespace, or this one; empty: all of the listener's.
pub(super) const CERTIFICATE_FOR: &str = "gateway.tidegate.io/certificate-for";
/// What its names were when we wrote them, by their hash.
pub(super) const WRITTEN: &str = "gateway.tidegate.io/written";

/// Names are dropped so long before cert-manager renews by itself, so that there is one renewal and not two.
const LEAD: i64 = 300;

/// All Certificates.
#[derive(Clone, Debug, Default)]
pub struct There {
    pub(super) all: BTreeMap<ObjectName, Existing>,
}

/// One Certificate, as far as it matters.
#[derive(Clone, Debug)]
pub(super) struct Existing {
    pub(super) object: Arc<Json>,
    /// Whom it belongs to, where we made it: by our label and the owner that is written in it.
    pub(super) owner: Option<Owner>,
    /// The Secret that cert-manager puts the certificate in.
    pub(super) secret: ObjectName,
    /// The Secret that the listener names.
    pub(super) of: ObjectName,
    pub(super) group: Arc<str>,
    pub(super) names: BTreeSet<Hostname>,
    /// Whether its names are those that we wrote last.
    is_as_written: bool,
    is_issued: bool,
    pub(super) is_failing: bool,
    not_before: Option<i64>,
    not_after: Option<i64>,
    renewal: Option<i64>,
}

/// A Certificate that was asked for, for people to see.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    /// The Secret that cert-manager puts the certificate in.
    pub secret: &'a ObjectName,
    /// The Secret that the listener names.
    pub of: &'a ObjectName,
    pub names: &'a BTreeSet<Hostname>,
    pub not_before: Option<i64>,
    pub not_after: Option<i64>,
    pub renewal: Option<i64>,
    /// What cert-manager says keeps it from being ready.
    pub wrong: Option<String>,
}

impl There {
    /// As a list has them.
    pub(crate) fn read(certificates: impl IntoIterator<Item = DynamicObject>) -> Self {
        let named = certificates.into_iter().map(|one| (object_name(&one), plain(&one)));
        let read = named.map(|(name, object)| (name.clone(), Existing::read(&name, Arc::new(object))));
        Self { all: read.collect() }
    }

    /// Those that Tidegate asked for.
    pub fn listed(&self) -> impl Iterator<Item = Listed<'_>> {
        let ours = self.all.values().filter(|existing| existing.owner.is_some());
        ours.map(|existing| Listed {
            secret: &existing.secret,
            of: &existing.of,
            names: &existing.names,
            not_before: existing.not_before,
            not_after: existing.not_after,
            renewal: existing.renewal,
            wrong: existing.readiness().err(),
        })
    }

    /// Whom the Certificate that makes this Secret belongs to, where it is ours.
    pub(super) fn owner(&self, secret: &ObjectName) -> Option<(Kind, &ObjectName)> {
        self.all.get(secret)?.owner.as_ref().map(|owner| (owner.kind, &owner.name))
    }

    /// Ours for one listener's Secret.
    pub(super) fn of<'a>(
        &'a self,
        secret: &'a ObjectName,
    ) -> impl Iterator<Item = (&'a ObjectName, &'a Existing)> {
        self.all.iter().filter(move |(_, existing)| existing.owner.is_some() && existing.of == *secret)
    }

    /// The Certificate of somebody else that makes this Secret, or has the name that ours would have.
    pub(super) fn foreign(&self, secret: &ObjectName) -> Option<&ObjectName> {
        let others = self.all.iter().filter(|(_, existing)| existing.owner.is_none());
        let mut others = others.filter(|(name, existing)| *name == secret || existing.secret == *secret);
        others.next().map(|(name, _)| name)
    }
}

impl Existing {
    pub(super) fn read(name: &ObjectName, object: Arc<Json>) -> Self {
        let annotation = |key: &str| object["metadata"]["annotations"][key].as_str();
        let in_namespace = |other: &str| ObjectName::new(Arc::clone(&name.namespace), other);
        let names: BTreeSet<Hostname> =
            texts(&object["spec"]["dnsNames"]).filter_map(|name| Hostname::parse(name).ok()).collect();
        let status = &object["status"];
        let time = |field: &str| {
            let time = humantime::parse_rfc3339(status[field].as_str()?).ok()?;
            i64::try_from(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()).ok()
        };
        Self {
            owner: owner(name, &object),
            secret: in_namespace(object["spec"]["secretName"].as_str().unwrap_or_default()),
            of: annotation(CERTIFICATE_OF).map_or_else(|| name.clone(), in_namespace),
            group: annotation(CERTIFICATE_FOR).unwrap_or_default().into(),
            is_as_written: annotation(WRITTEN) == Some(&written(&names)),
            names,
            is_issued: status["notAfter"].is_string(),
            is_failing: status["lastFailureTime"].is_string(),
            not_before: time("notBefore"),
            not_after: time("notAfter"),
            renewal: time("renewalTime"),
            object,
        }
    }

    /// Whether names may be dropped now: where it is made anew in any case, or never was.
    pub(super) fn is_due(&self, now: i64) -> bool {
        !self.is_issued
            || self.is_failing
            || !self.is_as_written
            || self.drops_at().is_some_and(|time| now >= time)
    }

    /// When names are dropped.
    pub(super) fn drops_at(&self) -> Option<i64> {
        let renewal = self.renewal?;
        let quarter = self.not_before.map_or(LEAD, |from| (renewal - from) / 4);
        Some(renewal - LEAD.min(quarter).max(0))
    }

    /// Whether all its names are in the Secret, and if not, why.
    pub(super) fn readiness(&self) -> Result<(), String> {
        let generation = &self.object["metadata"]["generation"];
        let conditions = self.object["status"]["conditions"].as_array();
        let condition =
            |kind: &str| conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
        let message = |condition: &Json| condition["message"].as_str().unwrap_or_default().to_owned();
        let ready = condition("Ready");
        if ready.is_some_and(|ready| {
            ready["status"] == "True"
                && (ready["observedGeneration"].is_null() || ready["observedGeneration"] == *generation)
        }) {
            return Ok(());
        }
        // What went wrong says more than what is missing.
        let failed = condition("Issuing").filter(|issuing| issuing["reason"] == "Failed");
        let told = failed.or(ready.filter(|ready| ready["status"] != "True")).map(message);
        Err(told.unwrap_or_else(|| "cert-manager has not answered yet".to_owned()))
    }
}

/// What the names are told by, so that a change by somebody else is seen as one.
pub(super) fn written<'a>(names: impl IntoIterator<Item = &'a Hostname>) -> String {
    let names: Vec<&str> = names.into_iter().map(Hostname::as_str).collect();
    short_hash(&names.join(","))
}

fn texts(list: &Json) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str)
}

fn owner(name: &ObjectName, object: &Json) -> Option<Owner> {
    if object["metadata"]["labels"][ROLE_LABEL] != ROLE {
        return None;
    }
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find_map(|owner| {
        let kind =
            [Kind::Gateway, Kind::ListenerSet].into_iter().find(|kind| owner["kind"] == kind.as_str())?;
        let is_in_group = owner["apiVersion"].as_str()?.starts_with("gateway.networking.k8s.io/");
        is_in_group.then_some(Owner {
            kind,
            name: ObjectName::new(Arc::clone(&name.namespace), owner["name"].as_str()?),
            uid: owner["uid"].as_str()?.to_owned(),
        })
    })
}
