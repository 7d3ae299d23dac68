//! Certificates that a controller made, as whoever may read Secrets sees them.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use tidegate_certs::{Certificate, Ledger, Shelf};
use tidegate_plan::ObjectName;

use super::RemoteError;
use crate::issuing::{CONTROLLER, DOCUMENT, certificate, selector};

/// Those of one namespace, or of all.
pub async fn certificates(client: &Client, namespace: Option<&str>) -> Result<Vec<Certificate>, RemoteError> {
    let secrets = list(client, namespace, Shelf::Certificates).await?;
    let mut found: Vec<Certificate> = secrets
        .iter()
        .filter_map(|secret| {
            let place = ObjectName::new(secret.namespace().unwrap_or_default(), secret.name_any());
            certificate(place, secret)
        })
        .collect();
    found.sort_by(|a, b| a.held.secret.cmp(&b.held.secret));
    Ok(found)
}

/// What controllers remember of orders and failures; with a name, what that one does.
pub async fn ledgers(client: &Client, controller: Option<&str>) -> Result<Vec<Ledger>, RemoteError> {
    let secrets = list(client, None, Shelf::Ledger).await?;
    let is_of = |secret: &&Secret| {
        let of = secret.annotations().get(CONTROLLER).map(String::as_str);
        controller.is_none() || of == controller
    };
    let content = secrets.iter().filter(is_of).filter_map(|secret| secret.data.as_ref()?.get(DOCUMENT));
    Ok(content.filter_map(|content| serde_json::from_slice(&content.0).ok()).collect())
}

/// The root certificate of the controller in a namespace, where it has an embedded CA.
pub async fn root(client: &Client, namespace: &str) -> Result<Option<String>, RemoteError> {
    let secrets = list(client, Some(namespace), Shelf::Authority).await?;
    let documents = secrets.iter().filter_map(|secret| secret.data.as_ref()?.get(DOCUMENT));
    let mut roots = documents.filter_map(|content| {
        let root: serde_json::Value = serde_json::from_slice(&content.0).ok()?;
        root["certificate"].as_str().map(str::to_owned)
    });
    Ok(roots.next())
}

async fn list(client: &Client, namespace: Option<&str>, shelf: Shelf) -> Result<Vec<Secret>, RemoteError> {
    let api: Api<Secret> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let found = api.list(&ListParams::default().labels(&selector(shelf))).await;
    found.map(|list| list.items).map_err(RemoteError::NoSecrets)
}
