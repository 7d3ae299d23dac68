//! Stable names of the parts of a plan: the same object gives the same id in every translation.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Hostname, Transport};

/// A namespaced Kubernetes object, its kind known from where the name stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectName {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ObjectName {
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A listener of a Gateway, written in the Gateway itself or in one of its ListenerSets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerId {
    pub gateway: ObjectName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener_set: Option<ObjectName>,
    pub name: Arc<str>,
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.listener_set {
            None => write!(f, "{}/{}", self.gateway, self.name),
            Some(set) => write!(f, "{}/{} (ListenerSet {set})", self.gateway, self.name),
        }
    }
}

/// The five kinds of route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RouteKind {
    #[serde(rename = "HTTPRoute")]
    Http,
    #[serde(rename = "GRPCRoute")]
    Grpc,
    #[serde(rename = "TLSRoute")]
    Tls,
    #[serde(rename = "TCPRoute")]
    Tcp,
    #[serde(rename = "UDPRoute")]
    Udp,
}

impl RouteKind {
    pub const ALL: [Self; 5] = [Self::Http, Self::Grpc, Self::Tls, Self::Tcp, Self::Udp];

    /// The kind as Kubernetes writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "HTTPRoute",
            Self::Grpc => "GRPCRoute",
            Self::Tls => "TLSRoute",
            Self::Tcp => "TCPRoute",
            Self::Udp => "UDPRoute",
        }
    }
}

impl fmt::Display for RouteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RouteId {
    pub kind: RouteKind,
    pub object: ObjectName,
}

impl fmt::Display for RouteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.object)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BackendKind {
    Service,
    XBackend,
}

impl BackendKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::XBackend => "XBackend",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One port of one backend object: the unit that has endpoints and a TLS policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendId {
    pub kind: BackendKind,
    pub object: ObjectName,
    pub port: u16,
    /// A Service may have one number for both.
    #[serde(default, skip_serializing_if = "Transport::is_tcp")]
    pub transport: Transport,
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = if self.transport.is_tcp() { "" } else { "/UDP" };
        write!(f, "{} {}:{}{transport}", self.kind, self.object, self.port)
    }
}

/// The endpoints of one named port of one Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EndpointsId {
    pub service: ObjectName,
    pub port: Arc<str>,
}

impl fmt::Display for EndpointsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.service, self.port)
    }
}

/// A certificate with its key, or a bundle of CAs, by the hash of its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobId(pub Arc<str>);

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FragmentId {
    Gateway(ObjectName),
    Listener(ListenerId),
    Route(RouteId),
    Backend(BackendId),
    /// By the name that is to be proved.
    Challenge(Hostname),
}

impl fmt::Display for FragmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway(id) => write!(f, "Gateway {id}"),
            Self::Listener(id) => write!(f, "Listener {id}"),
            Self::Route(id) => write!(f, "{id}"),
            Self::Backend(id) => write!(f, "{id}"),
            Self::Challenge(name) => write!(f, "Challenge for {name}"),
        }
    }
}
