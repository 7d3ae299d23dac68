//! One Secret of a listener by itself: who is responsible for each name, what is due, what is missing, and what would
//! be asked for if there is room and budget.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_plan::{Hostname, ObjectName};

use super::{Candidate, Decision, Late, State, earlier};
use crate::book::{Book, Order, Why};
use crate::hash::hash;
use crate::{Demand, Grouping, Held, Issuer, Policy, Seconds, Target};

/// One Secret of a listener, with the certificates that were made for it.
pub(super) struct View<'a> {
    book: &'a Book,
    secret: &'a ObjectName,
    target: &'a Target,
    policy: &'a Policy,
    now: Seconds,
    held: Vec<&'a Held>,
    /// For each wanted name the certificate that serves it.
    responsible: BTreeMap<&'a Hostname, &'a Held>,
    /// The other way round.
    served: BTreeMap<&'a ObjectName, Vec<&'a Hostname>>,
    /// Names that a certificate of this issuer has or had, whatever its state, so that asking again is no news.
    known: BTreeSet<&'a Hostname>,
    /// Names of orders that are under way.
    busy: BTreeSet<&'a Hostname>,
}

impl<'a> View<'a> {
    pub(super) fn new(
        book: &'a Book,
        secret: &'a ObjectName,
        target: &'a Target,
        policy: &'a Policy,
        now: Seconds,
        held: Vec<&'a Held>,
        busy: BTreeSet<&'a Hostname>,
    ) -> Self {
        let mut responsible: BTreeMap<&Hostname, &Held> = BTreeMap::new();
        let mut known = BTreeSet::new();
        for one in held.iter().filter(|held| held.issuer == target.issuer) {
            for name in one.names.iter().filter(|name| target.names.contains_key(name)) {
                known.insert(name);
                let newest = |other: &&Held| (other.not_after, &other.secret) < (one.not_after, &one.secret);
                if one.is_good(now) && responsible.get(name).is_none_or(newest) {
                    responsible.insert(name, one);
                }
            }
        }
        let mut served: BTreeMap<&ObjectName, Vec<&Hostname>> = BTreeMap::new();
        for (name, held) in &responsible {
            served.entry(&held.secret).or_default().push(name);
        }
        Self { book, secret, target, policy, now, held, responsible, served, known, busy }
    }

    fn names_of(&self, held: &Held) -> &[&'a Hostname] {
        self.served.get(&held.secret).map_or(&[], Vec::as_slice)
    }

    fn is_missing(&self, name: &Hostname) -> bool {
        !self.responsible.contains_key(name)
    }

    /// Until when a name is left alone that failed, or that has a certificate made again and again.
    fn aside(&self, name: &Hostname) -> Option<(Seconds, &'a str)> {
        let ledger = &self.book.ledger;
        let expiry = self.responsible.get(name).map(|held| held.not_after);
        let failed = ledger.aside.get(&(self.target.issuer.clone(), name.clone()));
        let failed = failed.map(|setback| (setback.until(expiry), setback));
        // By the clock that may be wrong, any may be about to end. What is new has a budget to keep.
        let again = ledger.again.get(&(self.secret.clone(), name.clone()));
        let again = again.filter(|_| self.known.contains(name)).map(|setback| (setback.until(None), setback));
        let (until, setback) = failed.into_iter().chain(again).max_by_key(|(until, _)| *until)?;
        (until > self.now).then_some((until, &setback.message))
    }

