//! The state on which decisions rest, and what orders do to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_plan::{Hostname, ObjectName};

use crate::backoff::{self, Setback};
use crate::ledger::Charge;
use crate::{DAY, Demand, Held, Issuer, Ledger, Policies, Seconds, Suggestion, registered_domain};

/// How long an issuer is left alone that said that somebody asked too much.
const LIMITED: Seconds = 600;

/// For a name that is not asked for because it has just been.
const AGAIN: &str = "a certificate for it was made again and again; see whether this machine's clock is right, and whether somebody else changes it";

#[derive(Clone, Debug, Default)]
pub struct Book {
    pub(crate) held: BTreeMap<ObjectName, Held>,
    /// On their way, by the Secret they are for.
    pub(crate) orders: BTreeMap<ObjectName, Order>,
    pub(crate) ledger: Ledger,
    /// When a name was first wanted that nothing covers yet.
    pub(crate) seen: BTreeMap<(ObjectName, Hostname), Seconds>,
    /// Names of orders that were refused as a whole, without a word which of them is at fault: those with the same number
    /// are asked for together, and not with others.
    pub(crate) parts: BTreeMap<(Issuer, Hostname), u64>,
    pub(crate) last_part: u64,
    /// Whether this process has decided something; before it another one may have, a while ago.
    pub(crate) has_decided: bool,
}

/// A certificate to be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub secret: ObjectName,
    pub target: ObjectName,
    pub issuer: Issuer,
    pub names: Vec<Hostname>,
    /// The names on whose account it is asked for; the others are in the certificate that it replaces.
    pub asked: Vec<Hostname>,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// There is one, and its time has come.
    Renewal,
    /// There is one, and it cannot be used.
    Replacement,
    /// Names that no certificate has yet.
    NewNames,
}

/// Why an order came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// These names could not be had; the others could.
    #[error("{}", told(.0))]
    Names(Vec<(Hostname, String)>),
    /// The order as such was refused. One of its names may be at fault, so that the others are better asked for without
    /// it.
    #[error("{0}")]
    Order(String),
    /// It failed on this side, for whatever names there are in it.
    #[error("{0}")]
    Here(String),
    /// Too much was asked for, of this CA or for these names; it rarely says which.
    #[error("{message}")]
    Limited {
        message: String,
        /// How long it wants these names not to come back.
        wait: Seconds,
    },
    /// It has nothing to do with this order: the CA cannot be reached, is in trouble, or asks for patience.
    #[error("{message}")]
    Issuer {
        message: String,
        /// How long it wants to be left alone.
        wait: Option<Seconds>,
    },
}

fn told(names: &[(Hostname, String)]) -> String {
    let each: Vec<String> = names.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    each.join("; ")
}

impl Book {
    /// What a store remembers. Orders among it go on where they were.
    #[must_use]
    pub fn new(
        held: impl IntoIterator<Item = Held>,
        orders: impl IntoIterator<Item = Order>,
        ledger: Ledger,
    ) -> Self {
        let held = held.into_iter().map(|mut held| {
            held.suggestion = held.suggestion.or_else(|| ledger.suggestion(&held));
            (held.secret.clone(), held)
        });
        Self {
            held: held.collect(),
            orders: orders.into_iter().map(|order| (order.secret.clone(), order)).collect(),
            ledger,
            seen: BTreeMap::new(),
            parts: BTreeMap::new(),
            last_part: 0,
            has_decided: false,
        }
    }

    #[must_use]
    pub const fn held(&self) -> &BTreeMap<ObjectName, Held> {
        &self.held
    }

    #[must_use]
    pub const fn orders(&self) -> &BTreeMap<ObjectName, Order> {
        &self.orders
    }

    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// For one that starts again: names that were asked for before need not be gathered again.
    pub fn remember(&mut self, intent: &Order, begun: Seconds) {
        for name in &intent.asked {
            self.seen.insert((intent.target.clone(), name.clone()), begun);
        }
    }

    /// An order is about to be gone on with that was paid for before.
    pub fn resume(&mut self, order: &Order) {
        self.orders.insert(order.secret.clone(), order.clone());
    }

    /// An order is about to be made: from here on it counts.
    pub fn begin(&mut self, order: &Order, demand: &Demand, policies: &Policies, now: Seconds) {
        self.resume(order);
        let counts = policies.get(&order.issuer).is_some_and(|policy| policy.budgets.is_some());
        if order.why == Why::NewNames && counts {
            let charge = charge(order, demand, now);
            self.ledger.charge(charge);
        }
    }

    /// The certificate is there that was ordered for a Secret, at its [place](Self::place).
    pub fn issued(&mut self, ordered_for: &ObjectName, held: Held, now: Seconds) {
        let order = self.orders.remove(ordered_for);
        if let Some(order) = order.filter(|order| self.is_again(order, &held)) {
            self.rest(&order, &held, now);
        }
        for name in &held.names {
            let key = (held.issuer.clone(), name.clone());
            self.ledger.aside.remove(&key);
            self.parts.remove(&key);
        }
        self.ledger.holds.remove(&held.issuer);
        self.held.insert(held.secret.clone(), held);
    }

    /// Whether it was made soon after another, by the clock of the CA. Ours may be wrong: then it is due, or over, as soon
    /// as it is there, and so would be the next.
    fn is_again(&self, order: &Order, held: &Held) -> bool {
        let is_young = |old: &Held| {
            old.target == order.target
                && old.issuer == order.issuer
                && order.asked.iter().any(|name| old.covers(name))
                && held.not_before - old.not_before < held.life() / 3
        };
        // What somebody made unusable says nothing about its age, either.
        order.issuer.is_acme() && (order.why == Why::Replacement || self.held.values().any(is_young))
    }

