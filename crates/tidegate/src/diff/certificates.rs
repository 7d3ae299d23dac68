//! Names that are served with another certificate, from another version of TLS on, for other protocols inside it, or
//! under another rule for client certificates.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::Serialize;
use tidegate_plan::{
    Admission, ApplicationProtocol, BlobId, Certificate, ClientCertificates, Hostname, ListenerHandle,
    TlsVersion,
};

use crate::diff::Side;
use crate::diff::probe::{Place, Places, common};
use crate::explain::backends::protocols;
use crate::words;

#[derive(Debug, Serialize)]
pub(crate) struct Change {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hostname: Option<Hostname>,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// What a client sees of a server.
struct Shown<'t> {
    certificate: &'t Certificate,
    minimum_version: Option<TlsVersion>,
    alpn: &'t [ApplicationProtocol],
    clients: Option<&'t ClientCertificates>,
}

pub(crate) fn changes(places: &Places, old: &Side<'_>, new: &Side<'_>) -> Vec<Change> {
    let change = |place: &Place| change(place, &shown(place, old)?, &shown(place, new)?);
    let asked: BTreeSet<Place> =
        places.keys().map(|place| Place { matched: None, ..place.clone() }).collect();
    let mut changes: Vec<Change> = asked.iter().filter_map(change).collect();
    let named: BTreeSet<Place> = [old, new].into_iter().flat_map(certified).collect();
    for change in named.difference(&asked).filter_map(change) {
        if !changes.iter().any(|told| told.tells(&change)) {
            changes.push(change);
        }
    }
    changes.sort_by(|one, other| one.place().cmp(&other.place()));
    changes
}

/// The names of the certificates themselves: a listener with several chooses by them, whether a route has the name or
/// not.
fn certified<'a>(side: &'a Side<'_>) -> impl Iterator<Item = Place> + 'a {
    side.listeners.values().flat_map(|listener| {
        let certificates = listener.handling.server_tls().map_or(&[][..], |tls| &tls.certificates);
        let names: Vec<Hostname> = certificates.iter().flat_map(|shown| shown.names.clone()).collect();
        let common = common(listener.hostname.as_ref(), &names);
        Place::of(listener).flat_map(move |place| {
            let named = |hostname: &Option<Hostname>| Place { hostname: hostname.clone(), ..place.clone() };
            common.iter().map(named).collect::<Vec<_>>()
        })
    })
}

impl Change {
    fn place(&self) -> (u16, Option<IpAddr>, Option<&Hostname>) {
        (self.port, self.address, self.hostname.as_ref())
    }

    /// Whether the same is said of a name that stands for the other's too.
    fn tells(&self, other: &Self) -> bool {
        let covers = match (&self.hostname, &other.hostname) {
            (None, _) => true,
            (Some(own), Some(other)) => own.covers(other),
            (Some(_), None) => false,
        };
        let said = |change: &Self| (change.port, change.address, change.old.clone(), change.new.clone());
        covers && said(self) == said(other)
    }
}

fn change(place: &Place, old: &Shown<'_>, new: &Shown<'_>) -> Option<Change> {
    let same = old.certificate.id == new.certificate.id
        && old.minimum_version == new.minimum_version
        && old.alpn == new.alpn
        && old.clients == new.clients;
    let words = |shown: &Shown<'_>| {
        let id = |BlobId(id): &BlobId| id.get(..12).unwrap_or(id).to_owned();
        let clients = shown.clients.map(|clients| {
            let bundles: Vec<String> = clients.trust.iter().map(id).collect();
            let rule = if clients.allow_insecure { "optional" } else { "required" };
            format!(", client certificates {rule} (CA bundle {})", bundles.join(", "))
        });
        let version = shown.minimum_version.map(|version| format!(", at least TLS {version}"));
        let alpn = (!shown.alpn.is_empty()).then(|| format!(", ALPN {}", protocols(shown.alpn)));
        let [version, alpn, clients] = [version, alpn, clients].map(Option::unwrap_or_default);
        format!("{}{version}{alpn}{clients}", words::certificate(shown.certificate))
    };
    let (old, new) = (words(old), words(new));
    // A renewed certificate may read the same; its id says that it is another.
    let renewed = if old == new { " (renewed)" } else { "" };
    let new = format!("{new}{renewed}");
    let Place { port, address, hostname, .. } = place.clone();
    (!same).then_some(Change { address, port, hostname, old, new })
}

fn shown<'t>(place: &Place, side: &'t Side<'_>) -> Option<Shown<'t>> {
    // The certificate is chosen before the request, which may be refused.
    let (listener, certificate): (&ListenerHandle, &Certificate) = match place.admit(side)? {
        Admission::Stream { listener, certificate, .. } => (listener, certificate?),
        Admission::Https { listener, certificate, .. } => (listener, certificate),
        Admission::Http => return None,
    };
    let tls = listener.handling.server_tls()?;
    Some(Shown {
        certificate,
        minimum_version: tls.minimum_version,
        alpn: &tls.alpn,
        clients: tls.client_certificates.as_ref(),
    })
}
