//! Follows the objects of one kind: read as files are, and told to the controller as they come and go.

use std::collections::BTreeSet;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ApiResource, DynamicObject, PartialObjectMeta};
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource, ResourceExt};
use serde_json::Value as Json;
use tidegate_api::{Kind, Node, Object, ObjectKey, Reading, Severity, read_object};
use tidegate_plan::ObjectName;
use tokio::sync::mpsc;

use crate::issuing::Mark;
use crate::kinds;
use crate::log::Log;
use crate::status::Observed;

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum Sighting {
    Object(Box<Seen>),
    /// An object of which only the metadata is followed, in this version; what an issuer of ours noted on it.
    Data(ObjectKey, String, Option<Mark>),
    Gone(ObjectKey),
    /// All that there is of this kind has been told.
    Listed(Kind),
}

/// An object as it was read.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) key: ObjectKey,
    /// What is wrong with it, where it is wrong.
    pub(crate) object: Result<Object, String>,
    pub(crate) observed: Observed,
}

/// Where sightings go. The way is bounded: who reads slowly is not overrun.
pub(crate) type Told = mpsc::Sender<Sighting>;

/// Follows a kind, all of each object.
pub(crate) async fn follow(client: Client, kind: Kind, version: &'static str, told: Told, log: Log) {
    let resource = kinds::resource(kind, version);
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let name = |object: &DynamicObject| object_name(kind, object);
    let tell = |object| Sighting::Object(Box::new(read(kind, &resource, object)));
    follow_with(watcher::watcher(api, watcher::Config::default()), kind, name, tell, told, log).await;
}

/// Follows Secrets or ConfigMaps, of which most are nobody's business here: their metadata alone.
pub(crate) async fn follow_data(client: Client, kind: Kind, told: Told, log: Log) {
    match kind {
        Kind::Secret => follow_metadata::<Secret>(client, kind, told, log).await,
        _ => follow_metadata::<ConfigMap>(client, kind, told, log).await,
    }
}

async fn follow_metadata<K>(client: Client, kind: Kind, told: Told, log: Log)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + std::fmt::Debug + Clone + Send + 'static,
    PartialObjectMeta<K>: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let api: Api<PartialObjectMeta<K>> = Api::all(client);
    let name = |object: &PartialObjectMeta<K>| object_name(kind, object);
    let tell = |object: PartialObjectMeta<K>| {
        let key = ObjectKey { kind, name: object_name(kind, &object) };
        let mark = if kind == Kind::Secret { Mark::read(object.meta()) } else { None };
        Sighting::Data(key, object.resource_version().unwrap_or_default(), mark)
    };
    follow_with(watcher::watcher(api, watcher::Config::default()), kind, name, tell, told, log).await;
}

async fn follow_with<K>(
    events: impl futures::Stream<Item = watcher::Result<Event<K>>> + Send,
    kind: Kind,
    name: impl Fn(&K) -> ObjectName,
    tell: impl Fn(K) -> Sighting,
    told: Told,
    log: Log,
) {
    let mut events = std::pin::pin!(events.default_backoff());
    let mut there: BTreeSet<ObjectName> = BTreeSet::new();
    let mut before: BTreeSet<ObjectName> = BTreeSet::new();
    let mut is_failing = false;
    while let Some(event) = events.next().await {
        let failed = event.is_err();
        let mut sightings = Vec::new();
        match event {
            Ok(Event::Init) => before = std::mem::take(&mut there),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let name = name(&object);
                before.remove(&name);
                there.insert(name);
                sightings.push(tell(object));
            }
            Ok(Event::Delete(object)) => {
                let name = name(&object);
                there.remove(&name);
                sightings.push(Sighting::Gone(ObjectKey { kind, name }));
            }
            Ok(Event::InitDone) => {
                let gone = std::mem::take(&mut before).into_iter();
                sightings.extend(gone.map(|name| Sighting::Gone(ObjectKey { kind, name })));
                sightings.push(Sighting::Listed(kind));
            }
            // Once: the watch goes on trying.
            Err(error) if !is_failing => {
                log.warning(
                    "watch-failed",
                    format_args!("{} cannot be watched, trying again: {error}", kinds::plural(kind)),
                );
            }
            Err(_) => {}
        }
        if is_failing && !failed {
            log.info("watch-back", format_args!("{} are watched again", kinds::plural(kind)));
        }
        is_failing = failed;
        for sighting in sightings {
            if told.send(sighting).await.is_err() {
                return;
            }
        }
    }
}

