//! Names that are served with another certificate, from another version of TLS on, for other protocols inside it, or
//! under another rule for client certificates.

use std::net::IpAddr;

use serde::Serialize;
use tidegate_plan::{
    Admission, ApplicationProtocol, BlobId, Certificate, ClientCertificates, Hostname, ListenerHandle,
    TlsVersion,
};

use crate::diff::Side;
use crate::diff::probe::{Place, Places};
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
    let mut names: Vec<Place> = places.keys().map(|place| Place { matched: None, ..place.clone() }).collect();
    names.dedup();
    names.into_iter().filter_map(|place| change(&place, &shown(&place, old)?, &shown(&place, new)?)).collect()
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
