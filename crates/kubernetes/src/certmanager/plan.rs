//! Which Certificates there shall be: a pure function of what is asked for, what there is, and the time.
//!
//! A name that is added has its Certificate made anew at once, since nobody can be served without. One that goes stays
//! until the Certificate is made anew for another reason: a route that comes and goes costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use tidegate_plan::{Hostname, ObjectName};
use tidegate_translate::{CERTIFICATE_OF, ISSUED_BY, shortened};

use super::targets::{Owner, Target};
use super::there::{BY_CERT_MANAGER, CERTIFICATE_FOR, Existing, ROLE, There, WRITTEN, written};
use crate::planes::{NAME_LABEL, ROLE_LABEL};

/// A label's value.
const LABEL: usize = 63;
/// A name, with room for what is put behind it.
const LONGEST: usize = 240;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Those that shall be there.
    pub certificates: BTreeMap<ObjectName, Planned>,
    /// Those of ours that nobody wants any more.
    pub(super) remove: BTreeSet<ObjectName>,
    /// Secrets for which nothing can be done now, and why.
    pub refused: BTreeMap<ObjectName, String>,
    /// When names are to be dropped: time to look again.
    pub(super) next: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The Secret that the listener names.
    pub of: ObjectName,
    pub names: BTreeSet<Hostname>,
    pub(super) owner: Owner,
    pub(super) body: Json,
}

/// Makes the plan, with so many names in a Certificate at most. Names in `taken` cannot be had: Secrets of others are
/// called so.
#[must_use]
pub fn plan(
    targets: &BTreeMap<ObjectName, Target>,
    there: &There,
    taken: &BTreeSet<ObjectName>,
    most: usize,
    now: i64,
) -> Plan {
    let mut plan = Plan::default();
    let mut kept: BTreeSet<&ObjectName> = BTreeSet::new();
    // A Secret that a listener names is no place for what has no room in another.
    let is_free = |name: &ObjectName| {
        !targets.contains_key(name) && !taken.contains(name) && there.foreign(name).is_none()
    };
    for target in targets.values() {
        match in_the_way(target, there, taken) {
            None => Slots::of(target, there, most, now).settle(&is_free, &mut plan),
            Some(why) => {
                plan.refused.insert(target.secret.clone(), why);
                // What was made before stays as it is, and goes with its owner.
                kept.extend(
                    there
                        .of(&target.secret)
                        .filter(|(_, one)| is_of(one, &target.owner))
                        .map(|(name, _)| name),
                );
            }
        }
    }
    let ours = there.all.iter().filter(|(_, existing)| existing.owner.is_some()).map(|(name, _)| name);
    let unwanted = ours.filter(|name| !plan.certificates.contains_key(*name) && !kept.contains(*name));
    plan.remove = unwanted.cloned().collect();
    plan
}

/// Whether it belongs to an object of that name, be it one that was deleted and made again.
fn is_of(existing: &Existing, owner: &Owner) -> bool {
    existing.owner.as_ref().is_some_and(|has| (has.kind, &has.name) == (owner.kind, &owner.name))
}

/// Why nothing can be done for a Secret.
fn in_the_way(target: &Target, there: &There, taken: &BTreeSet<ObjectName>) -> Option<String> {
    let secret = &target.secret;
    let others = there.of(secret).find(|(_, existing)| existing.owner.as_ref() != Some(&target.owner));
    if let Some((name, _)) = others {
        return Some(format!("Certificate {name} of another owner is on its way out"));
    }
    match there.all.get(secret).filter(|existing| existing.owner.is_some()) {
        Some(own) if own.of == *secret => return None,
        Some(other) => {
            let of = &other.of;
            return Some(format!(
                "Secret {secret} holds names that have no room in Secret {of}; name another Secret"
            ));
        }
        None => {}
    }
    if let Some(foreign) = there.foreign(secret) {
        return Some(format!(
            "Certificate {foreign} is not Tidegate's and makes Secret {secret}: it is left as it is; name another Secret, or delete it"
        ));
    }
    taken.contains(secret).then(|| {
        format!("Secret {secret} exists and was not made for a Certificate of Tidegate's; name another Secret, or delete it")
    })
}

/// The Certificates of one listener's Secret on their way to what they shall be.
struct Slots<'a> {
    target: &'a Target,
    /// Names in one at most.
    most: usize,
    all: BTreeMap<ObjectName, Slot<'a>>,
}

struct Slot<'a> {
    group: Arc<str>,
    existing: Option<&'a Existing>,
    /// Of the names it has, those that are wanted.
    stays: BTreeSet<Hostname>,
    comes: BTreeSet<Hostname>,
    is_due: bool,
}

impl<'a> Slots<'a> {
    fn of(target: &'a Target, there: &'a There, most: usize, now: i64) -> Self {
        let issuer = issuer_ref(target);
        let slots = there.of(&target.secret).map(|(name, existing)| {
            let is_moved = existing.object["spec"]["issuerRef"] != issuer;
            let slot = Slot {
                group: Arc::clone(&existing.group),
                existing: Some(existing),
                stays: BTreeSet::new(),
                comes: BTreeSet::new(),
                is_due: is_moved || existing.is_due(now),
            };
            (name.clone(), slot)
        });
        Self { target, most, all: slots.collect() }
    }

