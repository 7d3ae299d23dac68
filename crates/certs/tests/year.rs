//! A year of certificates, in a moment: routes come and go, the CA fails and asks for patience, names break, the
//! process starts again, the clock jumps. No certificate in use ends that could have been renewed, and nobody is asked
//! for more than the budgets allow.
#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::Config;
use proptest::test_runner::RngSeed;
use tidegate_certs::{
    Book, Budgets, DAY, Demand, Failure, Grouping, HOUR, Held, Issuer, Order, Policies, Policy, Seconds,
    Suggestion, Want, WantedName, Why, registered_domain,
};
use tidegate_plan::{Hostname, ObjectName};

const START: Seconds = 1_800_000_000;
const NAMESPACES: usize = 5;
const NAMES: usize = 60;

/// xorshift: the same seed gives the same year.
struct Chance(u64);

impl Chance {
    fn below(&mut self, range: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        i64::try_from(self.0 % u64::try_from(range.max(1)).unwrap()).unwrap()
    }

    fn one_in(&mut self, times: i64) -> bool {
        self.below(times) == 0
    }
}

struct Year {
    chance: Chance,
    life: Seconds,
    now: Seconds,
    /// What the clock of the machine is ahead by.
    ahead: Seconds,
    /// Until when it is far off.
    wrong: Seconds,
    /// When it was set ahead by so little that nobody notices, and by how much.
    unnoticed: Vec<(Seconds, Seconds)>,
    /// Until when nobody can expect renewals: a clock that is far behind does not say that they are due.
    excused: Seconds,
    book: Book,
    policies: Policies,
    wanted: BTreeSet<usize>,
    /// When each wanted name was first covered; it must be from then on.
    covered: BTreeMap<usize, bool>,
    running: Vec<(Seconds, Order)>,
    outage: Seconds,
    patience: Seconds,
    broken: BTreeMap<usize, Seconds>,
    made: Vec<(Seconds, Order)>,
    /// When a certificate came for names that had one.
    again: BTreeMap<Hostname, Vec<Seconds>>,
    /// Names that came back while the clock was far off, and until when that may be felt.
    back: BTreeMap<usize, Seconds>,
    serial: u64,
    failures: usize,
    failed: BTreeMap<Hostname, Vec<Seconds>>,
}

fn name(number: usize) -> Hostname {
    let top = ["example.com", "example.org", "example.co.uk"][number % 3];
    Hostname::parse(&format!("n{number}.{top}")).unwrap()
}

fn namespace(number: usize) -> String {
    format!("team-{}", number % NAMESPACES)
}

fn number(host: &Hostname) -> usize {
    host.as_str()[1..].split('.').next().unwrap().parse().unwrap()
}

impl Year {
    fn new(seed: u64) -> Self {
        let mut chance = Chance(seed | 1);
        let life = if chance.one_in(3) { 6 * DAY } else { 90 * DAY };
        let grouping = [Grouping::Namespace, Grouping::Name][usize::try_from(chance.below(2)).unwrap()];
        let budgets = Budgets { window: 7 * DAY, per_gateway: 60, per_namespace: 20, per_domain: 30 };
        let policy = Policy {
            grouping,
            names_per_certificate: 4,
            gather: 10,
            budgets: Some(budgets),
            in_flight: 3,
            proves: true,
            namespaces: None,
        };
        Self {
            chance,
            life,
            now: START,
            ahead: 0,
            wrong: START,
            unnoticed: Vec::new(),
            excused: START,
            book: Book::default(),
            policies: Policies::from([(Issuer::acme(), policy)]),
            wanted: BTreeSet::new(),
            covered: BTreeMap::new(),
            running: Vec::new(),
            outage: 0,
            patience: 0,
            broken: BTreeMap::new(),
            made: Vec::new(),
            again: BTreeMap::new(),
            back: BTreeMap::new(),
            serial: 0,
            failures: 0,
            failed: BTreeMap::new(),
        }
    }

    fn policy(&self) -> &Policy {
        &self.policies[&Issuer::acme()]
    }

