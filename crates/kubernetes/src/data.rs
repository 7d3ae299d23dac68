//! Secrets and ConfigMaps: which there are, in which version, and which of them are here.
//!
//! Only those that somebody refers to are brought here, and they are dropped when nobody does any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use kube::Client;
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::ObjectName;
use tidegate_translate::Change;

use crate::issuing::Mark;
use crate::kinds;
use crate::log::Log;
use crate::watch::{Seen, read};

/// How many are fetched at a time.
const AT_A_TIME: usize = 16;

#[derive(Debug)]
pub(crate) struct Data {
    /// Whose certificates are ours.
    controller: Arc<str>,
    /// Every one there is, with its version.
    there: HashMap<ObjectKey, String>,
    /// Those that are here, in which version.
    here: BTreeMap<ObjectKey, String>,
    /// Secrets that no issuer of ours made.
    foreign: BTreeSet<ObjectName>,
    /// Secrets with further certificates for another one: by that one, and the other way round.
    further: BTreeMap<ObjectName, BTreeSet<ObjectKey>>,
    further_of: BTreeMap<ObjectKey, ObjectName>,
    /// Counts the changes of what is foreign.
    changes: u64,
}

impl Data {
    pub(crate) fn new(controller: Arc<str>) -> Self {
        Self {
            controller,
            there: HashMap::new(),
            here: BTreeMap::new(),
            foreign: BTreeSet::new(),
            further: BTreeMap::new(),
            further_of: BTreeMap::new(),
            changes: 0,
        }
    }

    pub(crate) fn seen(&mut self, key: ObjectKey, version: String, mark: Option<&Mark>) {
        if key.kind == Kind::Secret {
            let is_ours = mark.is_some_and(|mark| mark.is_of(&self.controller));
            let is_news =
                if is_ours { self.foreign.remove(&key.name) } else { self.foreign.insert(key.name.clone()) };
            self.changes += u64::from(is_news);
            // What cert-manager made is served beside as well, and written by nobody here.
            let mark = mark.filter(|mark| is_ours || mark.is_of_cert_manager());
            self.stands_beside(&key, mark.and_then(|mark| mark.target(&key.name.namespace)));
        }
        self.there.insert(key, version);
    }