    fn group(&self, name: &Hostname) -> &'a str {
        match (self.policy.grouping, self.target.names.get_key_value(name)) {
            (Grouping::Namespace, Some((_, claim))) => &claim.namespace,
            (Grouping::Name, Some((name, _))) => name.as_str(),
            _ => "",
        }
    }

    /// The part of a refused order that a name is in; 0 for most.
    fn part(&self, name: &Hostname) -> u64 {
        if self.book.parts.is_empty() {
            return 0;
        }
        let key = (self.target.issuer.clone(), name.clone());
        self.book.parts.get(&key).copied().unwrap_or(0)
    }

    /// The certificates that must stay: somebody is served by them, or one will be asked for in their place.
    pub(super) fn needed(&self) -> impl Iterator<Item = ObjectName> {
        let is_replaced_later = |held: &&&Held| {
            held.issuer == self.target.issuer
                && held.names.iter().any(|name| self.target.names.contains_key(name) && self.is_missing(name))
        };
        let waiting = self.held.iter().filter(is_replaced_later).map(|held| held.secret.clone());
        waiting.chain(self.served.keys().map(|secret| (*secret).clone()))
    }

    pub(super) fn tell_missing(&self, decision: &mut Decision) {
        for name in self.target.names.keys().filter(|name| self.is_missing(name)) {
            let state = if self.busy.contains(name) {
                State::Ordered
            } else if let Some((until, message)) = self.aside(name) {
                decision.wake = earlier(decision.wake, until);
                State::SetAside { until, message: message.to_owned() }
            } else {
                State::Queued
            };
            decision.missing.insert((self.secret.clone(), name.clone()), state);
        }
    }

    /// What failed is told until it has been done, also while it is tried again.
    pub(super) fn tell_late(&self, decision: &mut Decision) {
        for (name, held) in &self.responsible {
            let due = held.renew_at();
            if due > self.now {
                continue;
            }
            let ledger = &self.book.ledger;
            let state = if let Some(failed) = ledger.aside.get(&(held.issuer.clone(), (*name).clone())) {
                let until = failed.until(Some(held.not_after));
                State::SetAside { until, message: failed.message.clone() }
            } else if let Some(hold) = ledger.holds.get(&held.issuer) {
                State::IssuerHeld { until: hold.until(None), message: hold.message.clone() }
            } else if self.now < due + (held.not_after - due) / 2 {
                continue;
            } else if self.busy.contains(*name) {
                State::Ordered
            } else if let Some((until, message)) = self.aside(name) {
                State::SetAside { until, message: message.to_owned() }
            } else {
                State::Queued
            };
            let late = Late { ends: held.not_after, state };
            decision.late.insert((self.secret.clone(), (*name).clone()), late);
        }
    }

    pub(super) fn candidates(&self, demand: &Demand, decision: &mut Decision, all: &mut Vec<Candidate>) {
        let mut taken: BTreeSet<ObjectName> = BTreeSet::new();
        self.renewals(demand, decision, &mut taken, all);
        let mut lost: BTreeMap<(&str, u64), Vec<&Hostname>> = BTreeMap::new();
        let mut fresh: BTreeMap<(&str, u64), Vec<&Hostname>> = BTreeMap::new();
        for name in self.target.names.keys().filter(|name| self.is_missing(name) && !self.busy.contains(name))
        {
            if self.aside(name).is_some() {
                continue;
            }
            let group = (self.group(name), self.part(name));
            if self.known.contains(name) {
                lost.entry(group).or_default().push(name);
                continue;
            }
            fresh.entry(group).or_default().push(name);
        }
        for names in lost.into_values() {
            self.together(&names, Why::Replacement, demand, &mut taken, all);
        }
        for names in fresh.into_values() {
            let since = names.iter().map(|name| self.since(name)).min().unwrap_or(self.now);
            let until = since + self.policy.gather;
            if until > self.now {
                decision.wake = earlier(decision.wake, until);
                for name in names {
                    decision.missing.insert((self.secret.clone(), name.clone()), State::Gathering { until });
                }
                continue;
            }
            self.together(&names, Why::NewNames, demand, &mut taken, all);
        }
    }

    fn since(&self, name: &Hostname) -> Seconds {
        self.book.seen.get(&(self.secret.clone(), name.clone())).copied().unwrap_or(self.now)
    }

    fn renewals(
        &self,
        demand: &Demand,
        decision: &mut Decision,
        taken: &mut BTreeSet<ObjectName>,
        all: &mut Vec<Candidate>,
    ) {
        for held in &self.held {
            let names = self.names_of(held);
            if names.is_empty() || self.book.orders.contains_key(&held.secret) {
                continue;
            }
            if held.renew_at() > self.now {
                decision.wake = earlier(decision.wake, held.renew_at());
                continue;
            }
            let is_free = |name: &&&Hostname| self.aside(name).is_none() && !self.busy.contains(**name);
            let free: Vec<&Hostname> = names.iter().filter(is_free).copied().collect();
            for (until, _) in names.iter().filter_map(|name| self.aside(name)) {
                decision.wake = earlier(decision.wake, until);
            }
            let mut parts: BTreeMap<u64, Vec<&Hostname>> = BTreeMap::new();
            for name in free {
                parts.entry(self.part(name)).or_default().push(name);
            }
            for mut free in parts.into_values() {
                free.truncate(self.policy.room());
                // Where not all can be renewed together, the old one stays for those that remain.
                let secret = if free.len() == names.len() {
                    held.secret.clone()
                } else {
                    self.free_secret(&free, demand, taken)
                };
                taken.insert(secret.clone());
                all.push(self.candidate(secret, free.clone(), &free, Why::Renewal, held.not_after));
            }
        }
    }

    /// Names of one group: into a certificate that has room for more, the rest into new ones.
    fn together(
        &self,
        names: &[&'a Hostname],
        why: Why,
        demand: &Demand,
        taken: &mut BTreeSet<ObjectName>,
        all: &mut Vec<Candidate>,
    ) {
        let since = names.iter().map(|name| self.since(name)).min().unwrap_or(self.now);
        let mut rest = names;
        if let Some((held, own)) = self.roomy(names, taken) {
            let (joining, others) = rest.split_at(rest.len().min(self.policy.room() - own.len()));
            rest = others;
            taken.insert(held.secret.clone());
            let together: Vec<&Hostname> = own.iter().chain(joining).copied().collect();
            all.push(self.candidate(held.secret.clone(), together, joining, why, since));
        }
        for chunk in rest.chunks(self.policy.room()) {
            let secret = self.free_secret(chunk, demand, taken);
            taken.insert(secret.clone());
            all.push(self.candidate(secret, chunk.to_vec(), chunk, why, since));
        }
    }

    /// A certificate of the same group that takes more names: the one with the most room.
    fn roomy(
        &self,
        names: &[&Hostname],
        taken: &BTreeSet<ObjectName>,
    ) -> Option<(&'a Held, &[&'a Hostname])> {
        // One name has no room beside it, and there may be many of them.
        if self.policy.room() == 1 {
            return None;
        }
        let group = self.group(names.first()?);
        let is_free =
            |held: &&&'a Held| !taken.contains(&held.secret) && !self.book.orders.contains_key(&held.secret);
        let own = self.held.iter().filter(is_free).map(|held| (*held, self.names_of(held)));
        let fits = own.filter(|(_, own)| {
            !own.is_empty()
                && own.len() < self.policy.room()
                && own.iter().all(|name| self.group(name) == group && self.aside(name).is_none())
        });
        fits.min_by_key(|(held, own)| (own.len(), &held.secret))
    }

    fn free_secret(&self, names: &[&Hostname], demand: &Demand, taken: &BTreeSet<ObjectName>) -> ObjectName {
        let first = names.first().map_or("", |name| name.as_str());
        free_secret(self.book, self.secret, &self.target.issuer, first, demand, taken)
    }

    fn candidate(
        &self,
        secret: ObjectName,
        names: Vec<&Hostname>,
        asked: &[&Hostname],
        why: Why,
        since: Seconds,
    ) -> Candidate {
        let asked: Vec<Hostname> = asked.iter().map(|name| (*name).clone()).collect();
        let mut names: Vec<Hostname> = names.into_iter().cloned().collect();
        names.sort();
        let claim = asked.first().and_then(|name| self.target.names.get(name));
        let namespace = claim.map_or_else(|| "".into(), |claim| Arc::clone(&claim.namespace));
        let fresh = if why == Why::NewNames { asked.clone() } else { Vec::new() };
        let order = Order {
            secret,
            target: self.secret.clone(),
            issuer: self.target.issuer.clone(),
            names,
            asked,
            why,
        };
        Candidate { order, fresh, since, namespace }
    }
}

