//! The store in a cluster: Secrets. One that is not ours is never written, and neither is one that somebody changed
//! since we looked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Client, Error, ResourceExt};
use tidegate_certs::{Boxed, Document, Shelf, Store, StoreError};
use tidegate_plan::ObjectName;
use tokio::sync::Notify;

use super::documents::{Form, selector, target};
use super::known::Known;
use crate::FIELD_MANAGER;
use crate::status::code;

/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often somebody else may be quicker.
const TRIES: usize = 5;
/// A Secret takes 1 MiB.
const LARGEST: usize = 900 * 1024;
/// Secrets in one answer of the API server.
const PAGE: u32 = 500;

/// Whom the certificates of a listener's Secret belong to: they go when these go.
pub(crate) type Owners = BTreeMap<ObjectName, Vec<OwnerReference>>;

pub(crate) struct SecretStore {
    client: Client,
    form: Form,
    owners: Mutex<Arc<Owners>>,
    known: Mutex<Known>,
    news: Notify,
}

impl fmt::Debug for SecretStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretStore").finish_non_exhaustive()
    }
}

impl SecretStore {
    pub(crate) fn new(client: Client, form: Form, owners: Arc<Owners>) -> Self {
        Self {
            client,
            form,
            owners: Mutex::new(owners),
            known: Mutex::new(Known::default()),
            news: Notify::new(),
        }
    }

    pub(crate) fn own(&self, owners: Arc<Owners>) {
        *self.owners.lock().unwrap_or_else(PoisonError::into_inner) = owners;
    }

    /// The watch tells of a Secret, any Secret; `None`: that it is gone.
    pub(crate) fn sighted(&self, name: &ObjectName, version: Option<&str>) {
        let version = version.map(|version| version.parse().unwrap_or(u64::MAX));
        if self.known().sighted(name, version) {
            self.news.notify_one();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api(&self, place: &ObjectName) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &place.namespace)
    }

    async fn list(&self, shelf: Shelf) -> Result<Vec<Document>, StoreError> {
        let api: Api<Secret> = match shelf {
            Shelf::Certificates | Shelf::Orders => Api::all(self.client.clone()),
            _ => Api::namespaced(self.client.clone(), &self.form.namespace),
        };
        let mut params = ListParams::default().labels(&selector(shelf)).limit(PAGE);
        let mut documents = Vec::new();
        loop {
            let page = in_time(api.list(&params)).await;
            let page = page.map_err(|error| failed("Secrets cannot be listed", &error))?;
            params.continue_token = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            for secret in page {
                self.note(shelf, &secret);
                documents.extend(self.form.read(shelf, &secret));
            }
            if params.continue_token.is_none() {
                documents.sort_by(|a, b| a.name.cmp(&b.name));
                return Ok(documents);
            }
        }
    }

    fn note(&self, shelf: Shelf, secret: &Secret) {
        if shelf == Shelf::Certificates && self.form.is_ours(shelf, secret) {
            let name = ObjectName::new(secret.namespace().unwrap_or_default(), secret.name_any());
            self.known().read(&name, version(secret));
        }
    }

    async fn find(&self, shelf: Shelf, name: &str) -> Result<Option<Document>, StoreError> {
        let place = self.form.place(shelf, name)?;
        let found = in_time(self.api(&place).get_opt(&place.name)).await;
        let found = found.map_err(|error| failed(&format!("Secret {place} cannot be read"), &error))?;
        let found = found.filter(|secret| self.form.is_ours(shelf, secret));
        if shelf == Shelf::Certificates {
            self.known().read(&place, found.as_ref().and_then(version));
        }
        Ok(found.and_then(|secret| self.form.read(shelf, &secret)))
    }

    async fn write(&self, shelf: Shelf, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let place = self.form.place(shelf, name)?;
        let owners = match target(shelf, name, content)? {
            None => Vec::new(),
            Some(target) => {
                let owners = Arc::clone(&self.owners.lock().unwrap_or_else(PoisonError::into_inner));
                let found = owners.get(&target).cloned();
                found.ok_or_else(|| StoreError::Refused(format!("nobody wants Secret {target} any more")))?
            }
        };
        if shelf != Shelf::Certificates {
            return self.put_secret(shelf, &place, content, owners, false).await.map(|_| ());
        }
        let is_there = {
            let mut known = self.known();
            known.begin(&place);
            known.is_there(&place)
        };
        let written = self.put_secret(shelf, &place, content, owners, is_there).await;
        if self.known().end(&place, written.as_ref().ok().and_then(version)) {
            self.news.notify_one();
        }
        written.map(|_| ())
    }

