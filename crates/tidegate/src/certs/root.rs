//! `tidegate certs root`: the certificate alone, so that it can be put into a file; how to trust it beside it.

use std::path::Path;

use tidegate_certs::{FolderStore, Shelf};
use tidegate_kubernetes::remote;

use crate::arguments::CertsRoot;
use crate::cluster::asking;
use crate::output::{Error, Outcome, Terminal};

const HOW: &str = "\
Clients trust it by this certificate:
  curl --cacert root.crt https://...
  Debian, Ubuntu   copy it to /usr/local/share/ca-certificates/tidegate.crt, then update-ca-certificates
  Fedora           copy it to /etc/pki/ca-trust/source/anchors/, then update-ca-trust
  macOS            security add-trusted-cert -d -k /Library/Keychains/System.keychain root.crt
  Firefox          Settings, Certificates, Authorities, Import
Whoever has its key, in the state folder or beside the controller, can vouch for any name to those who trust it.";

pub(crate) fn run(options: &CertsRoot, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let root = match &options.state {
        Some(state) => of_folder(state)?,
        None => of_cluster(options)?,
    };
    terminal.print(&root)?;
    terminal.remark(HOW);
    Ok(Outcome::Good)
}

fn of_folder(state: &Path) -> Result<String, Error> {
    let store = FolderStore::look(state).map_err(|error| Error::Start(error.to_string()))?;
    let documents = store.documents(Shelf::Authority).map_err(|error| Error::Start(error.to_string()))?;
    let root = documents.iter().find_map(|document| {
        let value: serde_json::Value = serde_json::from_slice(&document.content).ok()?;
        value.get("certificate")?.as_str().map(str::to_owned)
    });
    root.ok_or_else(|| {
        Error::Start(format!(
            "{} has no root yet: `tidegate run --certs embedded --state {0}` makes it",
            state.display()
        ))
    })
}

fn of_cluster(options: &CertsRoot) -> Result<String, Error> {
    let root = asking(async {
        let (client, _) = remote::connect(options.context.as_deref()).await?;
        Ok(remote::root(&client, &options.namespace).await?)
    })?;
    root.ok_or_else(|| {
        Error::Start(format!(
            "there is no root in namespace {}: a controller with --issuer embedded makes it (--namespace names where it is)",
            options.namespace
        ))
    })
}
