//! All that the names of certificates depend on, as a cluster has it at a moment, read as the controller reads it. Of
//! Secrets the metadata alone: keys are nobody's business here.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::stream;
use kube::api::{Api, DynamicObject, ListParams, ObjectList};
use kube::{Client, ResourceExt};
use serde_json::json;
use tidegate_api::{Kind, Object, ObjectKey};
use tidegate_plan::ObjectName;

use super::RemoteError;
use crate::certmanager::{self, There};
use crate::crds;
use crate::issuing::Mark;
use crate::kinds;
use crate::status::code;
use crate::watch::{Seen, read};

/// Which names a listener gets is decided by these; whether backends are there is not asked.
const KINDS: [Kind; 10] = [
    Kind::GatewayClass,
    Kind::Gateway,
    Kind::ListenerSet,
    Kind::HttpRoute,
    Kind::GrpcRoute,
    Kind::TlsRoute,
    Kind::ReferenceGrant,
    Kind::Namespace,
    Kind::GatewayParameters,
    Kind::ClusterTrustBundle,
];
/// Objects in one answer of the API server.
const PAGE: u32 = 500;
/// How many are fetched at a time.
const AT_A_TIME: usize = 8;

#[derive(Debug, Default)]
pub struct Objects {
    pub objects: Vec<Object>,
    /// Those that the controller leaves out, and why.
    pub unread: Vec<(ObjectKey, String)>,
    /// What whoever asks may not list, and much can be said without.
    pub unlisted: Vec<RemoteError>,
    /// Every Secret, with what an issuer of ours noted on it; `None`: they cannot be listed.
    secrets: Option<BTreeMap<ObjectName, Option<Mark>>>,
}

impl Objects {
    /// Lists them.
    pub async fn list(client: &Client) -> Result<Self, RemoteError> {
        let mut found = Self::default();
        for kind in KINDS {
            let failed = |error| RemoteError::NoList(kinds::plural(kind), error);
            let version = if kind.group().is_empty() {
                kind.versions().first().copied()
            } else {
                crds::served(client, kind).await.map_err(failed)?
            };
            let Some(version) = version else { continue };
            let resource = kinds::resource(kind, version);
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            match pages(async |params| api.list(&params).await).await {
                Ok(all) => all.into_iter().for_each(|object| found.take(read(kind, &resource, object))),
                // Few listeners name one.
                Err(error) if kind == Kind::ClusterTrustBundle && code(&error) == Some(403) => {
                    found.unlisted.push(failed(error));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        found.list_secrets(client).await?;
        Ok(found)
    }

    async fn list_secrets(&mut self, client: &Client) -> Result<(), RemoteError> {
        let resource = kinds::resource(Kind::Secret, "v1");
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let all = match pages(async |params| api.list_metadata(&params).await).await {
            Ok(all) => all,
            Err(error) if code(&error) == Some(403) => {
                self.unlisted.push(RemoteError::NoSecrets(error));
                return Ok(());
            }
            Err(error) => return Err(RemoteError::NoSecrets(error)),
        };
        let mut secrets = BTreeMap::new();
        for secret in all {
            let name = ObjectName::new(secret.namespace().unwrap_or_default(), secret.name_any());
            secrets.insert(name, Mark::read(&secret.metadata));
            let bare = DynamicObject { types: None, metadata: secret.metadata, data: json!({}) };
            self.take(read(Kind::Secret, &resource, bare));
        }
        self.secrets = Some(secrets);
        Ok(())
    }

    fn take(&mut self, seen: Seen) {
        match seen.object {
            Ok(object) => self.objects.push(object),
            Err(why) => self.unread.push((seen.key, why)),
        }
    }

    /// Secrets that no issuer of this controller's made; `None`: it is not known.
    #[must_use]
    pub fn foreign(&self, controller: &str) -> Option<BTreeSet<ObjectName>> {
        let is_ours = |mark: &Option<Mark>| mark.as_ref().is_some_and(|mark| mark.is_of(controller));
        let others = self.secrets.as_ref()?.iter().filter(|(_, mark)| !is_ours(mark));
        Some(others.map(|(name, _)| name.clone()).collect())
    }

    /// The ConfigMaps among what somebody refers to: whether a listener is accepted may rest on them.
    pub async fn config_maps(
        client: &Client,
        asked: impl IntoIterator<Item = &ObjectKey>,
    ) -> Result<Vec<Object>, RemoteError> {
        let maps = asked.into_iter().filter(|key| key.kind == Kind::ConfigMap).cloned();
        let mut fetched = stream::iter(maps)
            .map(async |key| {
                let found = kinds::api(client, &key, "v1").get_opt(&key.name.name).await;
                (key, found)
            })
            .buffered(AT_A_TIME);
        let mut objects = Vec::new();
        while let Some((key, found)) = fetched.next().await {
            let found = found.map_err(|error| RemoteError::NoObject(key.clone(), error))?;
            let seen = found.map(|object| read(key.kind, &kinds::resource(key.kind, "v1"), object));
            objects.extend(seen.and_then(|seen| seen.object.ok()));
        }
        Ok(objects)
    }

    /// cert-manager's Certificates, where it is installed.
    pub async fn certificates(client: &Client) -> Result<There, RemoteError> {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &certmanager::resource());
        match pages(async |params| api.list(&params).await).await {
            Ok(all) => Ok(There::read(all)),
            Err(error) if code(&error) == Some(404) => Ok(There::default()),
            Err(error) => Err(RemoteError::NoList("Certificates of cert-manager".to_owned(), error)),
        }
    }
}

pub(super) async fn pages<T: Clone>(
    mut ask: impl AsyncFnMut(ListParams) -> Result<ObjectList<T>, kube::Error>,
) -> Result<Vec<T>, kube::Error> {
    let mut params = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = ask(params.clone()).await?;
        params.continue_token = page.metadata.continue_.clone().filter(|token| !token.is_empty());
        all.extend(page.items);
        if params.continue_token.is_none() {
            return Ok(all);
        }
    }
}
