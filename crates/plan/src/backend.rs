//! Backends: where their endpoints are, which protocol they speak, and how they are to be trusted.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::http::SessionPersistence;
use crate::{ApplicationProtocol, BackendId, BlobId, Certificate, EndpointsId, Hostname, Reason};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    pub id: BackendId,
    pub addresses: Addresses,
    pub protocol: Protocol,
    pub upstream: Upstream,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionPersistence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudget>,
    /// Endpoints in the same zone are taken first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefer_close: bool,
    /// Set for manifests that came from a folder: only there may a backend be on loopback.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_loopback: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Addresses {
    Endpoints(EndpointsId),
    /// Resolved by the data plane, again at each end of its time to live.
    Dns {
        hostname: Hostname,
        port: u16,
    },
}

/// What the backend speaks, as `appProtocol` says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    /// Nothing was said: HTTP/1.1 for HTTP routes, bytes for the others.
    #[default]
    Unspecified,
    Http1,
    Http2,
    WebSocket,
    Tcp,
}

/// How the connection to the backend is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Upstream {
    Plain,
    Tls(BackendTls),
    /// A policy asks for TLS and cannot be followed: never plaintext instead.
    Refuse(Reason),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    pub sni: Hostname,
    pub trust: Trust,
    /// One of them must match; empty: the SNI must.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<AlternativeName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_version: Option<TlsVersion>,
    /// What is offered for bytes, the preferred first; empty: what a client whose TLS was terminated has agreed on.
    /// HTTP offers what it speaks, and nothing of this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<ApplicationProtocol>,
    /// Of the backend itself; it goes before the Gateway's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<Certificate>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trust {
    Bundles(Vec<BlobId>),
    System,
    /// The certificate is taken as it is.
    Unverified,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AlternativeName {
    Dns(Hostname),
    Uri(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TlsVersion {
    #[serde(rename = "1.2")]
    V1_2,
    #[serde(rename = "1.3")]
    V1_3,
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
        })
    }
}

/// Clients with one address stay on one endpoint for a while (Service `sessionAffinity: ClientIP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    pub timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryBudget {
    pub percent: u32,
    pub interval: Duration,
    /// Retries that are always allowed: so many in so long.
    pub minimum: u32,
    pub minimum_interval: Duration,
}

/// The endpoints of one Service port. They change without a translation and travel beside the fragments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    pub id: EndpointsId,
    pub endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Endpoint {
    pub address: IpAddr,
    pub port: u16,
    pub state: EndpointState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndpointState {
    Ready,
    /// Still serving while it terminates: used when no endpoint is ready.
    Terminating,
}