/// The listener's own Secret, or one beside it whose name nobody has.
pub(super) fn free_secret(
    book: &Book,
    target: &ObjectName,
    issuer: &Issuer,
    first: &str,
    demand: &Demand,
    taken: &BTreeSet<ObjectName>,
) -> ObjectName {
    // One of another issuer, or whose key does not fit, is to be replaced.
    let is_outdated = |held: &Held| held.target == *target && (held.issuer != *issuer || !held.usable);
    let is_free = |secret: &ObjectName| {
        !taken.contains(secret)
            && book.held.get(secret).is_none_or(is_outdated)
            && !book.orders.contains_key(secret)
            && !demand.foreign.contains(secret)
            && (secret == target || !demand.targets.contains_key(secret))
    };
    let mut secret = target.clone();
    let mut attempt = 0_u32;
    while !is_free(&secret) {
        let number = hash(&[&target.namespace, &target.name, first, &attempt.to_string()]);
        // Names of Secrets have at most 253 characters.
        let stem: String = target.name.chars().take(240).collect();
        let stem = stem.trim_end_matches(['.', '-']);
        let name = format!("{stem}-{:08x}", number & 0xffff_ffff);
        secret = ObjectName::new(Arc::clone(&target.namespace), name);
        attempt += 1;
    }
    secret
}
