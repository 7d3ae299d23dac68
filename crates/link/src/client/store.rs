//! What a data plane has of its plan. Batches are collected until they are whole, and then taken in all at once or not
//! at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_plan::{
    Blob, BlobId, Capability, DataPlaneSettings, Endpoints, EndpointsId, FragmentId, ListenerId, Plan,
};

use crate::client::read::{Arrived, read};
use crate::wire::{self, Digest, ItemId, proto};

/// No item is larger, in however many pieces it comes.
const ITEM: usize = 64 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Store {
    capabilities: BTreeSet<Capability>,
    plan: Plan,
    settings: DataPlaneSettings,
    held: BTreeMap<Digest, Part>,
    /// Fragments that are not served, by their name on the wire.
    refused: BTreeMap<String, (Option<FragmentId>, String)>,
    /// Blobs that fragments use and that are not there: a plan that was kept has no keys.
    missing: BTreeSet<BlobId>,
    incoming: Incoming,
    /// Items as they came, where somebody keeps them.
    kept: Option<BTreeMap<Digest, proto::Item>>,
}

#[derive(Debug)]
struct Part {
    /// `None`: a fragment of which nothing is served.
    id: Option<ItemId>,
    /// The same on the wire.
    name: String,
    hash: Digest,
}

/// What is different since a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub fragments: BTreeSet<FragmentId>,
    pub endpoints: BTreeSet<EndpointsId>,
    pub settings: bool,
}

/// A batch that has arrived whole.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) version: u64,
    pub(crate) sequence: u64,
    /// Why nothing of it was taken in.
    pub(crate) taken: Result<Changed, String>,
}

#[derive(Debug, Default)]
struct Incoming {
    items: Vec<(proto::Item, Digest, Content)>,
    removed: Vec<Digest>,
    /// The beginning of an item whose rest is on the way.
    begun: Option<(proto::Item, Vec<u8>)>,
    failed: Option<String>,
}

#[derive(Debug)]
enum Content {
    Settings(Box<DataPlaneSettings>),
    Endpoints(Arc<Endpoints>),
    Blob(BlobId, Arc<Blob>),
    Fragment(Arrived),
}

impl Store {
    pub(crate) fn new(capabilities: BTreeSet<Capability>, keep: bool) -> Self {
        Self { capabilities, kept: keep.then(BTreeMap::new), ..Self::default() }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn settings(&self) -> &DataPlaneSettings {
        &self.settings
    }

    /// Items to keep on disk: all but private keys, and settings without the secret.
    pub(crate) fn kept(&self) -> Option<Vec<proto::Item>> {
        let is_key = |item: &proto::Item| {
            let blob = self.plan.blobs.get(&BlobId(item.id.as_str().into()));
            item.kind() == proto::Kind::Blob && !matches!(blob.map(AsRef::as_ref), Some(Blob::Bundle(_)))
        };
        let open = |item: &proto::Item| match item.kind() {
            proto::Kind::Settings => self.settings_without_secret(item),
            _ => item.clone(),
        };
        self.kept.as_ref().map(|kept| kept.values().filter(|item| !is_key(item)).map(open).collect())
    }

    fn settings_without_secret(&self, item: &proto::Item) -> proto::Item {
        let content = wire::json_bytes(&DataPlaneSettings { secret: None, ..self.settings.clone() });
        proto::Item { hash: Digest::of(&content).0.to_vec(), content, ..item.clone() }
    }

    /// Keys and hashes of everything, as the other side asks for them.
    pub(crate) fn holds(&self) -> impl Iterator<Item = (Digest, Digest)> {
        self.held.iter().map(|(key, part)| (*key, part.hash))
    }

    /// Fragments that are refused, by their names on the wire.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&str, &str)> {
        self.refused.iter().map(|(name, (_, why))| (name.as_str(), why.as_str()))
    }

    pub(crate) fn refused_listeners(&self) -> impl Iterator<Item = (&ListenerId, &str)> {
        self.refused.values().filter_map(|(id, why)| match id {
            Some(FragmentId::Listener(id)) => Some((id, why.as_str())),
            _ => None,
        })
    }

    /// Forgets the beginning of a batch whose stream has ended.
    pub(crate) fn begin(&mut self) {
        self.incoming = Incoming::default();
    }

    /// Takes a part of a batch; what became of the batch comes with its last one.
    pub(crate) fn take(&mut self, batch: proto::Batch) -> Option<Whole> {
        let (version, sequence, last) = (batch.version, batch.sequence, batch.last);
        if self.incoming.failed.is_none()
            && let Err(why) = self.collect(batch)
        {
            self.incoming = Incoming { failed: Some(why), ..Incoming::default() };
        }
        if !last {
            return None;
        }
        let incoming = std::mem::take(&mut self.incoming);
        let taken = match incoming.failed {
            Some(why) => Err(why),
            None if incoming.begun.is_some() => Err("the batch ends in the middle of an item".to_owned()),
            None => Ok(self.apply(incoming)),
        };
        Some(Whole { version, sequence, taken })
    }

