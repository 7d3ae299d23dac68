//! Putting parts into the translation, noting only what differs from what is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_api::ObjectKey;
use tidegate_api::status::Status;
use tidegate_plan::{Blob, Body, Endpoints, EndpointsId, Fragment, FragmentId};

use super::Translator;
use crate::gateway::GatewayView;
use crate::translation::{Delta, Note};

impl Translator {
    /// Replaces the fragments that a part gave by those it gives now.
    pub(super) fn put_bodies(&mut self, old: Vec<Body>, new: Vec<Body>, delta: &mut Delta) {
        let by_id = |bodies: Vec<Body>| -> BTreeMap<FragmentId, Body> {
            bodies.into_iter().map(|body| (body.id(), body)).collect()
        };
        let (mut old, new) = (by_id(old), by_id(new));
        for (id, body) in new {
            if old.remove(&id).as_ref() != Some(&body) {
                self.translation.plan.fragments.insert(id.clone(), Arc::new(Fragment::new(body)));
                delta.fragments.insert(id);
            }
        }
        for id in old.into_keys() {
            self.translation.plan.fragments.remove(&id);
            delta.fragments.insert(id);
        }
    }

    pub(super) fn put_endpoints(&mut self, id: EndpointsId, new: Option<Endpoints>, delta: &mut Delta) {
        let endpoints = &mut self.translation.plan.endpoints;
        if endpoints.get(&id).map(|old| &**old) == new.as_ref() {
            return;
        }
        match new {
            Some(new) => endpoints.insert(id.clone(), Arc::new(new)),
            None => endpoints.remove(&id),
        };
        delta.endpoints.insert(id);
    }

    /// Blobs stay for as long as somebody refers to them.
    pub(super) fn put_blobs(&mut self, old: &[Arc<Blob>], new: &[Arc<Blob>]) {
        for blob in new {
            let id = blob.id();
            self.gathered.use_blob(&id);
            self.translation.plan.blobs.entry(id).or_insert_with(|| Arc::clone(blob));
        }
        for blob in old {
            let id = blob.id();
            if self.gathered.release_blob(&id) {
                self.translation.plan.blobs.remove(&id);
            }
        }
    }

    pub(super) fn put_status(&mut self, key: ObjectKey, new: Option<Status>, delta: &mut Delta) {
        let statuses = &mut self.translation.statuses;
        if statuses.get(&key).map(|old| &**old) == new.as_ref() {
            return;
        }
        match new {
            Some(new) => statuses.insert(key.clone(), Arc::new(new)),
            None => statuses.remove(&key),
        };
        delta.statuses.insert(key);
    }

    pub(super) fn put_notes(&mut self, key: ObjectKey, notes: Vec<Note>) {
        if notes.is_empty() {
            self.translation.notes.remove(&key);
        } else {
            self.translation.notes.insert(key, notes);
        }
    }
}

/// All key material of a Gateway and its listeners.
pub(super) fn gateway_blobs(view: &GatewayView) -> Vec<Arc<Blob>> {
    if view.not_accepted().is_some() {
        return Vec::new();
    }
    let client = view.client_certificate.as_ref().ok().cloned().flatten().map(|key| Arc::clone(&key.blob));
    view.all_listeners().flat_map(|listener| listener.blobs.iter().cloned()).chain(client).collect()
}

/// A status without entries is none of ours.
pub(super) fn has_entries(status: &Status) -> bool {
    match status {
        Status::Route(route) => !route.parents.is_empty(),
        Status::Policy(policy) => !policy.ancestors.is_empty(),
        Status::GatewayClass(_) | Status::Gateway(_) | Status::ListenerSet(_) => true,
    }
}