    fn demand(&self) -> Demand {
        let names = self
            .wanted
            .iter()
            .map(|number| WantedName { name: name(*number), namespace: namespace(*number).into() });
        let secret = ObjectName::new("infra", "tls");
        let gateway = ObjectName::new("infra", "edge");
        Demand::new(
            [Want { secret, gateway, issuer: Issuer::acme(), names: names.collect() }],
            BTreeSet::new(),
        )
    }

    fn live(&mut self) {
        let end = START + 365 * DAY;
        while self.now < end {
            self.befall();
            let demand = self.demand();
            let clock = self.now + self.ahead;
            self.finish(clock, &demand);
            let decision = self.book.decide(clock, &demand, &self.policies);
            for order in decision.start {
                self.check_order(&order);
                self.book.begin(&order, &demand, &self.policies, clock);
                let takes = 1 + self.chance.below(self.life / 1_000);
                self.made.push((self.now, order.clone()));
                self.running.push((self.now + takes, order));
            }
            assert!(self.book.orders().len() <= self.policy().in_flight);
            for secret in decision.drop {
                self.book.dropped(&secret);
            }
            self.check_cover();
            let wake = decision.wake.map_or(Seconds::MAX, |wake| wake - self.ahead);
            let done = self.running.iter().map(|(at, _)| *at).min().unwrap_or(Seconds::MAX);
            let step = (2 * HOUR).min(self.life / 150);
            self.now = wake.min(done).clamp(self.now + 1, self.now + step);
        }
    }

    /// What happens to routes, CA, names, process and clock.
    fn befall(&mut self) {
        // Once in an hour, whatever the step.
        if self.chance.one_in(12) {
            let number = usize::try_from(self.chance.below(i64::try_from(NAMES).unwrap())).unwrap();
            if !self.wanted.remove(&number) {
                self.wanted.insert(number);
                // To a clock that is a life ahead all certificates are over: those that nobody wanted for a while are
                // gone, and how often a name has others made is bounded, by waits of up to a sixth of a life.
                if self.ahead.abs() > self.life / 20 {
                    self.back.insert(number, self.now + self.life / 5);
                }
            }
            self.covered.remove(&number);
        }
        // What never gets well could not have been renewed.
        let is_well = |until: Seconds| until + self.life / 3 < self.now;
        if self.chance.one_in(400) && is_well(self.outage.max(self.patience)) {
            self.outage = self.now + self.chance.below(self.life / 18);
        }
        if self.chance.one_in(400) && is_well(self.outage.max(self.patience)) {
            self.patience = self.now + self.chance.below(self.life / 40);
        }
        if self.chance.one_in(100) {
            let number = usize::try_from(self.chance.below(i64::try_from(NAMES).unwrap())).unwrap();
            if self.broken.get(&number).is_none_or(|until| is_well(*until)) {
                self.broken.insert(number, self.now + self.chance.below(self.life / 6));
            }
        }
        if self.chance.one_in(300) {
            self.start_again();
            self.set_clock(4);
        } else {
            self.set_clock(1_000);
        }
        if self.chance.one_in(500) {
            // The CA revokes one and says so.
            let secret = self.book.held().keys().next().cloned();
            if let Some(secret) = secret {
                let clock = self.now + self.ahead;
                let past = Suggestion { start: clock - DAY, end: clock - HOUR, look: clock + HOUR };
                self.book.suggested(&secret, past);
            }
        }
    }

    /// A process that starts again, maybe after a while, knows what was stored, and goes on with its orders.
    fn start_again(&mut self) {
        let held = self.book.held().values().cloned().collect::<Vec<Held>>();
        let orders = self.book.orders().values().cloned().collect::<Vec<Order>>();
        let text = serde_json::to_string(self.book.ledger()).unwrap();
        self.book = Book::new(held, orders, serde_json::from_str(&text).unwrap());
        if self.chance.one_in(3) {
            self.now += self.chance.below(self.life / 30);
        }
    }

