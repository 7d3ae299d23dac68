//! `tidegate certs root`: the certificate alone, so that it can be put into a file; how to trust it beside it.

use tidegate_certs::{FolderStore, Shelf};

use crate::arguments::CertsRoot;
use crate::output::{Error, Outcome, Terminal};

const HOW: &str = "\
Clients trust it by this certificate:
  curl --cacert root.crt https://...
  Debian, Ubuntu   copy it to /usr/local/share/ca-certificates/tidegate.crt, then update-ca-certificates
  Fedora           copy it to /etc/pki/ca-trust/source/anchors/, then update-ca-trust
  macOS            security add-trusted-cert -d -k /Library/Keychains/System.keychain root.crt
  Firefox          Settings, Certificates, Authorities, Import
Whoever has the key in the state folder can vouch for any name to those who trust it: keep that folder to yourself.";

pub(crate) fn run(options: &CertsRoot, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let store = FolderStore::look(&options.state).map_err(|error| Error::Start(error.to_string()))?;
    let documents = store.documents(Shelf::Authority).map_err(|error| Error::Start(error.to_string()))?;
    let root = documents.iter().find_map(|document| {
        let value: serde_json::Value = serde_json::from_slice(&document.content).ok()?;
        value.get("certificate")?.as_str().map(str::to_owned)
    });
    let Some(root) = root else {
        return Err(Error::Start(format!(
            "{} has no root yet: `tidegate run --certs embedded --state {0}` makes it",
            options.state.display()
        )));
    };
    terminal.print(&root)?;
    terminal.remark(HOW);
    Ok(Outcome::Good)
}
