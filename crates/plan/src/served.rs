//! What a controller tells the data planes of one Gateway, and what each of them says to it. How that travels is
//! the business of others.

use std::collections::BTreeMap;

use crate::{ListenerId, ObjectName, Plan};

/// The part of a plan that concerns one Gateway: nothing of it is about another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayPlan {
    pub gateway: ObjectName,
    /// Grows with each change.
    pub version: u64,
    pub plan: Plan,
}

/// What one data plane says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub gateway: ObjectName,
    /// The data plane's own name: in a cluster, its Pod's.
    pub proxy: String,
    /// The newest version that it serves; 0: none.
    pub version: u64,
    /// What became of each listener of that version: open, or why not.
    pub listeners: BTreeMap<ListenerId, Result<(), String>>,
    /// Why it does not serve a newer version that it was sent.
    pub refused: Option<String>,
}
