//! `tidegate certs synth`: manifests as a tool needs them that looks at listeners alone. A listener without a hostname is
//! written out once for each name that its routes bring; what does not fit into a Gateway or ListenerSet goes into
//! ListenerSets beside it, and the routes come along with what they then have to name.

mod listeners;
mod routes;

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_api::{Kind, ObjectKey, to_yaml};
use tidegate_issuing::left_out_in_words;
use tidegate_plan::{ListenerId, RouteId, RouteKind};
use tidegate_translate::{Issuer, Settings, Wants};

use self::listeners::{Copied, Name, WrittenOut, write_out};
use self::routes::with_parents;
use crate::arguments::CertsSynth;
use crate::meaning::Meaning;
use crate::output::{Error, Outcome, Terminal};

pub(crate) fn run(options: &CertsSynth, terminal: &mut Terminal) -> Result<Outcome, Error> {
    // Which issuer it is makes no difference to names that routes bring.
    let settings = Settings { issuer: Some(Issuer::Embedded), ..Settings::folder() };
    let meaning = Meaning::under(&options.paths, settings)?;
    meaning.report(terminal);
    warn_of_left_out(&meaning, terminal);
    let mut documents = Vec::new();
    let mut copies = BTreeMap::new();
    for (key, manifest) in meaning.manifests.written() {
        let Some(key) = key.filter(|key| matches!(key.kind, Kind::Gateway | Kind::ListenerSet)) else {
            continue;
        };
        let names = |listener: &str| inferred(&meaning, key, listener);
        let WrittenOut { documents: own, copies: of_parent, warning } = write_out(manifest, &names);
        if let Some(warning) = warning {
            terminal.warning(&format!("{key}: {warning}"));
        }
        documents.extend(own);
        copies.insert(key.clone(), of_parent);
    }
    documents.extend(routes(&meaning, &copies));
    let texts: Vec<String> = documents.iter().map(to_yaml).collect();
    terminal.print(&texts.join("---\n"))?;
    Ok(Outcome::Good)
}

/// The names that routes bring to a listener without a hostname.
fn inferred(meaning: &Meaning, parent: &ObjectKey, listener: &str) -> Vec<Name> {
    let wants = meaning.translation().wants.values().find(|wants| is_of(&wants.listener, parent, listener));
    let wants = wants.filter(|wants| is_open(meaning, wants));
    let names = wants.into_iter().flat_map(|wants| &wants.names);
    names.map(|wanted| Name { name: wanted.name.to_string(), routes: wanted.routes.clone() }).collect()
}

fn is_of(id: &ListenerId, parent: &ObjectKey, listener: &str) -> bool {
    let owner = id.listener_set.as_ref().unwrap_or(&id.gateway);
    let is_set = parent.kind == Kind::ListenerSet;
    id.listener_set.is_some() == is_set && *owner == parent.name && &*id.name == listener
}

fn is_open(meaning: &Meaning, wants: &Wants) -> bool {
    meaning.listener(&wants.listener).is_some_and(|listener| listener.hostname.is_none())
}

/// A name for which no listener is written is served by none.
fn warn_of_left_out(meaning: &Meaning, terminal: &mut Terminal) {
    for wants in meaning.translation().wants.values().filter(|wants| is_open(meaning, wants)) {
        for left in wants.left_out.iter().filter(|left| !left.why.is_served_elsewhere()) {
            let Some(name) = &left.name else { continue };
            terminal.warning(&format!(
                "listener {} is not written out for {name}: {}",
                wants.listener,
                left_out_in_words(left)
            ));
        }
    }
}

/// The routes whose listeners were written out.
fn routes(meaning: &Meaning, copies: &BTreeMap<ObjectKey, Vec<Copied>>) -> Vec<Value> {
    let mut documents = Vec::new();
    for (key, manifest) in meaning.manifests.written() {
        let Some(key) = key else { continue };
        let Some(kind) = RouteKind::ALL.into_iter().find(|kind| Kind::from(*kind) == key.kind) else {
            continue;
        };
        let id = RouteId { kind, object: key.name.clone() };
        documents.extend(with_parents(manifest, &id, copies));
    }
    documents
}
