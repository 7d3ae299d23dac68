//! `tidegate certs list`: what a state folder holds, read beside the process that owns it, or what a cluster has.

use std::path::Path;

use serde_json::json;
use tidegate_certs::{Certificate, FolderStore, Ledger, Shelf, StoreError};
use tidegate_kubernetes::remote::{self, RemoteError};

use crate::arguments::{CertsList, TextFormat};
use crate::cluster::asking;
use crate::layout::{Cell, Table};
use crate::output::{BAD, CARE, Error, Outcome, Terminal};
use crate::words;

pub(crate) fn run(options: &CertsList, terminal: &mut Terminal) -> Result<Outcome, Error> {
    let (certificates, ledgers) = match &options.state {
        Some(state) => of_folder(state, terminal)?,
        None => of_cluster(options, terminal)?,
    };
    let troubles: Vec<Trouble> = ledgers.iter().flat_map(troubles).collect();
    match options.output {
        TextFormat::Json => terminal.print_json(&as_json(&certificates, &troubles))?,
        TextFormat::Text => terminal.print(&as_text(&certificates, &troubles))?,
    }
    let is_good = troubles.is_empty() && certificates.iter().all(|each| each.held.is_good(words::now()));
    Ok(Outcome::good_if(is_good))
}

type Found = (Vec<Certificate>, Vec<Ledger>);

fn of_folder(state: &Path, terminal: &mut Terminal) -> Result<Found, Error> {
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
    Ok((certificates, ledgers.collect()))
}

/// What failed is the controller's to know: who may read the Gateway's Secrets alone is not told.
fn of_cluster(options: &CertsList, terminal: &mut Terminal) -> Result<Found, Error> {
    let failed = |error: RemoteError| Error::Start(error.to_string());
    let (certificates, ledgers) = asking(async {
        let (client, own) = remote::connect(options.context.as_deref()).await.map_err(failed)?;
        let gateway = options.gateway.as_deref();
        let namespace = options.namespace.as_deref().or(gateway.map(|_| own.as_str()));
        let certificates = remote::certificates(&client, namespace, gateway).await.map_err(failed)?;
        Ok((certificates, remote::ledgers(&client).await))
    })?;
    let ledgers = ledgers.unwrap_or_else(|error| {
        terminal.warning(&format!("what failed is not known here: {error}"));
        Vec::new()
    });
    Ok((certificates, ledgers))
}

/// What failed last: whose, why, and when it is tried again.
struct Trouble {
    whose: String,
    message: String,
    tries: u32,
    again: i64,
}

fn troubles(ledger: &Ledger) -> Vec<Trouble> {
    let names = ledger.setbacks().map(|(issuer, name, setback)| (format!("{name} ({issuer})"), setback));
    let issuers = ledger.holds().map(|(issuer, setback)| (format!("issuer {issuer}"), setback));
    issuers
        .chain(names)
        .map(|(whose, setback)| Trouble {
            whose,
            message: setback.message.clone(),
            tries: setback.count,
            again: setback.since + setback.wait.max(setback.at_least),
        })
        .collect()
}

fn as_text(certificates: &[Certificate], troubles: &[Trouble]) -> String {
    if certificates.is_empty() && troubles.is_empty() {
        return "No certificate yet.\n".to_owned();
    }
    let now = words::now();
    let mut table = Table::new(0, &["SECRET", "ISSUER", "UNTIL", "RENEWED", "NAMES"]);
    for Certificate { held, .. } in certificates {
        let until = words::time(held.not_after);
        let until = match (held.is_good(now), held.renew_at() < now) {
            (false, _) => Cell::new(BAD, until),
            (true, true) => Cell::new(CARE, until),
            (true, false) => until.into(),
        };
        let cells = vec![
            held.secret.to_string().into(),
            held.issuer.to_string().into(),
            until,
            words::time(held.renew_at()).into(),
            words::some_of(&held.names, 5).into(),
        ];
        let remark = (!held.usable).then(|| "the key does not belong to the certificate".to_owned());
        table.row(cells, remark.into_iter().collect());
    }
    let mut text = table.render();
    if !troubles.is_empty() {
        let mut table = Table::new(0, &["FAILED", "TRIES", "AGAIN"]);
        for trouble in troubles {
            let cells = vec![
                Cell::new(BAD, trouble.whose.as_str()),
                trouble.tries.to_string().into(),
                words::time(trouble.again).into(),
            ];
            table.row(cells, vec![trouble.message.clone()]);
        }
        text = format!("{text}\n{}", table.render());
    }
    text
}

fn as_json(certificates: &[Certificate], troubles: &[Trouble]) -> serde_json::Value {
    let certificates: Vec<_> = certificates
        .iter()
        .map(|Certificate { held, .. }| {
            json!({
                "secret": held.secret,
                "issuer": held.issuer.to_string(),
                "names": held.names,
                "notBefore": words::time(held.not_before),
                "notAfter": words::time(held.not_after),
                "renewAt": words::time(held.renew_at()),
                "usable": held.usable,
            })
        })
        .collect();
    let failures: Vec<_> = troubles
        .iter()
        .map(|trouble| {
            json!({
                "of": trouble.whose,
                "message": trouble.message,
                "tries": trouble.tries,
                "again": words::time(trouble.again),
            })
        })
        .collect();
    json!({ "certificates": certificates, "failures": failures })
}
