//! Secrets and ConfigMaps: which there are, in which version, and which of them are here.
//!
//! Only those that somebody refers to are brought here, and they are dropped when nobody does any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::StreamExt;
use futures::stream;
use kube::Client;
use tidegate_api::ObjectKey;
use tidegate_translate::Change;

use crate::kinds;
use crate::log::Log;
use crate::watch::{Seen, read};

/// How many are fetched at a time.
const AT_A_TIME: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Data {
    /// Every one there is, with its version.
    there: HashMap<ObjectKey, String>,
    /// Those that are here, in which version.
    here: BTreeMap<ObjectKey, String>,
}

impl Data {
    pub(crate) fn seen(&mut self, key: ObjectKey, version: String) {
        self.there.insert(key, version);
    }

    /// The change that this makes, where it was here.
    pub(crate) fn gone(&mut self, key: &ObjectKey) -> Option<Change> {
        self.there.remove(key);
        self.here.remove(key).map(|_| Change::Remove(key.clone()))
    }

    /// What is asked for and is not here as it is there.
    pub(crate) fn missing(&self, asked: &BTreeSet<ObjectKey>) -> Vec<ObjectKey> {
        let is_missing = |key: &&ObjectKey| {
            let there = self.there.get(*key);
            there.is_some() && there != self.here.get(*key)
        };
        asked.iter().filter(is_missing).cloned().collect()
    }

    /// Lets go of what nobody asks for any more.
    pub(crate) fn drop_unasked(&mut self, asked: &BTreeSet<ObjectKey>) -> Vec<Change> {
        let unasked: Vec<ObjectKey> = self.here.keys().filter(|key| !asked.contains(*key)).cloned().collect();
        for key in &unasked {
            self.here.remove(key);
        }
        unasked.into_iter().map(Change::Remove).collect()
    }

    /// Brings objects here; those that cannot be had now stay missing and are asked for again.
    pub(crate) async fn fetch(&mut self, client: &Client, keys: Vec<ObjectKey>, log: &Log) -> Fetched {
        let results = stream::iter(keys.into_iter().map(|key| async move {
            let api = kinds::api(client, &key, "v1");
            let result = api.get_opt(&key.name.name).await;
            (key, result)
        }));
        let mut results = results.buffer_unordered(AT_A_TIME);
        let mut fetched = Fetched::default();
        while let Some((key, result)) = results.next().await {
            match result {
                Ok(Some(object)) => {
                    let seen = read(key.kind, &kinds::resource(key.kind, "v1"), object);
                    self.here.insert(key.clone(), seen.observed.resource_version.clone());
                    self.there.insert(key, seen.observed.resource_version.clone());
                    fetched.objects.push(seen);
                }
                Ok(None) => {
                    fetched.gone.extend(self.gone(&key));
                }
                Err(error) => {
                    log.warning("read-failed", format_args!("{key} cannot be read: {error}"));
                    fetched.failed = true;
                }
            }
        }
        fetched
    }
}

#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) objects: Vec<Seen>,
    pub(crate) gone: Vec<Change>,
    /// Something has to be fetched again.
    pub(crate) failed: bool,
}

#[cfg(test)]
mod tests {
    use tidegate_api::Kind;
    use tidegate_plan::ObjectName;

    use super::*;

    fn secret(name: &str) -> ObjectKey {
        ObjectKey { kind: Kind::Secret, name: ObjectName::new("default", name) }
    }

    #[test]
    fn only_what_is_asked_for_is_missing() {
        let mut data = Data::default();
        data.seen(secret("a"), "1".to_owned());
        data.seen(secret("b"), "1".to_owned());
        let asked = BTreeSet::from([secret("a"), secret("nowhere")]);
        assert_eq!(data.missing(&asked), [secret("a")]);
        data.here.insert(secret("a"), "1".to_owned());
        assert!(data.missing(&asked).is_empty());
        data.seen(secret("a"), "2".to_owned());
        assert_eq!(data.missing(&asked), [secret("a")], "it has changed");
    }

    #[test]
    fn what_nobody_asks_for_is_let_go() {
        let mut data = Data::default();
        data.here.insert(secret("a"), "1".to_owned());
        assert!(data.drop_unasked(&BTreeSet::from([secret("a")])).is_empty());
        assert_eq!(data.drop_unasked(&BTreeSet::new()).len(), 1);
        assert!(data.gone(&secret("a")).is_none());
    }
}