    /// Once in so many times: a little off, or by hours or weeks, for hours or weeks.
    fn set_clock(&mut self, times: i64) {
        let (was_wrong, before) = (self.wrong > START, self.ahead);
        if was_wrong && self.wrong <= self.now {
            (self.ahead, self.wrong) = (0, START);
            // What was to be waited for by the wrong clock is waited for from now on.
            let (now, soon) = (self.now, self.now + self.life / 5);
            self.back.values_mut().filter(|until| **until > now).for_each(|until| *until = soon);
        } else if !was_wrong && self.chance.one_in(times) {
            self.ahead = self.chance.below(self.life / 90) - self.life / 180;
        } else if !was_wrong && self.chance.one_in(times) {
            let far = [DAY, 35 * DAY, 2 * self.life][usize::try_from(self.chance.below(3)).unwrap()];
            self.ahead = self.chance.below(2 * far) - far;
            self.wrong = self.now + HOUR + self.chance.below(21 * DAY);
        }
        let set_by = self.ahead - before;
        if (1..=DAY).contains(&set_by) {
            self.unnoticed.push((self.now, set_by));
        }
        if self.ahead < -self.life / 20 {
            self.excused = self.now + self.life / 3;
        }
    }

    fn finish(&mut self, clock: Seconds, demand: &Demand) {
        let (done, running) =
            std::mem::take(&mut self.running).into_iter().partition(|(at, _)| *at <= self.now);
        self.running = running;
        for (_, order) in done {
            let broken: Vec<(Hostname, String)> = order
                .names
                .iter()
                .filter(|name| self.broken.get(&number(name)).is_some_and(|until| *until > self.now))
                .map(|name| (name.clone(), "no answer".to_owned()))
                .collect();
            let failure = if self.outage > self.now {
                Some(Failure::Issuer { message: "down".to_owned(), wait: None })
            } else if self.patience > self.now {
                let (message, wait) = ("429".to_owned(), self.patience - self.now);
                // It may mean itself, or these names.
                Some(if self.chance.one_in(2) {
                    Failure::Issuer { message, wait: Some(wait) }
                } else {
                    Failure::Limited { message, wait }
                })
            } else if !broken.is_empty() && self.chance.one_in(4) {
                Some(Failure::Order("refused, and nobody says for which name".to_owned()))
            } else if !broken.is_empty() {
                Some(Failure::Names(broken))
            } else {
                None
            };
            match failure {
                Some(failure) => {
                    self.failures += 1;
                    if let Failure::Names(names) = &failure {
                        for (name, _) in names {
                            self.failed.entry(name.clone()).or_default().push(self.now);
                        }
                    }
                    self.book.failed(&order, &failure, clock);
                }
                None => {
                    self.serial += 1;
                    if order.why != Why::NewNames {
                        for name in &order.asked {
                            self.again.entry(name.clone()).or_default().push(self.now);
                        }
                    }
                    // The CA has a clock of its own.
                    let secret = self.book.place(&order, demand, clock);
                    let held = Held {
                        secret,
                        target: order.target,
                        issuer: order.issuer,
                        names: order.names,
                        not_before: self.now - HOUR,
                        not_after: self.now + self.life,
                        serial: self.serial.to_string(),
                        suggestion: None,
                        usable: true,
                    };
                    self.book.issued(&order.secret, held, clock);
                }
            }
        }
    }

    fn check_order(&self, order: &Order) {
        let policy = self.policy();
        let room = if policy.grouping == Grouping::Name { 1 } else { policy.names_per_certificate };
        assert!((1..=room).contains(&order.names.len()), "{order:?}");
        assert!(!self.book.orders().contains_key(&order.secret), "two at a time: {order:?}");
        let owners: BTreeSet<String> = order.names.iter().map(|name| namespace(number(name))).collect();
        assert_eq!(owners.len(), 1, "{order:?}");
        assert!(order.names.iter().all(|name| self.wanted.contains(&number(name))), "{order:?}");
    }

