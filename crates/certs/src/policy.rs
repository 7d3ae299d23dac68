//! What an operator sets: how names are put together, how much may be asked, how much at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use tidegate_plan::ObjectName;

use crate::{DAY, Issuer, Seconds};

/// How names of one listener's Secret are put together into certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Grouping {
    /// All names, whoever wants them.
    Listener,
    /// Names of different namespaces are never in one certificate, so that no tenant sees, fails or uses up what is
    /// another's.
    Namespace,
    /// One certificate for each name.
    Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    pub grouping: Grouping,
    pub names_per_certificate: usize,
    /// New names wait so long for others, so that ten routes do not make ten orders.
    pub gather: Seconds,
    /// `None` where asking costs nobody anything.
    pub budgets: Option<Budgets>,
    /// Orders at a time.
    pub in_flight: usize,
    /// Whether a name is proved while it is ordered. Two proofs of one name would get in each other's way, so that it is
    /// in one order at a time.
    pub proves: bool,
    /// Gateways of these namespaces alone may ask; `None`: all.
    pub namespaces: Option<BTreeSet<Arc<str>>>,
}

impl Policy {
    /// For an authority of one's own.
    #[must_use]
    pub const fn embedded() -> Self {
        Self {
            grouping: Grouping::Namespace,
            names_per_certificate: 100,
            gather: 0,
            budgets: None,
            in_flight: 16,
            proves: false,
            namespaces: None,
        }
    }

    /// For a public CA; every profile of Let's Encrypt takes 25 names.
    #[must_use]
    pub const fn acme() -> Self {
        Self {
            grouping: Grouping::Namespace,
            names_per_certificate: 25,
            gather: 10,
            budgets: Some(Budgets::public()),
            in_flight: 8,
            proves: true,
            namespaces: None,
        }
    }

    /// Whether this Gateway may ask.
    pub(crate) fn serves(&self, gateway: &ObjectName) -> bool {
        self.namespaces.as_ref().is_none_or(|namespaces| namespaces.contains(&gateway.namespace))
    }

    /// Names that a certificate takes at most.
    pub(crate) fn room(&self) -> usize {
        if self.grouping == Grouping::Name { 1 } else { self.names_per_certificate.max(1) }
    }
}

/// How many orders for new names there may be in a window of time. Renewals are not counted: they are held back by
/// their own back-off, and no flood of new names may cost somebody the certificate that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budgets {
    pub window: Seconds,
    pub per_gateway: usize,
    pub per_namespace: usize,
    pub per_domain: usize,
}

impl Budgets {
    /// Within what Let's Encrypt allows.
    #[must_use]
    pub const fn public() -> Self {
        Self { window: 7 * DAY, per_gateway: 300, per_namespace: 100, per_domain: 50 }
    }
}

/// The issuers that are there to be asked.
pub type Policies = BTreeMap<Issuer, Policy>;
