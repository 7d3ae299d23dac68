//! What there is of certificates, and what is remembered of orders and failures: in a state folder, read beside the
//! process that owns it, or in a cluster.

use std::path::Path;

use tidegate_certs::{Certificate, FolderStore, Ledger, Shelf, StoreError};
use tidegate_kubernetes::Client;
use tidegate_kubernetes::remote::{self, RemoteError};

use crate::output::{Error, Terminal};

#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) certificates: Vec<Certificate>,
    pub(super) ledgers: Vec<Ledger>,
}

impl Kept {
    /// What CAs said of renewals is among what is remembered.
    pub(super) fn new(mut certificates: Vec<Certificate>, ledgers: Vec<Ledger>) -> Self {
        for Certificate { held, .. } in &mut certificates {
            held.suggestion = ledgers.iter().find_map(|ledger| ledger.suggestion(held));
        }
        Self { certificates, ledgers }
    }
}

pub(super) fn of_folder(state: &Path, terminal: &mut Terminal) -> Result<Kept, Error> {
    let failed = |error: StoreError| Error::Start(error.to_string());
    let store = FolderStore::look(state).map_err(failed)?;
    let mut certificates = Vec::new();
    for document in store.documents(Shelf::Certificates).map_err(failed)? {
        match Certificate::parse(&document.name, &document.content) {
            Ok(certificate) => certificates.push(certificate),
            Err(error) => terminal.warning(&error.to_string()),
        }
    }
    let ledgers = store.documents(Shelf::Ledger).map_err(failed)?;
    let ledgers = ledgers.iter().filter_map(|document| serde_json::from_slice(&document.content).ok());
    Ok(Kept::new(certificates, ledgers.collect()))
}

/// Those of one namespace, or of all, and what one controller remembers, or all do. What failed is the controller's to
/// know: who may read Secrets of the namespace alone is not told.
pub(super) async fn of_cluster(
    client: &Client,
    namespace: Option<&str>,
    controller: Option<&str>,
    terminal: &mut Terminal,
) -> Result<Kept, RemoteError> {
    let certificates = remote::certificates(client, namespace).await?;
    let ledgers = remote::ledgers(client, controller).await.unwrap_or_else(|error| {
        terminal.warning(&format!("what failed is not known here: {error}"));
        Vec::new()
    });
    Ok(Kept::new(certificates, ledgers))
}
