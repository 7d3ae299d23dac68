//! Gateways and their listeners: who answers on which port, for which names, with which certificates.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::http::ExternalAuth;
use crate::{ApplicationProtocol, BlobId, Hostname, ListenerId, ObjectName, Reason};

/// What holds for a whole Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    pub id: ObjectName,
    /// Shown to backends that ask for a client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<Certificate>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Transport {
    #[default]
    #[serde(rename = "TCP")]
    Tcp,
    #[serde(rename = "UDP")]
    Udp,
}

impl Transport {
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        *self == Self::Tcp
    }
}

/// What happens to a connection that this listener takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Handling {
    Http,
    Https(ServerTls),
    Passthrough,
    Terminate(ServerTls),
    Tcp,
    Udp,
}

impl Handling {
    #[must_use]
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Http | Self::Https(_) | Self::Passthrough | Self::Terminate(_) | Self::Tcp => {
                Transport::Tcp
            }
        }
    }

    /// Whether a ClientHello is read before anything is decided.
    #[must_use]
    pub const fn reads_hello(&self) -> bool {
        matches!(self, Self::Https(_) | Self::Passthrough | Self::Terminate(_))
    }

    #[must_use]
    pub const fn server_tls(&self) -> Option<&ServerTls> {
        match self {
            Self::Https(tls) | Self::Terminate(tls) => Some(tls),
            Self::Http | Self::Passthrough | Self::Tcp | Self::Udp => None,
        }
    }

    /// The handling as users call it: the listener's protocol, with the mode where there is a choice.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Https(_) => "HTTPS",
            Self::Passthrough => "TLS passthrough",
            Self::Terminate(_) => "TLS terminate",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    pub id: ListenerId,
    /// Empty: every address of the machine or Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    pub port: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    pub handling: Handling,
    /// Asked before any route of this listener is looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub external_auth: Vec<ExternalAuth>,
    /// Set when the listener keeps its names but must not serve them: a listener that cannot check client
    /// certificates, for one, must not leave its names to a listener that does not ask for any. `NoCertificate` does
    /// not hold where a last good one is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<Reason>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerTls {
    /// In the order in which they are shown: that of `certificateRefs`, those of an issuer's the newest first. The good
    /// ones only.
    pub certificates: Vec<Certificate>,
    /// What stands in for the others, in the same order. A data plane that does not know of it refuses where it could
    /// have gone on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_good: Vec<LastGood>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificates: Option<ClientCertificates>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_version: Option<crate::TlsVersion>,
    /// What the owner says is spoken inside, the preferred first. A client that offers protocols must offer one of
    /// these; empty: none is agreed on, whatever is offered. HTTPS knows its own and has none here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<ApplicationProtocol>,
    /// Whether a client is shown a certificate for the name it asks for or none: one that is still to be made is not
    /// stood in for by that of another name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named_only: bool,
}

/// A certificate and what must be known of it without opening it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    pub id: BlobId,
    /// Where it came from, for people.
    pub secret: ObjectName,
    /// The DNS names it is good for.
    pub names: Vec<Hostname>,
    /// Seconds since the epoch.
    pub not_after: i64,
}

/// A certificate that cannot be had from its Secret any more. A data plane that serves one from there, at this very
/// listener, goes on with it; one that does not has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastGood {
    pub secret: ObjectName,
    /// Where it stands among the certificates, the last good ones included.
    pub place: usize,
    /// For how long at most; it is never shown after it has expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificates {
    pub trust: Vec<BlobId>,
    /// Also lets in clients without a certificate or with one that does not verify.
    pub allow_insecure: bool,
}
