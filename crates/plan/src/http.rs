//! What HTTPRoute and GRPCRoute can ask for: matches, filters, timeouts, retries, sessions.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Hostname, Target};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpMatch {
    pub path: PathMatch,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ValueMatch>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<ValueMatch>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathMatch {
    Exact(String),
    /// By path elements: `/a` matches `/a` and `/a/b`, not `/ab`.
    Prefix(String),
    /// Must match the whole path.
    Regex(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcMatch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<TextMatch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<TextMatch>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<ValueMatch>,
}

/// A header (name in lower case) or a query parameter with what its value must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueMatch {
    pub name: String,
    pub value: TextMatch,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TextMatch {
    Exact(String),
    /// Must match the whole text.
    Regex(String),
}

/// The matches in words, for people.
impl fmt::Display for HttpMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} ")?;
        }
        write!(f, "{}", self.path)?;
        self.headers.iter().try_for_each(|header| write!(f, ", header {header}"))?;
        self.query.iter().try_for_each(|parameter| write!(f, ", query {parameter}"))
    }
}

impl fmt::Display for PathMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(path) => write!(f, "path {path}"),
            Self::Prefix(prefix) => write!(f, "prefix {prefix}"),
            Self::Regex(pattern) => write!(f, "path like {pattern}"),
        }
    }
}

impl fmt::Display for GrpcMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.service {
            Some(service) => write!(f, "service {service}")?,
            None => f.write_str("any service")?,
        }
        if let Some(method) = &self.method {
            write!(f, ", method {method}")?;
        }
        self.headers.iter().try_for_each(|header| write!(f, ", header {header}"))
    }
}

impl fmt::Display for ValueMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl fmt::Display for TextMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => f.write_str(text),
            Self::Regex(pattern) => write!(f, "like {pattern}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Filter {
    RequestHeaders(HeaderChange),
    ResponseHeaders(HeaderChange),
    Redirect(Redirect),
    Rewrite(Rewrite),
    Mirror { target: Target, share: Fraction },
    Cors(Cors),
    ExternalAuth(ExternalAuth),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderChange {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Header>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<Header>,
    /// In lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// In lower case.
    pub name: String,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
    pub status: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rewrite {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathChange>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PathChange {
    Full(String),
    /// Replaces the prefix that the rule matched.
    Prefix(String),
}

/// How many of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fraction {
    pub numerator: u32,
    pub denominator: u32,
}

impl Fraction {
    pub const ALL: Self = Self { numerator: 1, denominator: 1 };
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// As written: `*`, or `scheme://host[:port]` where the host may begin with `*.`.
    pub allow_origins: Vec<String>,
    pub allow_credentials: bool,
    pub allow_methods: Vec<String>,
    pub allow_headers: Vec<String>,
    pub expose_headers: Vec<String>,
    pub max_age: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuth {
    pub target: Target,
    pub grpc: bool,
    /// Put before the request's path; HTTP only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// In lower case, as all names here.
    pub request_headers: Vec<String>,
    pub response_headers: Vec<String>,
    /// How many bytes of the body the server is shown; 0: none.
    pub body_limit: u32,
}

/// Zero switches a timeout off, absent leaves the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<Duration>,
}

impl Timeouts {
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.request.is_none() && self.backend_request.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    pub key: SessionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionKey {
    Cookie(Cookie),
    /// In lower case.
    Header(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cookie {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Kept past the browser's session, for as long as the absolute timeout says.
    pub permanent: bool,
}
