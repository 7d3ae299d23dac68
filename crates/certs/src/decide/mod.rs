//! What to do now: which certificates to ask for, which to let go, and when to look again.
//!
//! First each Secret for itself: who is responsible for each name, what is due, what is missing. Then all together:
//! who goes first, and for whom there is room and budget.

mod view;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_plan::{Hostname, ObjectName};

use self::view::{View, free_secret};
use crate::book::{Book, Order, Why, charge};
use crate::{
    Budgets, Claim, DAY, Demand, Grouping, HOUR, Held, Issuer, Ledger, Policies, Policy, Pool, Seconds,
    Target, registered_domain,
};

/// Somebody decides every minute: a longer gap than this is a clock that was set, or a machine that slept.
const GAP: Seconds = 6 * HOUR;

/// A process may be away for so long; after more than this, nobody can say whether the time has passed or the clock was set
/// meanwhile.
const AWAY: Seconds = DAY;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// To be made now; each is to be told to [`Book::begin`].
    pub start: Vec<Order>,
    /// Certificates that nobody wants any more.
    pub drop: Vec<ObjectName>,
    /// When something will be due that is not due now.
    pub wake: Option<Seconds>,
    /// Names that no certificate covers, by the listener's Secret.
    pub missing: BTreeMap<(ObjectName, Hostname), State>,
    /// Names whose certificate should have been renewed by now, by the listener's Secret.
    pub late: BTreeMap<(ObjectName, Hostname), Late>,
}

/// A renewal that failed, or that is not done though half of the time for it has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// When the certificate ends that there is.
    pub ends: Seconds,
    pub state: State,
}

/// Why a name has no certificate yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Gathering {
        until: Seconds,
    },
    Ordered,
    /// There is no room for another order at this moment.
    Queued,
    /// It failed last time.
    SetAside {
        until: Seconds,
        message: String,
    },
    /// The issuer as a whole is left alone for a while.
    IssuerHeld {
        until: Seconds,
        message: String,
    },
    OverBudget(Pool),
    /// Nobody who runs here is this issuer.
    NoIssuer,
    /// The issuer is not for Gateways of this namespace.
    NotPermitted,
}

/// An order that would be made if there is room for it.
struct Candidate {
    order: Order,
    /// The names of it that take from budgets.
    fresh: Vec<Hostname>,
    since: Seconds,
    namespace: Arc<str>,
}

impl Book {
    #[must_use]
    pub fn decide(&mut self, now: Seconds, demand: &Demand, policies: &Policies) -> Decision {
        self.settle(now, demand, policies);
        let mut decision = Decision::default();
        let mut candidates = Vec::new();
        let mut needed = BTreeSet::new();
        let mut held: BTreeMap<&ObjectName, Vec<&Held>> = BTreeMap::new();
        for one in self.held.values() {
            held.entry(&one.target).or_default().push(one);
        }
        let mut busy: BTreeMap<&ObjectName, BTreeSet<&Hostname>> = BTreeMap::new();
        for order in self.orders.values() {
            busy.entry(&order.target).or_default().extend(&order.names);
        }
        for (secret, target) in &demand.targets {
            let Some(policy) = policies.get(&target.issuer) else {
                for name in target.names.keys() {
                    decision.missing.insert((secret.clone(), name.clone()), State::NoIssuer);
                }
                continue;
            };
            let target = &permitted(secret, target, policy, &mut decision);
            let held = held.remove(secret).unwrap_or_default();
            let busy = busy.remove(secret).unwrap_or_default();
            let view = View::new(self, secret, target, policy, now, held, busy);
            view.tell_missing(&mut decision);
            view.tell_late(&mut decision);
            view.candidates(demand, &mut decision, &mut candidates);
            needed.extend(view.needed());
        }
        decision.drop = self.droppable(now, demand, policies, &needed);
        self.choose(now, demand, policies, candidates, &mut decision);
        decision
    }

