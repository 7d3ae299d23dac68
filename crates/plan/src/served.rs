//! What a controller tells the data planes of one Gateway, and what each of them says to it. How that travels is
//! the business of others.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{FragmentId, ListenerId, ObjectName, Plan, SharedSecret};

/// The part of a plan that concerns one Gateway: nothing of it is about another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayPlan {
    pub gateway: ObjectName,
    /// Grows with each change.
    pub version: u64,
    pub plan: Plan,
    pub settings: DataPlaneSettings,
}

/// What holds for a data plane as a whole and can be changed while it runs. What is absent is the data plane's own
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataPlaneSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    #[serde(skip_serializing_if = "BoundSettings::is_default")]
    pub bounds: BoundSettings,
    /// What tickets of TLS and tokens of sessions are made with; without, each data plane has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<SharedSecret>,
}

/// The least important lines that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogLevel {
    #[default]
    Info,
    Warning,
    Error,
}

/// How much is too much; docs/bounds.md tells what each does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BoundSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_per_listener: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_per_source: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hello_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hello_size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_open_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_flows: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_idle_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri_size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_upstream: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_upstream_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirrors: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_time: Option<Duration>,
}

impl BoundSettings {
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What one data plane says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub gateway: ObjectName,
    /// The data plane's own name: in a cluster, its Pod's.
    pub proxy: String,
    /// The newest version that it serves; 0: none that this controller sent.
    pub version: u64,
    /// What became of each listener of that version: open, or why not.
    pub listeners: BTreeMap<ListenerId, Result<(), String>>,
    /// The parts of that version that it refuses and why; all others are served.
    pub refused: BTreeMap<FragmentId, String>,
    /// Why it does not serve a newer version at all that it was sent.
    pub failed: Option<String>,
}