    fn stands_beside(&mut self, key: &ObjectKey, target: Option<ObjectName>) {
        if self.further_of.get(key) == target.as_ref() {
            return;
        }
        if let Some(before) = self.further_of.remove(key)
            && let Some(keys) = self.further.get_mut(&before)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.further.remove(&before);
            }
        }
        if let Some(target) = target {
            self.further.entry(target.clone()).or_default().insert(key.clone());
            self.further_of.insert(key.clone(), target);
        }
    }

    pub(crate) fn is_there(&self, key: &ObjectKey) -> bool {
        self.there.contains_key(key)
    }

    /// Secrets that are used as they are and never written.
    pub(crate) const fn foreign(&self) -> &BTreeSet<ObjectName> {
        &self.foreign
    }

    /// Another number whenever they are others.
    pub(crate) const fn foreign_changes(&self) -> u64 {
        self.changes
    }

    /// The change that this makes, where it was here.
    pub(crate) fn gone(&mut self, key: &ObjectKey) -> Option<Change> {
        self.there.remove(key);
        self.changes += u64::from(key.kind == Kind::Secret && self.foreign.remove(&key.name));
        self.stands_beside(key, None);
        self.here.remove(key).map(|_| Change::Remove(key.clone()))
    }

    /// What is asked for and is not here as it is there.
    pub(crate) fn missing(&self, asked: &BTreeSet<ObjectKey>) -> Vec<ObjectKey> {
        let is_missing = |key: &&ObjectKey| {
            let there = self.there.get(*key);
            there.is_some() && there != self.here.get(*key)
        };
        let secrets = asked.iter().filter(|key| key.kind == Kind::Secret);
        let further = secrets.filter_map(|key| self.further.get(&key.name)).flatten();
        asked.iter().chain(further).filter(is_missing).cloned().collect()
    }

    /// Lets go of what nobody asks for any more.
    pub(crate) fn drop_unasked(&mut self, asked: &BTreeSet<ObjectKey>) -> Vec<Change> {
        let is_asked = |key: &ObjectKey| {
            let beside = self.further_of.get(key);
            let beside = beside.map(|target| ObjectKey { kind: Kind::Secret, name: target.clone() });
            asked.contains(key) || beside.is_some_and(|target| asked.contains(&target))
        };
        let unasked: Vec<ObjectKey> = self.here.keys().filter(|key| !is_asked(key)).cloned().collect();
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
        // All of them, then all of what comes of them: whoever waits may give up meanwhile.
        let results: Vec<_> = results.buffer_unordered(AT_A_TIME).collect().await;
        let mut fetched = Fetched::default();
        for (key, result) in results {
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
    use serde_json::json;

    use super::*;

    fn secret(name: &str) -> ObjectKey {
        ObjectKey { kind: Kind::Secret, name: ObjectName::new("default", name) }
    }

    #[test]
    fn only_what_is_asked_for_is_missing() {
        let mut data = Data::new("us".into());
        data.seen(secret("a"), "1".to_owned(), None);
        data.seen(secret("b"), "1".to_owned(), None);
        let asked = BTreeSet::from([secret("a"), secret("nowhere")]);
        assert_eq!(data.missing(&asked), [secret("a")]);
        data.here.insert(secret("a"), "1".to_owned());
        assert!(data.missing(&asked).is_empty());
        data.seen(secret("a"), "2".to_owned(), None);
        assert_eq!(data.missing(&asked), [secret("a")], "it has changed");
    }

    fn mark(controller: &str, of: Option<&str>) -> Mark {
        let mut annotations = json!({
            "gateway.tidegate.io/controller-name": controller, "gateway.tidegate.io/issued-by": "embedded",
        });
        if let Some(of) = of {
            annotations["gateway.tidegate.io/certificate-of"] = of.into();
        }
        let labels = json!({"gateway.tidegate.io/certificates": "certificate"});
        let meta = json!({"labels": labels, "annotations": annotations});
        Mark::read(&serde_json::from_value(meta).expect("metadata")).expect("a mark")
    }

    #[test]
    fn what_stands_beside_what_is_asked_for_comes_along() {
        let mut data = Data::new("us".into());
        let asked = BTreeSet::from([secret("a")]);
        data.seen(secret("a-1"), "1".to_owned(), Some(&mark("us", Some("a"))));
        data.seen(secret("b-1"), "1".to_owned(), Some(&mark("us", Some("b"))));
        data.seen(secret("a-2"), "1".to_owned(), Some(&mark("them", Some("a"))));
        assert_eq!(data.missing(&asked), [secret("a-1")], "the listener's own need not be there");
        data.here.insert(secret("a-1"), "1".to_owned());
        assert!(data.drop_unasked(&asked).is_empty());
        data.seen(secret("a-1"), "2".to_owned(), Some(&mark("us", Some("b"))));
        assert!(data.missing(&asked).is_empty());
        assert_eq!(data.drop_unasked(&asked).len(), 1);
        assert!(data.gone(&secret("a-1")).is_none() && data.further.len() == 1);
    }

    #[test]
    fn what_cert_manager_made_stands_beside_and_is_foreign() {
        let meta = json!({"annotations": {
            "gateway.tidegate.io/issued-by": "cert-manager", "gateway.tidegate.io/certificate-of": "a",
        }});
        let mark = Mark::read(&serde_json::from_value(meta).expect("metadata"));
        let mut data = Data::new("us".into());
        data.seen(secret("a-2"), "1".to_owned(), mark.as_ref());
        assert_eq!(data.missing(&BTreeSet::from([secret("a")])), [secret("a-2")]);
        assert!(data.foreign().contains(&secret("a-2").name));
    }

    #[test]
    fn what_is_not_ours_is_foreign() {
        let mut data = Data::new("us".into());
        data.seen(secret("ours"), "1".to_owned(), Some(&mark("us", None)));
        data.seen(secret("theirs"), "1".to_owned(), Some(&mark("them", None)));
        data.seen(secret("plain"), "1".to_owned(), None);
        let names = |data: &Data| data.foreign().iter().map(|name| name.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&data), ["plain", "theirs"]);
        let before = data.foreign_changes();
        data.seen(secret("plain"), "2".to_owned(), None);
        assert_eq!(data.foreign_changes(), before);
        data.seen(secret("ours"), "2".to_owned(), None);
        data.gone(&secret("plain"));
        assert_eq!(
            (names(&data), data.foreign_changes()),
            (vec!["ours".to_owned(), "theirs".to_owned()], before + 2)
        );
    }

    #[test]
    fn what_nobody_asks_for_is_let_go() {
        let mut data = Data::new("us".into());
        data.here.insert(secret("a"), "1".to_owned());
        assert!(data.drop_unasked(&BTreeSet::from([secret("a")])).is_empty());
        assert_eq!(data.drop_unasked(&BTreeSet::new()).len(), 1);
        assert!(data.gone(&secret("a")).is_none());
    }
}