    /// Where a certificate goes that was ordered for a Secret: there, unless the one that is there has meanwhile
    /// become the only one with a name that somebody wants again; then beside it.
    #[must_use]
    pub fn place(&self, order: &Order, demand: &Demand, now: Seconds) -> ObjectName {
        let (Some(old), Some(target)) = (self.held.get(&order.secret), demand.targets.get(&order.target))
        else {
            return order.secret.clone();
        };
        let is_elsewhere = |name: &Hostname| {
            let others = self.held.values().filter(|held| held.secret != old.secret);
            order.names.contains(name)
                || others.into_iter().any(|held| {
                    held.target == order.target
                        && held.issuer == target.issuer
                        && held.is_good(now)
                        && held.covers(name)
                })
        };
        let is_needed = |name: &Hostname| target.names.contains_key(name) && !is_elsewhere(name);
        if old.issuer != target.issuer || !old.is_good(now) || !old.names.iter().any(is_needed) {
            return order.secret.clone();
        }
        let first = order.names.first().map_or("", Hostname::as_str);
        free_secret(self, &order.target, &order.issuer, first, demand, &BTreeSet::new())
    }

    fn settle(&mut self, now: Seconds, demand: &Demand, policies: &Policies) {
        let unseen = self.ledger.look(now);
        let was_here = std::mem::replace(&mut self.has_decided, true);
        if unseen > if was_here { GAP } else { AWAY } {
            self.ledger.recount(unseen);
            // Of what a process finds that was away for long, something may have ended: that is asked for at once.
            if was_here {
                self.ledger.rest_on(unseen);
            }
        }
        let windows = policies.values().filter_map(|policy| policy.budgets.map(|budgets| budgets.window));
        self.ledger.settle(now, windows.max().unwrap_or(7 * DAY));
        self.seen.retain(|(secret, name), _| {
            demand.targets.get(secret).is_some_and(|target| target.names.contains_key(name))
        });
        self.parts.retain(|(issuer, name), _| {
            let mut targets = demand.targets.values();
            targets.any(|target| target.issuer == *issuer && target.names.contains_key(name))
        });
        for (secret, target) in &demand.targets {
            for name in target.names.keys() {
                let seen = self.seen.entry((secret.clone(), name.clone())).or_insert(now);
                *seen = (*seen).min(now);
            }
        }
    }

    /// Certificates at the end of their time without a name that somebody wants of them.
    fn droppable(
        &self,
        now: Seconds,
        demand: &Demand,
        policies: &Policies,
        needed: &BTreeSet<ObjectName>,
    ) -> Vec<ObjectName> {
        // What cannot be asked for again stays as long as it lasts.
        let unknown = |held: &Held| {
            let Some(target) = demand.targets.get(&held.target) else { return false };
            let policy = policies.get(&target.issuer);
            policy.is_none_or(|policy| target.names.values().any(|claim| !policy.serves(&claim.gateway)))
        };
        let over = |held: &&Held| {
            let is_over = held.renew_at() <= now || !held.usable || demand.foreign.contains(&held.secret);
            is_over
                && !needed.contains(&held.secret)
                && !self.orders.contains_key(&held.secret)
                && !unknown(held)
        };
        self.held.values().filter(over).map(|held| held.secret.clone()).collect()
    }

    fn choose(
        &self,
        now: Seconds,
        demand: &Demand,
        policies: &Policies,
        mut candidates: Vec<Candidate>,
        decision: &mut Decision,
    ) {
        rank(&mut candidates);
        let mut ledger = self.ledger.clone();
        let mut in_flight: BTreeMap<Issuer, usize> = BTreeMap::new();
        let mut proving: BTreeSet<Hostname> = BTreeSet::new();
        for order in self.orders.values() {
            *in_flight.entry(order.issuer.clone()).or_default() += 1;
            if policies.get(&order.issuer).is_some_and(|policy| policy.proves) {
                proving.extend(order.names.iter().cloned());
            }
        }
        for mut candidate in candidates {
            let issuer = &candidate.order.issuer;
            let Some(policy) = policies.get(issuer) else { continue };
            let mut wait = |names: &[Hostname], state: &State| {
                for name in names {
                    let key = (candidate.order.target.clone(), name.clone());
                    // Names of a renewal are not missing.
                    if let Some(entry) = decision.missing.get_mut(&key) {
                        *entry = state.clone();
                    }
                }
            };
            if let Some(hold) = self.ledger.holds.get(issuer).filter(|hold| hold.until(None) > now) {
                let until = hold.until(None);
                wait(&candidate.order.asked, &State::IssuerHeld { until, message: hold.message.clone() });
                decision.wake = earlier(decision.wake, until);
                continue;
            }
            let running = in_flight.entry(issuer.clone()).or_default();
            let is_being_proved =
                policy.proves && candidate.order.names.iter().any(|name| proving.contains(name));
            if *running >= policy.in_flight || is_being_proved {
                wait(&candidate.order.asked, &State::Queued);
                continue;
            }
            if let Some(budgets) = &policy.budgets {
                for (name, pool) in over_budget(&ledger, &candidate, demand, budgets, now) {
                    wait(std::slice::from_ref(&name), &State::OverBudget(pool));
                    candidate.order.names.retain(|own| *own != name);
                    candidate.order.asked.retain(|own| *own != name);
                    decision.wake = earlier(decision.wake, now + budgets.window / 100);
                }
            }
            if candidate.order.asked.is_empty() {
                continue;
            }
            wait(&candidate.order.asked, &State::Ordered);
            *running += 1;
            if policy.proves {
                proving.extend(candidate.order.names.iter().cloned());
            }
            if candidate.order.why == Why::NewNames {
                ledger.charge(charge(&candidate.order, demand, now));
            }
            decision.start.push(candidate.order);
        }
    }
}

