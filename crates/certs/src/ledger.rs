//! What was asked for, and whether more may be: budgets that nobody can use up for others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_plan::{Hostname, ObjectName};

use crate::backoff::Setback;
use crate::{Budgets, Held, Issuer, Seconds, Suggestion};

/// Set-back names that are remembered; more than any Gateway may ask for.
const MAX_ASIDE: usize = 20_000;

/// What must outlive the process besides certificates and orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ledger {
    charges: Vec<Charge>,
    /// Names that failed.
    #[serde(with = "pairs")]
    pub(crate) aside: BTreeMap<(Issuer, Hostname), Setback>,
    /// Issuers that failed as a whole, or asked to be left alone.
    #[serde(with = "pairs")]
    pub(crate) holds: BTreeMap<Issuer, Setback>,
    /// Names, by the listener's Secret, for which a certificate was made soon after another.
    #[serde(with = "pairs")]
    pub(crate) again: BTreeMap<(ObjectName, Hostname), Setback>,
    /// When CAs would have certificates renewed, by Secret.
    #[serde(with = "pairs")]
    windows: BTreeMap<ObjectName, Window>,
    /// When something was decided last, by whatever process.
    seen: Option<Seconds>,
}

/// Of the certificate with this serial number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Window {
    serial: String,
    start: Seconds,
    end: Seconds,
}

/// An order for new names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Charge {
    pub(crate) at: Seconds,
    pub(crate) issuer: Issuer,
    pub(crate) gateways: BTreeSet<ObjectName>,
    pub(crate) namespaces: BTreeSet<Arc<str>>,
    pub(crate) domains: BTreeSet<String>,
}

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pool {
    Gateway(ObjectName),
    Namespace(Arc<str>),
    Domain(String),
}

impl std::fmt::Display for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gateway(name) => write!(f, "Gateway {name}"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::Domain(name) => write!(f, "domain {name}"),
        }
    }
}

impl Pool {
    const fn size(&self, budgets: &Budgets) -> usize {
        match self {
            Self::Gateway(_) => budgets.per_gateway,
            Self::Namespace(_) => budgets.per_namespace,
            Self::Domain(_) => budgets.per_domain,
        }
    }

    fn holds(&self, charge: &Charge) -> bool {
        match self {
            Self::Gateway(name) => charge.gateways.contains(name),
            Self::Namespace(name) => charge.namespaces.contains(name),
            Self::Domain(name) => charge.domains.contains(name),
        }
    }
}

impl Ledger {
    /// Whether a namespace may have one more order out of a pool. Of one that is shared, nobody takes more than is
    /// left then, so that half of it is there for whoever comes next, and a half of that for the one after.
    pub(crate) fn allows(
        &self,
        pool: &Pool,
        namespace: &Arc<str>,
        issuer: &Issuer,
        budgets: &Budgets,
        now: Seconds,
    ) -> bool {
        let counts = |charge: &&Charge| {
            charge.issuer == *issuer && charge.at > now - budgets.window && pool.holds(charge)
        };
        let (mut used, mut own) = (0, 0);
        for charge in self.charges.iter().filter(counts) {
            used += 1;
            own += usize::from(charge.namespaces.contains(namespace));
        }
        let left = pool.size(budgets).saturating_sub(used);
        let is_shared = !matches!(pool, Pool::Namespace(_));
        left > 0 && (!is_shared || own == 0 || own + 1 < left)
    }

    /// What the CA said last of a certificate; it is to be asked again.
    #[must_use]
    pub fn suggestion(&self, held: &Held) -> Option<Suggestion> {
        let Window { start, end, .. } =
            self.windows.get(&held.secret).filter(|window| window.serial == held.serial)?;
        Some(Suggestion { start: *start, end: *end, look: 0 })
    }

    pub(crate) fn suggested(&mut self, held: &Held, Suggestion { start, end, .. }: Suggestion) {
        self.windows.insert(held.secret.clone(), Window { serial: held.serial.clone(), start, end });
    }

    /// Of a certificate that is gone nothing is kept.
    pub(crate) fn dropped(&mut self, secret: &ObjectName) {
        self.windows.remove(secret);
    }

    pub(crate) fn charge(&mut self, charge: Charge) {
        self.charges.push(charge);
    }

    /// Whether there is something that would be older if time had passed.
    pub(crate) const fn counts(&self) -> bool {
        !self.charges.is_empty()
    }

    /// How long nobody has looked, until now.
    pub(crate) fn look(&mut self, now: Seconds) -> Seconds {
        now - self.seen.replace(now).unwrap_or(now)
    }

    /// So much time may not have passed: no order is older for it.
    pub(crate) fn recount(&mut self, by: Seconds) {
        for charge in &mut self.charges {
            charge.at += by;
        }
    }

    /// The same for certificates that were made again.
    pub(crate) fn rest_on(&mut self, by: Seconds) {
        for setback in self.again.values_mut() {
            setback.since += by;
        }
    }

    /// Forgets what no longer counts. What a clock that was ahead wrote counts as done now.
    pub(crate) fn settle(&mut self, now: Seconds, window: Seconds) {
        // Twice the window, should the clock go back.
        self.charges.retain(|charge| charge.at > now - 2 * window);
        for charge in &mut self.charges {
            charge.at = charge.at.min(now);
        }
        self.aside.retain(|_, setback| !setback.is_forgotten(now));
        self.holds.retain(|_, setback| !setback.is_forgotten(now));
        self.again.retain(|_, setback| !setback.is_forgotten(now));
        let setbacks = self.aside.values_mut().chain(self.holds.values_mut()).chain(self.again.values_mut());
        for setback in setbacks {
            setback.not_in_future(now);
        }
        while self.aside.len() > MAX_ASIDE {
            self.aside.pop_first();
        }
    }

