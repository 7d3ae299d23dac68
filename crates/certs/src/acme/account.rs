//! The account with the CA. Its key is stored before the CA hears of it; only with an external account the CA's library
//! makes the key itself, and a process that is killed before it has stored the answer makes another account.

use std::sync::Arc;

use instant_acme::{Account, AccountCredentials, Error, ExternalAccountKey, Key, NewAccount};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

use super::courier::{Way, asked_to_wait};
use super::order::Stop;
use super::{Acme, STALE_NONCES, problem};
use crate::hash::hash;
use crate::issuance::not_stored;
use crate::record::parse;
use crate::{Failure, Shelf, Store};

/// As it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    directory: String,
    /// In PEM. With an external account the CA's library makes the key, and it is among the credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Once the CA knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    credentials: Option<AccountCredentials>,
    /// Those that the CA was told.
    #[serde(default)]
    contacts: Vec<String>,
}

impl Acme {
    /// The account, found or made.
    pub(super) async fn account(&self, store: &dyn Store) -> Result<Account, Failure> {
        let mut known = self.account.lock().await;
        if let Some(account) = &*known {
            return Ok(account.clone());
        }
        let mut stale = 0;
        let account = loop {
            match self.find_or_make(store).await {
                Ok(account) => break account,
                Err(Stop::Failure(failure)) => return Err(failure),
                // The key is the same when it is asked again, and so is the account.
                Err(Stop::Error(error)) if problem::is_stale_nonce(&error) && stale < STALE_NONCES => {
                    stale += 1;
                }
                Err(Stop::Error(error)) => return Err(problem::failure(&error, asked_to_wait())),
            }
        };
        *known = Some(account.clone());
        Ok(account)
    }

    /// The CA does not know it any more: next time it is made anew, with the same key.
    pub(super) async fn forget_account(&self, store: &dyn Store) -> Result<(), Failure> {
        *self.account.lock().await = None;
        let Some(mut stored) = self.load(store).await? else { return Ok(()) };
        stored.credentials = None;
        self.save(store, &stored).await
    }

    async fn find_or_make(&self, store: &dyn Store) -> Result<Account, Stop> {
        let settings = &self.settings;
        let empty = || Stored {
            directory: settings.directory.clone(),
            key: None,
            credentials: None,
            contacts: Vec::new(),
        };
        let mut stored = self.load(store).await?.unwrap_or_else(empty);
        let builder = Account::builder_with_http(Box::new(Way(Arc::clone(&self.http))));
        let as_told: Vec<String> = settings
            .contacts
            .iter()
            .map(|contact| if contact.contains(':') { contact.clone() } else { format!("mailto:{contact}") })
            .collect();
        let contacts: Vec<&str> = as_told.iter().map(String::as_str).collect();
        if let Some(credentials) = stored.credentials.take() {
            let account = builder.from_credentials(credentials).await?;
            if stored.contacts != as_told {
                account.update_contacts(&contacts).await?;
                // What was taken for the account is read once more, to be stored as it was.
                let known = self.load(store).await?.unwrap_or_else(empty);
                self.save(store, &Stored { contacts: as_told, ..known }).await?;
            }
            return Ok(account);
        }
        let directory = settings.directory.clone();
        let made = if let Some(external) = &settings.external_account {
            let new =
                NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
            let binding = ExternalAccountKey::new(external.id.clone(), &external.key);
            builder.create(&new, directory, Some(&binding)).await
        } else {
            let key = match stored.key.take() {
                Some(key) => key,
                None => new_key()?,
            };
            stored.key = Some(key.clone());
            self.save(store, &stored).await?;
            let made = builder.create_from_key(key_of(&key)?, directory).await;
            if let (Ok((account, _)), false) = (&made, contacts.is_empty()) {
                account.update_contacts(&contacts).await?;
            }
            made
        };
        let (account, credentials) = made?;
        stored.credentials = Some(credentials);
        stored.contacts = as_told;
        self.save(store, &stored).await?;
        Ok(account)
    }

    /// One for each directory and external account, so that a change of either is another account.
    fn document(&self) -> String {
        let external = self.settings.external_account.as_ref().map_or("", |external| &external.id);
        let number = hash(&[&self.settings.directory, external]) & 0xffff_ffff;
        format!("{}-{number:08x}", self.settings.name)
    }

    async fn load(&self, store: &dyn Store) -> Result<Option<Stored>, Failure> {
        let name = self.document();
        let documents = store.all(Shelf::Accounts).await.map_err(|error| not_stored(&error))?;
        let document = documents.iter().find(|document| document.name == name);
        let stored = document.map(|document| parse(Shelf::Accounts, &name, &document.content)).transpose();
        stored.map_err(|error| not_stored(&error))
    }

    async fn save(&self, store: &dyn Store, stored: &Stored) -> Result<(), Failure> {
        let content = serde_json::to_vec_pretty(stored)
            .map_err(|error| Failure::Issuer { message: error.to_string(), wait: None })?;
        let put = store.put(Shelf::Accounts, &self.document(), &content).await;
        put.map_err(|error| not_stored(&error))
    }
}

fn new_key() -> Result<String, Failure> {
    let made = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map(|key| key.serialize_pem());
    made.map_err(|error| Failure::Issuer { message: format!("no key can be made: {error}"), wait: None })
}

fn key_of(pem: &str) -> Result<(Key, PrivateKeyDer<'static>), Failure> {
    let unusable = |message: String| Failure::Issuer { message, wait: None };
    let pair = KeyPair::from_pem(pem)
        .map_err(|error| unusable(format!("the key of the account cannot be used: {error}")))?;
    let der = pair.serialize_der();
    let key = Key::from_pkcs8_der(PrivatePkcs8KeyDer::from(der.as_slice()));
    let key =
        key.map_err(|error: Error| unusable(format!("the key of the account cannot be used: {error}")))?;
    Ok((key, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der))))
}
