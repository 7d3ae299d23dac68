//! From what a data plane has to what it shall have: only what differs, in the order in which parts need each other.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use tidegate_plan::{Blob, BlobId, DataPlaneSettings, Endpoints, Fragment, GatewayPlan};

use crate::wire::{Digest, ItemId, json_bytes, proto, write_blob};

/// What a data plane has.
#[derive(Debug)]
pub(crate) enum Held {
    /// From before this stream, by its own words: keys and hashes.
    Told(HashMap<Digest, Digest>),
    /// What it was sent and has applied.
    Sent(Arc<GatewayPlan>),
}

/// A part of a plan on its way. Fragments and blobs are shared with the plan.
enum Part {
    Settings(Box<DataPlaneSettings>),
    Endpoints(Arc<Endpoints>),
    Blob(BlobId, Arc<Blob>),
    Fragment(Arc<Fragment>),
}

/// The way to a version.
pub(crate) struct Changes {
    version: u64,
    sequence: u64,
    parts: std::vec::IntoIter<Part>,
    removed: Vec<Digest>,
    /// An item that had no room, or the rest of one.
    waiting: Option<proto::Item>,
    chunk: usize,
    ended: bool,
}

impl Changes {
    /// Parts are not larger than `chunk` by much: an item's name and needs may go over it.
    pub(crate) fn new(held: &Held, wanted: &GatewayPlan, sequence: u64, chunk: usize) -> Self {
        let (parts, removed) = match held {
            Held::Told(told) => beyond(told, wanted),
            Held::Sent(before) => between(before, wanted),
        };
        Self {
            version: wanted.version,
            sequence,
            parts: parts.into_iter(),
            removed,
            waiting: None,
            chunk,
            ended: false,
        }
    }
}

/// A version is a batch even where nothing differs: the data plane says that it has it.
impl Iterator for Changes {
    type Item = proto::Batch;

    fn next(&mut self) -> Option<proto::Batch> {
        if self.ended {
            return None;
        }
        let mut batch =
            proto::Batch { version: self.version, sequence: self.sequence, ..proto::Batch::default() };
        let mut room = self.chunk;
        while let Some(mut item) = self.waiting.take().or_else(|| self.parts.next().map(Part::into_item)) {
            let around = item.id.len() + item.needs.iter().map(String::len).sum::<usize>() + AROUND;
            if !batch.items.is_empty() && around + item.content.len() > room {
                self.waiting = Some(item);
                return Some(batch);
            }
            let most = room.saturating_sub(around).max(1);
            if item.content.len() > most {
                let rest = item.content.split_off(most);
                self.waiting = Some(proto::Item { content: rest, ..item.clone() });
                item.more = true;
                batch.items.push(item);
                return Some(batch);
            }
            room = room.saturating_sub(around + item.content.len());
            batch.items.push(item);
        }
        let count = self.removed.len().min((room / Digest::LENGTH).max(1));
        batch.removed = self.removed.drain(..count).flat_map(|key| key.0).collect();
        self.ended = self.removed.is_empty();
        batch.last = self.ended;
        Some(batch)
    }
}

/// What an item takes besides its name, needs and content.
const AROUND: usize = 64;

impl Part {
    fn id(&self) -> ItemId {
        match self {
            Self::Settings(_) => ItemId::Settings,
            Self::Endpoints(endpoints) => ItemId::Endpoints(endpoints.id.clone()),
            Self::Blob(id, _) => ItemId::Blob(id.clone()),
            Self::Fragment(fragment) => ItemId::Fragment(fragment.id()),
        }
    }

    fn content(&self) -> Bytes {
        match self {
            Self::Settings(settings) => json_bytes(&**settings),
            Self::Endpoints(endpoints) => json_bytes(&**endpoints),
            Self::Blob(_, blob) => write_blob(blob),
            Self::Fragment(fragment) => json_bytes(&fragment.body),
        }
    }