/// What the issuer may be asked for; the rest is told to be missing.
fn permitted<'a>(
    secret: &ObjectName,
    target: &'a Target,
    policy: &Policy,
    decision: &mut Decision,
) -> Cow<'a, Target> {
    let is_permitted = |claim: &Claim| policy.serves(&claim.gateway);
    if target.names.values().all(is_permitted) {
        return Cow::Borrowed(target);
    }
    let mut target = target.clone();
    target.names.retain(|name, claim| {
        let stays = is_permitted(claim);
        if !stays {
            decision.missing.insert((secret.clone(), name.clone()), State::NotPermitted);
        }
        stays
    });
    Cow::Owned(target)
}

/// The new names of an order for which there is no budget, each with the pool that is empty.
fn over_budget(
    ledger: &Ledger,
    candidate: &Candidate,
    demand: &Demand,
    budgets: &Budgets,
    now: Seconds,
) -> Vec<(Hostname, Pool)> {
    let Some(target) = demand.targets.get(&candidate.order.target) else { return Vec::new() };
    let issuer = &candidate.order.issuer;
    // Names that are in the certificate already count at the CA once more.
    let others: BTreeSet<&str> = candidate
        .order
        .names
        .iter()
        .filter(|name| !candidate.fresh.contains(name))
        .map(|name| registered_domain(name.base()))
        .collect();
    let mut over = Vec::new();
    for name in &candidate.fresh {
        let Some(Claim { gateway, namespace }) = target.names.get(name) else { continue };
        let own = registered_domain(name.base());
        let domains = others.iter().copied().chain([own]).map(|domain| Pool::Domain(domain.to_owned()));
        let mut pools = [Pool::Gateway(gateway.clone()), Pool::Namespace(Arc::clone(namespace))]
            .into_iter()
            .chain(domains);
        let empty = pools.find(|pool| !ledger.allows(pool, namespace, issuer, budgets, now));
        over.extend(empty.map(|pool| (name.clone(), pool)));
    }
    over
}

/// Certificates in use go first, those that end soonest before others; among new ones each namespace has its turn.
fn rank(candidates: &mut Vec<Candidate>) {
    candidates.sort_by(|a, b| {
        (a.order.why, a.since, &a.order.secret).cmp(&(b.order.why, b.since, &b.order.secret))
    });
    let mut turns: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, Candidate)> = Vec::with_capacity(candidates.len());
    for candidate in candidates.drain(..) {
        let turn = match candidate.order.why {
            Why::Renewal | Why::Replacement => 0,
            Why::NewNames => {
                let turn = turns.entry(Arc::clone(&candidate.namespace)).or_insert(0);
                *turn += 1;
                *turn
            }
        };
        ranked.push((turn, candidate));
    }
    ranked.sort_by_key(|(turn, _)| *turn);
    candidates.extend(ranked.into_iter().map(|(_, candidate)| candidate));
}

fn earlier(known: Option<Seconds>, time: Seconds) -> Option<Seconds> {
    Some(known.map_or(time, |known| known.min(time)))
}

impl Policy {
    /// Why names are put together the way they are, for people.
    #[must_use]
    pub fn reason(&self) -> String {
        match self.grouping {
            Grouping::Listener => format!("all names of a Secret, {} at most", self.room()),
            Grouping::Namespace => format!("names of one namespace, {} at most", self.room()),
            Grouping::Name => "one certificate for each name".to_owned(),
        }
    }
}

impl Issuer {
    #[must_use]
    pub const fn is_acme(&self) -> bool {
        matches!(self, Self::Acme(_))
    }
}
