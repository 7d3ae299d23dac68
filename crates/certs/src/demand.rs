//! What is wanted: for each Secret of a listener the names, and who brought each.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_plan::{Hostname, ObjectName};

/// Who makes certificates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Issuer {
    Embedded,
    /// An ACME account, by the name it has here.
    Acme(Arc<str>),
}

/// The account that is used where nobody names one.
pub const DEFAULT_ACCOUNT: &str = "default";

impl Issuer {
    /// With the account that is used where nobody names one.
    #[must_use]
    pub fn acme() -> Self {
        Self::Acme(DEFAULT_ACCOUNT.into())
    }
}

impl fmt::Display for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::Acme(account) if &**account == DEFAULT_ACCOUNT => f.write_str("acme"),
            Self::Acme(account) => write!(f, "acme ({account})"),
        }
    }
}

/// The names that one listener wants in its Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    pub secret: ObjectName,
    pub gateway: ObjectName,
    pub issuer: Issuer,
    pub names: Vec<WantedName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedName {
    pub name: Hostname,
    /// Of the route or listener that brings it, whose budget it takes from.
    pub namespace: Arc<str>,
}

/// All that is wanted at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    pub targets: BTreeMap<ObjectName, Target>,
    pub conflicts: Vec<Conflict>,
    /// Secrets that others wrote: they are used as they are, and none of ours takes their name.
    pub foreign: BTreeSet<ObjectName>,
}

/// What is wanted of one Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub issuer: Issuer,
    pub names: BTreeMap<Hostname, Claim>,
}

/// Who brought a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub gateway: ObjectName,
    pub namespace: Arc<str>,
}

/// A Gateway whose issuer is not the one that already makes the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub secret: ObjectName,
    pub gateway: ObjectName,
    pub issuer: Issuer,
}

impl Demand {
    /// Listeners that name one Secret share it; the first of them says who makes it.
    #[must_use]
    pub fn new(wants: impl IntoIterator<Item = Want>, foreign: BTreeSet<ObjectName>) -> Self {
        let mut demand = Self { foreign, ..Self::default() };
        for want in wants {
            if demand.foreign.contains(&want.secret) {
                continue;
            }
            let target = demand
                .targets
                .entry(want.secret.clone())
                .or_insert_with(|| Target { issuer: want.issuer.clone(), names: BTreeMap::new() });
            if target.issuer != want.issuer {
                let Want { secret, gateway, issuer, .. } = want;
                demand.conflicts.push(Conflict { secret, gateway, issuer });
                continue;
            }
            for WantedName { name, namespace } in want.names {
                target
                    .names
                    .entry(name)
                    .or_insert_with(|| Claim { gateway: want.gateway.clone(), namespace });
            }
        }
        demand
    }
}