fn object_name<K: ResourceExt>(kind: Kind, object: &K) -> ObjectName {
    let namespace = if kind.is_namespaced() { object.namespace().unwrap_or_default() } else { String::new() };
    ObjectName::new(namespace, object.name_any())
}

/// Reads an object as a file would be read. Its status and who manages its fields are not part of what it means.
pub(crate) fn read(kind: Kind, resource: &ApiResource, mut object: DynamicObject) -> Seen {
    let key = ObjectKey { kind, name: object_name(kind, &object) };
    let resource_version = object.metadata.resource_version.take().unwrap_or_default();
    let uid = object.metadata.uid.clone().unwrap_or_default();
    object.metadata.managed_fields = None;
    let status = object.data.as_object_mut().and_then(|fields| fields.remove("status")).unwrap_or(Json::Null);
    let mut json = match object.data {
        Json::Object(fields) => fields,
        _ => serde_json::Map::new(),
    };
    json.insert("apiVersion".to_owned(), resource.api_version.clone().into());
    json.insert("kind".to_owned(), resource.kind.clone().into());
    json.insert("metadata".to_owned(), serde_json::to_value(&object.metadata).unwrap_or(Json::Null));
    let Reading { object, problems, .. } = read_object(&Node::from(&Json::Object(json)));
    let object = object.ok_or_else(|| {
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        let errors = errors.map(|problem| format!("{}: {}", problem.field, problem.message));
        errors.collect::<Vec<_>>().join("; ")
    });
    let observed = Observed { resource_version, uid, status: std::sync::Arc::new(status) };
    Seen { key, object, observed }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(kind: Kind, version: &str, json: Json) -> Seen {
        read(kind, &kinds::resource(kind, version), serde_json::from_value(json).expect("an object"))
    }

    #[test]
    fn an_object_is_read_as_a_file_is() {
        let seen = seen(
            Kind::TcpRoute,
            "v1",
            json!({
                "metadata": {
                    "name": "db", "namespace": "shop", "generation": 3, "resourceVersion": "17",
                    "uid": "u", "creationTimestamp": "2026-11-16T12:00:00Z",
                    "managedFields": [{"manager": "kubectl"}],
                },
                "spec": {"rules": [{"backendRefs": [{"name": "db", "port": 5432}]}]},
                "status": {"parents": []},
            }),
        );
        let object = seen.object.expect("a good object");
        assert_eq!((object.key(), object.meta().generation), (seen.key, 3));
        assert_eq!(object.meta().created, 1_794_830_400);
        assert_eq!(seen.observed.resource_version, "17");
        assert_eq!(*seen.observed.status, json!({"parents": []}));
    }

    #[test]
    fn what_the_schema_let_through_is_named() {
        let seen = seen(
            Kind::TlsRoute,
            "v1alpha2",
            json!({"metadata": {"name": "a", "namespace": "shop"}, "spec": {"hostnames": ["not a name"], "rules": []}}),
        );
        assert_eq!(seen.key.to_string(), "TLSRoute shop/a");
        let problem = seen.object.expect_err("a bad object");
        assert!(problem.contains("spec.hostnames"), "{problem}");
    }

    #[test]
    fn secrets_come_with_their_data() {
        let seen = seen(
            Kind::Secret,
            "v1",
            json!({"metadata": {"name": "a", "namespace": "b"}, "data": {"tls.crt": "aGVsbG8="}, "type": "Opaque"}),
        );
        let Ok(Object::Secret(secret)) = seen.object else { panic!("no Secret") };
        assert_eq!(secret.spec.data["tls.crt"], b"hello");
    }
}