    fn settle(mut self, is_free: &dyn Fn(&ObjectName) -> bool, plan: &mut Plan) {
        let mut homeless = Vec::new();
        for (name, group) in &self.target.names {
            let has_it = |slot: &&mut Slot<'_>| {
                slot.group == *group && slot.existing.is_some_and(|one| one.names.contains(name))
            };
            match self.all.values_mut().find(has_it) {
                Some(slot) => _ = slot.stays.insert(name.clone()),
                None => homeless.push((name, group)),
            }
        }
        // The owner's own go first, so that they get the Secret that the listener names.
        homeless.sort_by_key(|(_, group)| **group != self.target.owner.name.namespace);
        for (name, group) in homeless {
            self.place(name, group, is_free);
        }
        let first = self.first();
        for (name, slot) in &self.all {
            let names = slot.names();
            if names.is_empty() {
                continue;
            }
            if names.len() > slot.stays.len() + slot.comes.len() {
                let drops_at = slot.existing.and_then(Existing::drops_at);
                plan.next = [plan.next, drops_at].into_iter().flatten().min();
            }
            let planned = Planned {
                of: self.target.secret.clone(),
                owner: self.target.owner.clone(),
                body: body(self.target, name, slot, &names, Some(name) == first.as_ref()),
                names,
            };
            plan.certificates.insert(name.clone(), planned);
        }
    }

    /// In one that is changed anyway, else one with room, else a new one.
    fn place(&mut self, name: &Hostname, group: &Arc<str>, is_free: &dyn Fn(&ObjectName) -> bool) {
        let most = self.most;
        let has_room =
            |slot: &&mut Slot<'_>| slot.group == *group && slot.stays.len() + slot.comes.len() < most;
        let slots = self.all.values_mut().filter(has_room);
        if let Some(slot) = slots.min_by_key(|slot| slot.comes.is_empty()) {
            slot.comes.insert(name.clone());
            return;
        }
        let secret = &self.target.secret;
        let is_free = |slot: &ObjectName| !self.all.contains_key(slot) && (slot == secret || is_free(slot));
        let beside = (2..).map(|number| further(secret, number));
        let free = std::iter::once(secret.clone()).chain(beside).find(is_free);
        let slot = Slot {
            group: Arc::clone(group),
            existing: None,
            stays: BTreeSet::new(),
            comes: BTreeSet::from([name.clone()]),
            is_due: true,
        };
        self.all.extend(free.map(|free| (free, slot)));
    }

    /// Where that goes which is the owner's and no name of a route.
    fn first(&self) -> Option<ObjectName> {
        let own =
            self.all.iter().find(|(name, slot)| **name == self.target.secret && !slot.names().is_empty());
        own.or_else(|| self.all.iter().find(|(_, slot)| !slot.names().is_empty()))
            .map(|(name, _)| name.clone())
    }
}

impl Slot<'_> {
    fn names(&self) -> BTreeSet<Hostname> {
        match self.existing {
            Some(existing) if self.comes.is_empty() && !self.is_due => existing.names.clone(),
            _ => self.stays.union(&self.comes).cloned().collect(),
        }
    }
}

/// `front-2` and so on, for what has no room in `front`.
fn further(secret: &ObjectName, number: usize) -> ObjectName {
    ObjectName::new(Arc::clone(&secret.namespace), format!("{}-{number}", shortened(&secret.name, LONGEST)))
}

fn issuer_ref(target: &Target) -> Json {
    let issuer = &target.asked.issuer;
    json!({ "name": issuer.name, "kind": issuer.kind, "group": issuer.group })
}

/// The whole object, as it is created.
fn body(
    target: &Target,
    name: &ObjectName,
    slot: &Slot<'_>,
    names: &BTreeSet<Hostname>,
    is_first: bool,
) -> Json {
    let asked = &target.asked;
    let is_further = *name != target.secret;
    let mut annotations = asked.annotations.clone();
    annotations.extend(target.parent.clone());
    annotations.insert(CERTIFICATE_FOR.to_owned(), slot.group.to_string());
    annotations.insert(WRITTEN.to_owned(), written(names));
    let mut on_secret = asked.secret_annotations.clone();
    on_secret.insert(ISSUED_BY.to_owned(), BY_CERT_MANAGER.to_owned());
    if is_further {
        for annotations in [&mut annotations, &mut on_secret] {
            annotations.insert(CERTIFICATE_OF.to_owned(), target.secret.name.to_string());
        }
    }
    let mut spec: Map<String, Json> = asked.spec.clone();
    if is_first {
        spec.extend(asked.first.clone());
    }
    let has_it = |common: &&String| is_first || names.iter().any(|name| name.as_str() == common.as_str());
    if let Some(common) = asked.common_name.as_ref().filter(has_it) {
        spec.insert("commonName".to_owned(), json!(common));
    }
    let mut template = json!({ "annotations": on_secret });
    if !asked.secret_labels.is_empty() {
        template["labels"] = json!(asked.secret_labels);
    }
    spec.insert("secretTemplate".to_owned(), template);
    spec.insert("secretName".to_owned(), json!(name.name));
    spec.insert("issuerRef".to_owned(), issuer_ref(target));
    spec.insert("dnsNames".to_owned(), json!(names));
    json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {
            "name": name.name,
            "namespace": name.namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "tidegate",
                ROLE_LABEL: ROLE,
                NAME_LABEL: shortened(&target.gateway.name, LABEL),
            },
            "annotations": annotations,
            // Not as its controller: cert-manager's gateway-shim deletes those that it thinks are its own.
            "ownerReferences": [{
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": target.owner.kind.as_str(),
                "name": target.owner.name.name,
                "uid": target.owner.uid,
            }],
        },
        "spec": spec,
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