    fn collect(&mut self, batch: proto::Batch) -> Result<(), String> {
        let (keys, rest) = batch.removed.as_chunks();
        if !rest.is_empty() {
            return Err("the list of removed items cannot be read".to_owned());
        }
        self.incoming.removed.extend(keys.iter().copied().map(Digest));
        for mut item in batch.items {
            if let Some((begun, mut content)) = self.incoming.begun.take() {
                if (begun.kind, &begun.id) != (item.kind, &item.id) {
                    return Err(format!("{} goes on as {}", begun.id, item.id));
                }
                content.extend_from_slice(&item.content);
                item.content = content.into();
            }
            if item.content.len() > ITEM {
                return Err(format!("{} is too large", item.id));
            }
            if item.more {
                let content = std::mem::take(&mut item.content).into();
                self.incoming.begun = Some((item, content));
                continue;
            }
            let hash = Digest::of(&item.content);
            if Digest::read(&item.hash) != Some(hash) {
                return Err(format!("the content of {} is not what its hash says", item.id));
            }
            let content = self.content(&item, hash)?;
            self.incoming.items.push((item, hash, content));
        }
        Ok(())
    }

    fn content(&self, item: &proto::Item, hash: Digest) -> Result<Content, String> {
        let unreadable =
            |error: serde_json::Error| format!("{:?} {} cannot be read: {error}", item.kind(), item.id);
        match item.kind() {
            proto::Kind::Settings => {
                serde_json::from_slice(&item.content).map(Content::Settings).map_err(unreadable)
            }
            proto::Kind::Endpoints => serde_json::from_slice(&item.content)
                .map(|read| Content::Endpoints(Arc::new(read)))
                .map_err(unreadable),
            proto::Kind::Blob => {
                wire::read_blob(&item.id, &item.content).map(|(id, blob)| Content::Blob(id, blob))
            }
            proto::Kind::Fragment => read(item, hash, &self.capabilities).map(Content::Fragment),
            proto::Kind::Unspecified => {
                Err(format!("{} is of a kind that this data plane does not know", item.id))
            }
        }
    }

    fn apply(&mut self, incoming: Incoming) -> Changed {
        let mut changed = Changed::default();
        for key in incoming.removed {
            self.remove(key, &mut changed);
        }
        for (item, hash, content) in incoming.items {
            self.put(item, hash, content, &mut changed);
        }
        self.find_missing(&mut changed);
        changed
    }

    fn remove(&mut self, key: Digest, changed: &mut Changed) {
        let Some(part) = self.held.remove(&key) else { return };
        self.refused.remove(&part.name);
        self.kept.iter_mut().for_each(|kept| _ = kept.remove(&key));
        match part.id {
            None => {}
            Some(ItemId::Settings) => {
                self.settings = DataPlaneSettings::default();
                changed.settings = true;
            }
            Some(ItemId::Endpoints(id)) => {
                self.plan.endpoints.remove(&id);
                changed.endpoints.insert(id);
            }
            Some(ItemId::Blob(id)) => _ = self.plan.blobs.remove(&id),
            Some(ItemId::Fragment(id)) => {
                self.plan.fragments.remove(&id);
                changed.fragments.insert(id);
            }
        }
    }

    fn put(&mut self, item: proto::Item, hash: Digest, content: Content, changed: &mut Changed) {
        let key = wire::key(item.kind(), &item.id);
        let id = match content {
            Content::Settings(settings) => {
                self.settings = *settings;
                changed.settings = true;
                Some(ItemId::Settings)
            }
            Content::Endpoints(endpoints) => {
                let id = endpoints.id.clone();
                changed.endpoints.insert(id.clone());
                self.plan.endpoints.insert(id.clone(), endpoints);
                Some(ItemId::Endpoints(id))
            }
            Content::Blob(id, blob) => {
                self.plan.blobs.insert(id.clone(), blob);
                Some(ItemId::Blob(id))
            }
            Content::Fragment(Arrived { id, fragment, refused }) => {
                if let Some(id) = &id {
                    changed.fragments.insert(id.clone());
                    match fragment {
                        Some(fragment) => self.plan.fragments.insert(id.clone(), fragment),
                        None => self.plan.fragments.remove(id),
                    };
                }
                match refused {
                    Some(why) => self.refused.insert(item.id.clone(), (id.clone(), why)),
                    None => self.refused.remove(&item.id),
                };
                id.map(ItemId::Fragment)
            }
        };
        self.held.insert(key, Part { id, name: item.id.clone(), hash });
        if let Some(kept) = &mut self.kept {
            kept.insert(key, item);
        }
    }

    /// Fragments that were kept without their keys are looked at again when these come.
    fn find_missing(&mut self, changed: &mut Changed) {
        let found: BTreeSet<BlobId> =
            self.missing.iter().filter(|id| self.plan.blobs.contains_key(*id)).cloned().collect();
        if found.is_empty() {
            return;
        }
        self.missing.retain(|id| !found.contains(id));
        let users = self.plan.fragments.iter();
        let users = users.filter(|(_, fragment)| fragment.body.blobs().any(|id| found.contains(id)));
        changed.fragments.extend(users.map(|(id, _)| id.clone()));
    }

    /// Takes in what was kept on disk.
    pub(crate) fn restore(&mut self, items: Vec<proto::Item>) -> Result<Changed, String> {
        let batch = proto::Batch { items, last: true, ..proto::Batch::default() };
        let changed =
            self.take(batch).map_or_else(|| Err("nothing was kept".to_owned()), |whole| whole.taken)?;
        let used = self.plan.fragments.values().flat_map(|fragment| fragment.body.blobs());
        self.missing = used.filter(|id| !self.plan.blobs.contains_key(*id)).cloned().collect();
        Ok(changed)
    }
}
