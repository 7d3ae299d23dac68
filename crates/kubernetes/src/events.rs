//! Events for what has no place in a status. Bounded: what cannot be sent soon is dropped.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tidegate_api::{Kind, ObjectKey};
use tidegate_plan::ObjectName;
use tokio::sync::mpsc;

use crate::kinds;
use crate::log::Log;
use crate::status::Statuses;

const WAITING: usize = 256;
/// The same is not said again within this time.
const AGAIN: Duration = Duration::from_secs(600);
/// A message may have this many characters.
const MAX_NOTE: usize = 1024;

#[derive(Clone, Debug)]
pub(crate) struct Events {
    words: mpsc::Sender<Word>,
    /// Knows the uid of each object with a status.
    statuses: Statuses,
}

#[derive(Debug)]
struct Word {
    kind: EventType,
    key: ObjectKey,
    uid: String,
    reason: &'static str,
    note: String,
}

impl Events {
    /// The way to say something, and the task that says it.
    pub(crate) fn new(
        client: Client,
        identity: &str,
        statuses: Statuses,
        log: Log,
    ) -> (Self, impl Future<Output = ()> + use<>) {
        let (words, receiver) = mpsc::channel(WAITING);
        let reporter = Reporter {
            controller: "gateway.tidegate.io/controller".into(),
            instance: Some(identity.to_owned()),
        };
        (Self { words, statuses }, publish(Recorder::new(client, reporter), receiver, log))
    }

    /// About an object with a status.
    pub(crate) fn warn(&self, key: &ObjectKey, reason: &'static str, note: &str) {
        self.warn_of(key, &self.statuses.uid(key).unwrap_or_default(), reason, note);
    }

    /// About any object. `kubectl describe` shows what has the object's uid.
    pub(crate) fn warn_of(&self, key: &ObjectKey, uid: &str, reason: &'static str, note: &str) {
        self.say(EventType::Warning, key, uid, reason, note);
    }

    fn say(&self, kind: EventType, key: &ObjectKey, uid: &str, reason: &'static str, note: &str) {
        let note = note.chars().take(MAX_NOTE).collect();
        let _ = self.words.try_send(Word { kind, key: key.clone(), uid: uid.to_owned(), reason, note });
    }

    /// Something went well that somebody may have waited for.
    pub(crate) fn tell_gateway(&self, gateway: &ObjectName, uid: &str, reason: &'static str, note: &str) {
        let key = ObjectKey { kind: Kind::Gateway, name: gateway.clone() };
        self.say(EventType::Normal, &key, uid, reason, note);
    }

    pub(crate) fn warn_gateway(&self, gateway: &ObjectName, reason: &'static str, note: &str) {
        self.warn(&ObjectKey { kind: Kind::Gateway, name: gateway.clone() }, reason, note);
    }
}

async fn publish(recorder: Recorder, mut words: mpsc::Receiver<Word>, log: Log) {
    let mut said: BTreeMap<(ObjectKey, String), Instant> = BTreeMap::new();
    while let Some(Word { kind, key, uid, reason, note }) = words.recv().await {
        let now = Instant::now();
        said.retain(|_, when| now.duration_since(*when) < AGAIN);
        if said.insert((key.clone(), note.clone()), now).is_some() {
            continue;
        }
        let version = kinds::resource(key.kind, key.kind.versions()[0]).api_version;
        let reference = k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some(version),
            kind: Some(key.kind.as_str().to_owned()),
            name: Some(key.name.name.to_string()),
            namespace: Some(key.name.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
            uid: Some(uid).filter(|uid| !uid.is_empty()),
            ..Default::default()
        };
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(note),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = recorder.publish(&event, &reference).await {
            log.warning("event-failed", format_args!("an Event about {key} cannot be written: {error}"));
        }
    }
}