    /// Made where there is none; written over where there is one of ours, and it is still as we read it.
    async fn put_secret(
        &self,
        shelf: Shelf,
        place: &ObjectName,
        content: &[u8],
        owners: Vec<OwnerReference>,
        is_there: bool,
    ) -> Result<Secret, StoreError> {
        let api = self.api(place);
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let mut look = is_there || matches!(shelf, Shelf::Ledger | Shelf::Accounts);
        for _ in 0..TRIES {
            let there = if look { in_time(api.get_opt(&place.name)).await } else { Ok(None) };
            let there = there.map_err(|error| failed(&format!("Secret {place} cannot be read"), &error))?;
            let is_new = there.is_none();
            // A root is made once: whoever comes second takes the first one's.
            let is_untouchable =
                |there: &Secret| !self.form.is_ours(shelf, there) || shelf == Shelf::Authority;
            if there.as_ref().is_some_and(is_untouchable) {
                return Err(StoreError::Refused(format!("Secret {place} is there already and not ours")));
            }
            let secret = self.form.write(shelf, place, content, owners.clone(), there.unwrap_or_default())?;
            let written = match is_new {
                true => in_time(api.create(&params, &secret)).await,
                // With the resource version that was read: nobody's change is written over.
                false => in_time(api.replace(&place.name, &params, &secret)).await,
            };
            match written {
                Ok(secret) => return Ok(secret),
                Err(Failed::Api(error)) if code(&error) == Some(409) => look = true,
                Err(Failed::Api(error)) if code(&error) == Some(404) && !is_new => look = true,
                Err(error) => return Err(refused(place, &error)),
            }
        }
        Err(StoreError::Other(format!("Secret {place} is changed by others again and again")))
    }

    async fn delete(&self, shelf: Shelf, name: &str) -> Result<(), StoreError> {
        let place = self.form.place(shelf, name)?;
        let api = self.api(&place);
        self.known().read(&place, None);
        for _ in 0..TRIES {
            let found = in_time(api.get_opt(&place.name)).await;
            let found = found.map_err(|error| failed(&format!("Secret {place} cannot be read"), &error))?;
            let Some(found) = found.filter(|secret| self.form.is_ours(shelf, secret)) else { return Ok(()) };
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: found.metadata.uid,
                    resource_version: found.metadata.resource_version,
                }),
                ..DeleteParams::default()
            };
            match in_time(api.delete(&place.name, &params)).await {
                Ok(_) => return Ok(()),
                Err(Failed::Api(error)) if code(&error) == Some(404) => return Ok(()),
                Err(Failed::Api(error)) if code(&error) == Some(409) => {}
                Err(error) => return Err(failed(&format!("Secret {place} cannot be deleted"), &error)),
            }
        }
        Err(StoreError::Other(format!("Secret {place} is changed by others again and again")))
    }
}

impl Store for SecretStore {
    fn all(&self, shelf: Shelf) -> Boxed<'_, Result<Vec<Document>, StoreError>> {
        Box::pin(self.list(shelf))
    }

    fn one<'a>(&'a self, shelf: Shelf, name: &'a str) -> Boxed<'a, Result<Option<Document>, StoreError>> {
        Box::pin(self.find(shelf, name))
    }

    fn put<'a>(
        &'a self,
        shelf: Shelf,
        name: &'a str,
        content: &'a [u8],
    ) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(self.write(shelf, name, content))
    }

    fn remove<'a>(&'a self, shelf: Shelf, name: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(self.delete(shelf, name))
    }

    fn changed(&self) -> Boxed<'_, BTreeSet<String>> {
        Box::pin(async {
            loop {
                let changed = self.known().take_changed();
                if !changed.is_empty() {
                    return changed.iter().map(ToString::to_string).collect();
                }
                self.news.notified().await;
            }
        })
    }

    fn largest(&self) -> usize {
        LARGEST
    }
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    Api(Error),
    #[error("no answer")]
    Late,
}

async fn in_time<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Failed> {
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(Failed::Api),
        Err(_) => Err(Failed::Late),
    }
}

fn failed(what: &str, error: &Failed) -> StoreError {
    StoreError::Other(format!("{what}: {error}"))
}

/// What the API server has against one Secret (a quota, a policy, a namespace that ends) is not against others.
fn refused(place: &ObjectName, error: &Failed) -> StoreError {
    let message = format!("Secret {place} cannot be written: {error}");
    match error {
        Failed::Api(error) if code(error).is_some_and(|code| (400..429).contains(&code) && code != 401) => {
            StoreError::Refused(message)
        }
        _ => StoreError::Other(message),
    }
}

fn version(secret: &Secret) -> Option<u64> {
    secret.metadata.resource_version.as_ref()?.parse().ok()
}