    /// Whoever had a certificate and still wants it has one, or has one again soon after the clock was far behind, or
    /// after coming back while it was far off.
    fn check_cover(&mut self) {
        for wanted in &self.wanted {
            let host = name(*wanted);
            let good =
                |held: &Held| held.covers(&host) && held.not_before <= self.now && self.now < held.not_after;
            let is_covered = self.book.held().values().any(good);
            let was_covered = self.covered.get(wanted).copied().unwrap_or(false);
            self.covered.insert(*wanted, is_covered || was_covered);
            let is_back = self.back.get(wanted).is_some_and(|until| self.now < *until);
            let is_excused = self.now < self.excused || is_back;
            let day = (self.now - START) / DAY;
            assert!(
                is_covered || !was_covered || is_excused,
                "{host} has no certificate on day {day}: {:?}",
                self.book
            );
        }
    }

    /// In no window there were more orders for new names than the budgets have. Jumps of a few hours make it that much
    /// shorter.
    fn check_budgets(&self) {
        let budgets = self.policy().budgets.unwrap();
        let window = |from: Seconds| {
            let within = |at: Seconds| (from..from + budgets.window).contains(&at);
            let jumps = self.unnoticed.iter().filter(|(at, _)| within(*at));
            budgets.window - jumps.map(|(_, by)| by).sum::<Seconds>()
        };
        let new: Vec<(Seconds, &Order)> = self
            .made
            .iter()
            .filter(|(_, order)| order.why == Why::NewNames)
            .map(|(at, order)| (*at, order))
            .collect();
        for (index, (at, _)) in new.iter().enumerate() {
            let within = new[index..].iter().take_while(|(later, _)| *later < at + window(*at));
            let (mut all, mut namespaces, mut domains) = (0, BTreeMap::new(), BTreeMap::new());
            for (_, order) in within {
                all += 1;
                *namespaces.entry(namespace(number(&order.names[0]))).or_insert(0) += 1;
                let own: BTreeSet<&str> =
                    order.names.iter().map(|name| registered_domain(name.as_str())).collect();
                for domain in own {
                    *domains.entry(domain).or_insert(0) += 1;
                }
            }
            assert!(all <= budgets.per_gateway, "{all} orders in a window");
            assert!(namespaces.values().all(|count| *count <= budgets.per_namespace), "{namespaces:?}");
            assert!(domains.values().all(|count| *count <= budgets.per_domain), "{domains:?}");
        }
    }

    /// Whatever the clock says, nobody has certificates made for a name again and again.
    fn check_again(&self) {
        for (name, times) in &self.again {
            for many in times.windows(16) {
                let days = (many[15] - many[0]) / DAY;
                assert!(days >= 7, "{name} had 16 certificates in {days} days");
            }
        }
    }

    /// However long it is broken, no name fails more often than CAs tolerate: five times in an hour.
    fn check_tries(&self) {
        for (name, times) in &self.failed {
            for six in times.windows(6) {
                // A jump of the clock may make a wait shorter.
                assert!(six[5] - six[0] > HOUR / 2, "{name} failed at {six:?}");
            }
        }
    }
}

fn live(seed: u64) {
    let mut year = Year::new(seed);
    year.live();
    year.check_budgets();
    year.check_again();
    year.check_tries();
    let (made, failures) = (year.made.len(), year.failures);
    assert!(made > 50 && failures > 5, "{made} orders, {failures} failures");
}

/// Years in which something went wrong once.
#[test]
fn years_to_remember() {
    for seed in [
        4_951_056_624_401_076_701,
        8_613_465_276_647_311_202,
        16_119_951_583_015_898_746,
        14_277_653_789_130_365_763,
    ] {
        live(seed);
    }
}

/// The same years each time, so that a change is judged by what it changed. `YEARS=1000` has others.
fn years() -> Config {
    let others = std::env::var("YEARS").ok().and_then(|years| years.parse().ok());
    let rng_seed = if others.is_some() { RngSeed::Random } else { RngSeed::Fixed(3) };
    let cases = others.unwrap_or(12);
    Config { cases, rng_seed, max_shrink_iters: 0, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(years())]

    #[test]
    fn nothing_ends_that_could_have_been_renewed(seed in any::<u64>()) {
        live(seed);
    }
}