    /// The hash of the content, without making that where it is known.
    fn hash(&self) -> Digest {
        let known = match self {
            Self::Fragment(fragment) => Digest::from_hex(&fragment.hash),
            Self::Settings(_) | Self::Endpoints(_) | Self::Blob(..) => None,
        };
        known.unwrap_or_else(|| Digest::of(&self.content()))
    }

    fn into_item(self) -> proto::Item {
        let (id, content) = (self.id(), self.content());
        let needs = match &self {
            Self::Fragment(fragment) => fragment.needs.iter().map(|need| need.as_str().to_owned()).collect(),
            Self::Settings(_) | Self::Endpoints(_) | Self::Blob(..) => Vec::new(),
        };
        proto::Item {
            kind: id.kind().into(),
            id: id.text(),
            hash: Digest::of(&content).0.to_vec(),
            needs,
            content,
            more: false,
        }
    }
}

/// Every part, those first that others refer to.
fn parts(plan: &GatewayPlan) -> impl Iterator<Item = Part> {
    std::iter::once(Part::Settings(Box::new(plan.settings.clone())))
        .chain(plan.plan.endpoints.values().cloned().map(Part::Endpoints))
        .chain(plan.plan.blobs.iter().map(|(id, blob)| Part::Blob(id.clone(), Arc::clone(blob))))
        .chain(plan.plan.fragments.values().cloned().map(Part::Fragment))
}

fn beyond(told: &HashMap<Digest, Digest>, wanted: &GatewayPlan) -> (Vec<Part>, Vec<Digest>) {
    let mut gone = told.clone();
    let missing = parts(wanted).filter(|part| gone.remove(&part.id().key()) != Some(part.hash())).collect();
    (missing, gone.into_keys().collect())
}

fn between(before: &GatewayPlan, wanted: &GatewayPlan) -> (Vec<Part>, Vec<Digest>) {
    let (mut changed, mut removed) = (Vec::new(), Vec::new());
    if before.settings != wanted.settings {
        changed.push(Part::Settings(Box::new(wanted.settings.clone())));
    }
    let mut endpoints = Vec::new();
    compare(
        &before.plan.endpoints,
        &wanted.plan.endpoints,
        |old, new| old == new,
        |id, new| match new {
            Some(new) => endpoints.push(Part::Endpoints(Arc::clone(new))),
            None => removed.push(ItemId::Endpoints(id.clone()).key()),
        },
    );
    changed.append(&mut endpoints);
    let mut blobs = Vec::new();
    compare(
        &before.plan.blobs,
        &wanted.plan.blobs,
        |_, _| true,
        |id, new| match new {
            Some(new) => blobs.push(Part::Blob(id.clone(), Arc::clone(new))),
            None => removed.push(ItemId::Blob(id.clone()).key()),
        },
    );
    changed.append(&mut blobs);
    let same = |old: &Arc<Fragment>, new: &Arc<Fragment>| Arc::ptr_eq(old, new) || old.hash == new.hash;
    compare(&before.plan.fragments, &wanted.plan.fragments, same, |id, new| match new {
        Some(new) => changed.push(Part::Fragment(Arc::clone(new))),
        None => removed.push(ItemId::Fragment(id.clone()).key()),
    });
    (changed, removed)
}

/// Walks along two maps at once and names what differs: `None` for what is gone.
fn compare<'m, K: Ord, V>(
    before: &'m BTreeMap<K, V>,
    after: &'m BTreeMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
    mut differs: impl FnMut(&'m K, Option<&'m V>),
) {
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let old = if order.is_le() { old.next() } else { None };
        let new = if order.is_ge() { new.next() } else { None };
        match (old, new) {
            (Some((_, old)), Some((_, new))) if same(old, new) => {}
            (_, Some((id, new))) => differs(id, Some(new)),
            (Some((id, _)), None) => differs(id, None),
            (None, None) => {}
        }
    }
}
