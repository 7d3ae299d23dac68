//! What a data plane must do, as data, and the one place where it is decided.
//!
//! Everything before this crate is about Kubernetes objects, everything after it about bytes; they meet in
//! [`Plan`]. It knows no clock, no socket and no Kubernetes object.

mod backend;
mod capability;
mod fragment;
mod hostname;
mod http;
mod id;
mod listener;
mod reason;
mod route;

pub use backend::{
    Addresses, Affinity, AlternativeName, Backend, BackendTls, Endpoint, EndpointState, Endpoints, Protocol,
    RetryBudget, TlsVersion, Trust, Upstream,
};
pub use capability::Capability;
pub use fragment::{Blob, Body, CertifiedKey, Fragment, Plan};
pub use hostname::{Hostname, HostnameError};
pub use http::{
    Cookie, Cors, ExternalAuth, Filter, Fraction, GrpcMatch, Header, HeaderChange, HttpMatch, PathChange,
    PathMatch, Redirect, Retry, Rewrite, SessionKey, SessionPersistence, TextMatch, Timeouts, ValueMatch,
};
pub use id::{
    BackendId, BackendKind, BlobId, EndpointsId, FragmentId, ListenerId, ObjectName, RouteId, RouteKind,
};
pub use listener::{Certificate, ClientCertificates, Gateway, Handling, Listener, ServerTls, Transport};
pub use reason::Reason;
pub use route::{Group, GrpcRule, HttpRule, Route, Rules, StreamRule, Target, WeightedBackend};