    fn rest(&mut self, order: &Order, held: &Held, now: Seconds) {
        for name in &order.asked {
            let key = (order.target.clone(), name.clone());
            let steps = backoff::again(held.life());
            let before = self.ledger.again.get(&key);
            let setback = Setback::after(before, steps, now, 0, AGAIN.to_owned(), name.as_str());
            self.ledger.again.insert(key, setback);
        }
    }

    /// The order came to nothing; nobody else's names suffer for it.
    pub fn failed(&mut self, order: &Order, failure: &Failure, now: Seconds) {
        self.orders.remove(&order.secret);
        match failure {
            Failure::Names(names) => {
                for (name, message) in names {
                    self.set_aside(&order.issuer, name, message, 0, now);
                }
            }
            Failure::Order(_) if order.asked.len() > 1 => self.part(order),
            Failure::Order(message) | Failure::Here(message) => {
                for name in &order.asked {
                    self.set_aside(&order.issuer, name, message, 0, now);
                }
            }
            // These names wait as they were told to. Others may have nothing to do with it: they find out soon.
            Failure::Limited { message, wait } => {
                for name in &order.asked {
                    self.set_aside(&order.issuer, name, message, *wait, now);
                }
                self.hold(&order.issuer, message, (*wait).min(LIMITED), now);
            }
            Failure::Issuer { message, wait } => {
                let before = self.ledger.holds.get(&order.issuer);
                // Several orders that were under way fail for one and the same reason, which counts once.
                if wait.is_some() || before.is_none_or(|hold| hold.until(None) <= now) {
                    self.hold(&order.issuer, message, wait.unwrap_or(0), now);
                }
            }
        }
    }

    /// Half of the names by themselves, and the other half: after a few orders it is known who is at fault.
    fn part(&mut self, order: &Order) {
        let (one, other) = order.asked.split_at(order.asked.len() / 2);
        for half in [one, other] {
            self.last_part += 1;
            let names = half.iter().map(|name| ((order.issuer.clone(), name.clone()), self.last_part));
            self.parts.extend(names);
        }
    }

    fn hold(&mut self, issuer: &Issuer, message: &str, at_least: Seconds, now: Seconds) {
        let before = self.ledger.holds.get(issuer);
        let whose = issuer.to_string();
        let setback = Setback::after(before, backoff::ISSUER, now, at_least, message.to_owned(), &whose);
        self.ledger.holds.insert(issuer.clone(), setback);
    }

    fn set_aside(
        &mut self,
        issuer: &Issuer,
        name: &Hostname,
        message: &str,
        at_least: Seconds,
        now: Seconds,
    ) {
        let key = (issuer.clone(), name.clone());
        self.parts.remove(&key);
        let before = self.ledger.aside.get(&key);
        let setback = Setback::after(before, backoff::NAME, now, at_least, message.to_owned(), name.as_str());
        self.ledger.aside.insert(key, setback);
    }

    /// A certificate is there as somebody else left it; what the CA said of the same one before still holds.
    pub fn found(&mut self, mut held: Held) {
        let before = self.held.get(&held.secret).filter(|before| before.serial == held.serial);
        held.suggestion = held.suggestion.or(before.and_then(|before| before.suggestion));
        self.held.insert(held.secret.clone(), held);
    }

    pub fn dropped(&mut self, secret: &ObjectName) {
        self.ledger.dropped(secret);
        self.held.remove(secret);
    }

    /// The certificates for which the CA is to be asked when it would have them renewed.
    #[must_use]
    pub fn to_look_at(&self, now: Seconds) -> Vec<&Held> {
        let due = |held: &&Held| {
            // Nobody is told to come back after more than a day: then our clock was ahead.
            let is_to_come = |look: Seconds| look > now && look <= now + DAY;
            let asked_before = held.suggestion.is_some_and(|suggestion| is_to_come(suggestion.look));
            matches!(held.issuer, Issuer::Acme(_)) && held.is_good(now) && !asked_before
        };
        self.held.values().filter(due).collect()
    }

    /// Nobody could say when it is to be renewed: what was said before still holds.
    pub fn not_suggested(&mut self, secret: &ObjectName, look: Seconds) {
        if let Some(held) = self.held.get_mut(secret) {
            let nothing = Suggestion { start: 1, end: 0, look };
            held.suggestion = Some(Suggestion { look, ..held.suggestion.unwrap_or(nothing) });
        }
    }

    pub fn suggested(&mut self, secret: &ObjectName, suggestion: Suggestion) -> Option<&Held> {
        let held = self.held.get_mut(secret)?;
        held.suggestion = Some(suggestion);
        self.ledger.suggested(held, suggestion);
        Some(held)
    }
}

/// What an order takes out of which pools: every domain in it, since that is how CAs count.
pub(crate) fn charge(order: &Order, demand: &Demand, now: Seconds) -> Charge {
    let target = demand.targets.get(&order.target);
    let claims = order.asked.iter().filter_map(|name| target?.names.get(name));
    let (mut gateways, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    for claim in claims {
        gateways.insert(claim.gateway.clone());
        namespaces.insert(Arc::clone(&claim.namespace));
    }
    let domains = order.names.iter().map(|name| registered_domain(name.base()).to_owned()).collect();
    Charge { at: now, issuer: order.issuer.clone(), gateways, namespaces, domains }
}
