//! What a cluster has besides some manifests: what their references may lead to.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use kube::Client;
use kube::api::{Api, DynamicObject};
use tidegate_api::{Kind, Object, ObjectKey};

use super::RemoteError;
use super::objects::pages;
use crate::watch::read;
use crate::{crds, kinds};

/// How many are fetched at a time.
const AT_A_TIME: usize = 8;

#[derive(Debug, Default)]
pub struct Around {
    pub objects: Vec<Object>,
    /// What whoever asks may not see; references to it are as if it were not there.
    pub unseen: Vec<RemoteError>,
}

impl Around {
    /// Lists what decides about references. Where Pods are does not; Secrets and ConfigMaps are fetched when they are
    /// asked for.
    pub async fn list(client: &Client) -> Self {
        let is_listed = |kind: &&Kind| !matches!(kind, Kind::EndpointSlice | Kind::Secret | Kind::ConfigMap);
        let mut around = Self::default();
        for kind in Kind::ALL.iter().filter(is_listed) {
            match list(client, *kind).await {
                Ok(objects) => around.objects.extend(objects),
                Err(error) => around.unseen.push(RemoteError::NoList(kinds::plural(*kind), error)),
            }
        }
        around
    }

    /// Fetches the Secrets and ConfigMaps among these that are there.
    pub async fn fetch(client: &Client, asked: &BTreeSet<ObjectKey>) -> Self {
        let fetched = stream::iter(asked.iter().cloned()).map(async |key| {
            let found = kinds::api(client, &key, "v1").get_opt(&key.name.name).await;
            (key, found)
        });
        let mut around = Self::default();
        let mut fetched = std::pin::pin!(fetched.buffered(AT_A_TIME));
        while let Some((key, found)) = fetched.next().await {
            match found {
                Ok(found) => {
                    let seen = found.map(|object| read(key.kind, &kinds::resource(key.kind, "v1"), object));
                    around.objects.extend(seen.and_then(|seen| seen.object.ok()));
                }
                Err(error) => around.unseen.push(RemoteError::NoObject(key, error)),
            }
        }
        around
    }
}

async fn list(client: &Client, kind: Kind) -> Result<Vec<Object>, kube::Error> {
    let version = if kind.group().is_empty() {
        kind.versions().first().copied()
    } else {
        crds::served(client, kind).await?
    };
    let Some(version) = version else { return Ok(Vec::new()) };
    let resource = kinds::resource(kind, version);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let all = pages(async |params| api.list(&params).await).await?;
    Ok(all.into_iter().filter_map(|object| read(kind, &resource, object).object.ok()).collect())
}