    /// As it is stored, in at most so many bytes. Where that is not enough, what CAs say when they are asked again is
    /// forgotten, then names that wait are forgotten first, those who
    /// do longest before others: they are tried once more. Then it is the oldest orders.
    pub(crate) fn within(&self, bytes: usize) -> Vec<u8> {
        let mut kept = self.clone();
        loop {
            let content = serde_json::to_vec(&kept).unwrap_or_default();
            if content.len() > bytes && !kept.windows.is_empty() {
                kept.windows.clear();
                continue;
            }
            let waiting = kept.aside.values().chain(kept.again.values());
            let mut since: Vec<Seconds> = waiting.map(|setback| setback.since).collect();
            if content.len() <= bytes || (since.is_empty() && kept.charges.is_empty()) {
                return content;
            }
            if since.is_empty() {
                kept.charges.drain(..kept.charges.len().div_ceil(4));
                continue;
            }
            since.sort_unstable();
            let until = since[since.len() / 4];
            kept.aside.retain(|_, setback| setback.since > until);
            kept.again.retain(|_, setback| setback.since > until);
        }
    }

    /// Why a name is not asked for, if it failed last time.
    pub fn setbacks(&self) -> impl Iterator<Item = (&Issuer, &Hostname, &Setback)> {
        self.aside.iter().map(|((issuer, name), setback)| (issuer, name, setback))
    }

    pub fn holds(&self) -> impl Iterator<Item = (&Issuer, &Setback)> {
        self.holds.iter()
    }
}

/// Maps whose keys are no text.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K, V, D>(from: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DAY;

    fn charge(at: Seconds, namespace: &str, domain: &str) -> Charge {
        Charge {
            at,
            issuer: Issuer::acme(),
            gateways: BTreeSet::from([ObjectName::new("infra", "edge")]),
            namespaces: BTreeSet::from([namespace.into()]),
            domains: BTreeSet::from([domain.to_owned()]),
        }
    }

    fn allows(ledger: &Ledger, namespace: &str, now: Seconds) -> bool {
        let pool = Pool::Domain("example.com".to_owned());
        ledger.allows(&pool, &namespace.into(), &Issuer::acme(), &Budgets::public(), now)
    }

    #[test]
    fn one_namespace_leaves_something_for_the_next() {
        let mut ledger = Ledger::default();
        let mut taken = Vec::new();
        for namespace in ["a", "b", "c", "d", "e"] {
            let mut count = 0;
            while allows(&ledger, namespace, 10) {
                ledger.charge(charge(10, namespace, "example.com"));
                count += 1;
            }
            taken.push(count);
        }
        assert!(taken[0] > 20 && taken[4] > 0, "{taken:?}");
        assert!(taken.iter().sum::<usize>() <= 50, "{taken:?}");
        assert!(allows(&ledger, "a", 11 + 7 * DAY), "the window moves on");
    }

    #[test]
    fn another_domain_is_another_pool() {
        let mut ledger = Ledger::default();
        for _ in 0..60 {
            ledger.charge(charge(10, "a", "example.org"));
        }
        assert!(allows(&ledger, "a", 10));
    }

    #[test]
    fn a_clock_that_went_back_costs_one_window() {
        let mut ledger = Ledger::default();
        for _ in 0..50 {
            ledger.charge(charge(1_000 * DAY, "a", "example.com"));
        }
        ledger.settle(DAY, 7 * DAY);
        assert!(!allows(&ledger, "b", DAY));
        assert!(allows(&ledger, "b", 9 * DAY));
    }

    #[test]
    fn where_there_is_little_room_failures_go_before_orders() {
        let mut ledger = Ledger::default();
        for number in 0..200_i64 {
            ledger.charge(charge(number, "a", "example.org"));
            let name = Hostname::parse(&format!("n{number}.example")).unwrap();
            let setback = Setback { count: 1, since: number, wait: 3, at_least: 0, message: "no".repeat(50) };
            ledger.aside.insert((Issuer::acme(), name), setback);
        }
        let read = |bytes| serde_json::from_slice::<Ledger>(&ledger.within(bytes)).unwrap();
        assert_eq!(read(usize::MAX), ledger);
        let whole = ledger.within(usize::MAX).len();
        let smaller = read(whole * 3 / 4);
        assert_eq!(smaller.charges.len(), 200);
        assert!(!smaller.aside.is_empty() && smaller.aside.values().all(|setback| setback.since > 40));
        let smallest = read(whole / 10);
        assert!(smallest.aside.is_empty() && !smallest.charges.is_empty());
        assert_eq!(smallest.charges.last(), ledger.charges.last());
        assert!(ledger.within(whole / 10).len() <= whole / 10);
    }

    #[test]
    fn it_is_kept_as_it_is() {
        let mut ledger = Ledger::default();
        ledger.charge(charge(10, "a", "example.org"));
        let setback = Setback { count: 1, since: 2, wait: 3, at_least: 0, message: "no".to_owned() };
        ledger.holds.insert(Issuer::acme(), setback.clone());
        ledger.aside.insert((Issuer::Embedded, Hostname::parse("a.example").unwrap()), setback);
        let text = serde_json::to_string(&ledger).unwrap();
        assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger);
    }
}
