//! What a data plane must do, as data, and the one place where it is decided.
//!
//! Everything before this crate is about Kubernetes objects, everything after it about bytes; they meet in
//! [`Plan`]. It knows no clock, no socket and no Kubernetes object.

mod application_protocol;
mod backend;
mod capability;
mod challenge;
mod decide;
mod decision;
mod flow;
mod fragment;
mod handle;
mod hostname;
mod http;
mod id;
mod listener;
mod name;
mod of_gateway;
mod path;
mod pattern;
mod reason;
mod refusing;
mod rewrite;
mod route;
mod secret;
mod served;
mod share;
mod tables;
mod trace;

pub use application_protocol::{ApplicationProtocol, ApplicationProtocolError};
pub use backend::{
    Addresses, Affinity, AlternativeName, Backend, BackendTls, Endpoint, EndpointState, Endpoints, Protocol,
    RetryBudget, TlsVersion, Trust, Upstream,
};
pub use capability::Capability;
pub use challenge::{Challenge, Proof};
pub use decide::decide;
pub use decision::{Admission, Decision, HttpVersion, Matched, Refusal};
pub use flow::{Connection, Flow, Headers, Hello, Inbound, Request};
pub use fragment::{Blob, Body, CertifiedKey, Fragment, Plan};
pub use handle::{BackendHandle, GatewayHandle, ListenerHandle, RouteHandle, Rule, RuleHandle};
pub use hostname::{Hostname, HostnameError};
pub use http::{
    Cookie, Cors, ExternalAuth, Filter, Fraction, GrpcMatch, Header, HeaderChange, HttpMatch, PathChange,
    PathMatch, Redirect, Retry, Rewrite, SessionKey, SessionPersistence, TextMatch, Timeouts, ValueMatch,
};
pub use id::{
    BackendId, BackendKind, BlobId, EndpointsId, FragmentId, ListenerId, ObjectName, RouteId, RouteKind,
};
pub use listener::{
    Certificate, ClientCertificates, Gateway, Handling, LastGood, Listener, ServerTls, Transport,
};
pub use name::Name;
pub use path::{PathError, normal_path};
pub use pattern::{Pattern, PatternError};
pub use reason::Reason;
pub use rewrite::Redirected;
pub use route::{Group, GrpcRule, HttpRule, Route, Rules, StreamRule, Target, WeightedBackend};
pub use secret::SharedSecret;
pub use served::{BoundSettings, DataPlaneSettings, GatewayPlan, LogLevel, Report};
pub use share::Fate;
pub use tables::{Certificates, Change, Expects, Key as MapKey, SharedMap, Tables};
pub use trace::{Miss, NameOf, Offer, Step, Trace};
