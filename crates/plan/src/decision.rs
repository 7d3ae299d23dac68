//! What was decided: where traffic goes, or why it goes nowhere.

use crate::{ApplicationProtocol, Certificate, ListenerHandle, PathMatch, Reason, Rule, RuleHandle};

/// Where a whole flow goes.
#[derive(Clone, Debug)]
pub struct Decision<'t> {
    pub admission: Admission<'t>,
    /// Set when the connection carries HTTP and the flow has a request.
    pub request: Option<Matched<'t>>,
}

/// What a connection is to be treated as.
#[derive(Clone, Debug)]
pub enum Admission<'t> {
    /// Bytes or datagrams go to the rule's backends: passthrough, terminated TLS, TCP or UDP, as the listener's
    /// handling says.
    Stream {
        listener: &'t ListenerHandle,
        rule: &'t RuleHandle,
        /// For terminated TLS.
        certificate: Option<&'t Certificate>,
        /// The same: what the client offers by ALPN and the listener takes.
        protocol: Option<&'t ApplicationProtocol>,
    },
    /// Each request finds its listener by its host.
    Http,
    /// Requests stay with the listener that the server name chose.
    Https { listener: &'t ListenerHandle, certificate: &'t Certificate, version: HttpVersion },
}

impl<'t> Admission<'t> {
    /// The listener, where it is known before a request.
    #[must_use]
    pub fn listener(&self) -> Option<&'t ListenerHandle> {
        match self {
            Self::Stream { listener, .. } | Self::Https { listener, .. } => Some(listener),
            Self::Http => None,
        }
    }
}

/// What ALPN gives on an HTTPS listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    Http1,
    Http2,
}

/// The rule that a request matches.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'t> {
    pub listener: &'t ListenerHandle,
    pub rule: &'t RuleHandle,
    /// Which of the rule's matches it was.
    pub which: usize,
}

impl<'t> Matched<'t> {
    /// The path match, which says what a prefix replacement replaces. `None` for gRPC.
    #[must_use]
    pub fn path(&self) -> Option<&'t PathMatch> {
        match self.rule.rule() {
            Rule::Http(rule) => rule.matches.get(self.which).map(|matched| &matched.path),
            Rule::Grpc(_) | Rule::Stream(_) => None,
        }
    }

    #[must_use]
    pub fn is_grpc(&self) -> bool {
        matches!(self.rule.rule(), Rule::Grpc(_))
    }
}

/// Why traffic is not carried, and how far it came.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'t> {
    pub reason: Reason,
    pub listener: Option<&'t ListenerHandle>,
    pub rule: Option<&'t RuleHandle>,
}

impl<'t> Refusal<'t> {
    pub(crate) const fn new(reason: Reason) -> Self {
        Self { reason, listener: None, rule: None }
    }

    pub(crate) const fn by_listener(reason: Reason, listener: &'t ListenerHandle) -> Self {
        Self { reason, listener: Some(listener), rule: None }
    }
}

impl Reason {
    /// What an HTTP client is told. A connection that is refused before HTTP is simply closed.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::NoListener
            | Self::NoListenerForSni
            | Self::NoListenerForHost
            | Self::NoSni
            | Self::NotTls
            | Self::NoRoute
            | Self::NoMatchingRule => 404,
            Self::Misdirected => 421,
            Self::NoEndpoints => 503,
            Self::NoBackends
            | Self::NoWeight
            | Self::BackendNotFound
            | Self::BackendNotPermitted
            | Self::BackendKindUnknown
            | Self::BackendProtocolUnsupported
            | Self::PolicyInvalid
            | Self::NoCertificate
            | Self::NoClientCa
            | Self::NoCommonProtocol
            | Self::FilterUnsupported
            | Self::FilterInvalid
            | Self::ListenerInvalid => 500,
        }
    }

    /// What a gRPC client is told: UNIMPLEMENTED (12) where nothing answers to the name or method, else
    /// UNAVAILABLE (14).
    #[must_use]
    pub const fn grpc_status(self) -> u8 {
        if self.http_status() == 404 { 12 } else { 14 }
    }
}
