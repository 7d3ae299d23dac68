mod clock;
mod failures;

use super::*;
use crate::{Failure, HOUR, Suggestion, Timing, Want, WantedName};

const START: Seconds = 1_800_000_000;

fn host(name: &str) -> Hostname {
    Hostname::parse(name).unwrap()
}

fn secret(name: &str) -> ObjectName {
    ObjectName::new("infra", name)
}

/// Names as `namespace/name`.
fn demand_of(issuer: &Issuer, secret_name: &str, names: &[&str]) -> Demand {
    let names = names
        .iter()
        .map(|text| {
            let (namespace, name) = text.split_once('/').unwrap();
            WantedName { name: host(name), namespace: namespace.into() }
        })
        .collect();
    let gateway = ObjectName::new("infra", "edge");
    let want = Want { secret: secret(secret_name), gateway, issuer: issuer.clone(), names };
    Demand::new([want], BTreeSet::new())
}

fn acme(names: &[&str]) -> Demand {
    demand_of(&Issuer::acme(), "tls", names)
}

fn policies(change: impl FnOnce(&mut Policy)) -> Policies {
    let mut policy = Policy::acme();
    change(&mut policy);
    Policies::from([(Issuer::acme(), policy), (Issuer::Embedded, Policy::embedded())])
}

fn certificate(order: &Order, now: Seconds) -> Held {
    Held {
        secret: order.secret.clone(),
        target: order.target.clone(),
        issuer: order.issuer.clone(),
        names: order.names.clone(),
        not_before: now - HOUR,
        not_after: now + 90 * DAY,
        serial: format!("{}{now}", order.secret),
        suggestion: None,
        usable: true,
    }
}

/// Decides, makes all orders and has them succeed.
fn serve(book: &mut Book, now: Seconds, demand: &Demand, policies: &Policies) -> Vec<Order> {
    let decision = book.decide(now, demand, policies);
    for order in &decision.start {
        book.begin(order, demand, policies, now);
        book.issued(&order.secret, certificate(order, now), now);
    }
    for secret in &decision.drop {
        book.dropped(secret);
    }
    decision.start
}

fn texts(orders: &[Order]) -> Vec<String> {
    let each = orders.iter().map(|order| {
        let names: Vec<&str> = order.names.iter().map(Hostname::as_str).collect();
        names.join(" ")
    });
    each.collect()
}

#[test]
fn new_names_are_gathered_and_ordered_together() {
    let (mut book, policies) = (Book::default(), policies(|_| ()));
    let one = acme(&["shop/a.example.com"]);
    let decision = book.decide(START, &one, &policies);
    assert!(decision.start.is_empty());
    assert_eq!(decision.wake, Some(START + 10));
    let two = acme(&["shop/a.example.com", "shop/b.example.com"]);
    assert!(book.decide(START + 9, &two, &policies).start.is_empty());
    let decision = book.decide(START + 10, &two, &policies);
    assert_eq!(texts(&decision.start), ["a.example.com b.example.com"]);
    assert_eq!(decision.start[0].secret, secret("tls"));
    assert!(decision.missing.values().all(|state| *state == State::Ordered));
}

#[test]
fn namespaces_do_not_share_a_certificate() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com", "blog/b.example.com", "shop/c.example.com"]);
    let orders = serve(&mut book, START, &demand, &policies);
    assert_eq!(texts(&orders), ["b.example.com", "a.example.com c.example.com"]);
    let names: BTreeSet<&ObjectName> = orders.iter().map(|order| &order.secret).collect();
    assert!(names.len() == 2 && names.contains(&secret("tls")), "{names:?}");
}

#[test]
fn one_for_each_name_or_for_the_listener() {
    for (grouping, expected) in [(Grouping::Name, 3), (Grouping::Listener, 1), (Grouping::Namespace, 2)] {
        let policies = policies(|policy| (policy.gather, policy.grouping) = (0, grouping));
        let demand = acme(&["shop/a.example.com", "blog/b.example.com", "shop/c.example.com"]);
        assert_eq!(serve(&mut Book::default(), START, &demand, &policies).len(), expected, "{grouping:?}");
    }
}

#[test]
fn a_certificate_takes_so_many_names() {
    let policies = policies(|policy| (policy.gather, policy.names_per_certificate) = (0, 2));
    let mut book = Book::default();
    let all = ["shop/a.example.com", "shop/b.example.com", "shop/c.example.com", "shop/d.example.com"];
    assert_eq!(
        texts(&serve(&mut book, START, &acme(&all[..3]), &policies)),
        ["a.example.com b.example.com", "c.example.com"]
    );
    let joined = serve(&mut book, START + 1, &acme(&all), &policies);
    assert_eq!(texts(&joined), ["c.example.com d.example.com"], "the one with room takes it");
    assert_eq!(book.held().len(), 2);
}

#[test]
fn a_route_that_goes_takes_its_name_at_the_next_renewal() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let both = acme(&["shop/a.example.com", "shop/b.example.com"]);
    serve(&mut book, START, &both, &policies);
    let one = acme(&["shop/a.example.com"]);
    assert!(serve(&mut book, START + DAY, &one, &policies).is_empty());
    assert!(serve(&mut book, START + 2 * DAY, &both, &policies).is_empty(), "a flapping route costs nothing");
    let renewed = serve(&mut book, START + 61 * DAY, &one, &policies);
    assert_eq!(texts(&renewed), ["a.example.com"]);
    assert_eq!(renewed[0].why, Why::Renewal);
}

#[test]
fn what_nobody_wants_goes_at_the_end_of_its_time() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    serve(&mut book, START, &acme(&["shop/a.example.com"]), &policies);
    let nothing = Demand::default();
    assert!(book.decide(START + DAY, &nothing, &policies).drop.is_empty());
    assert_eq!(book.decide(START + 61 * DAY, &nothing, &policies).drop, [secret("tls")]);
}

#[test]
fn a_key_that_does_not_fit_is_replaced_at_once() {
    let (mut book, policies) = (Book::default(), policies(|_| ()));
    let demand = acme(&["shop/a.example.com"]);
    let order = Order {
        secret: secret("tls"),
        target: secret("tls"),
        issuer: Issuer::acme(),
        names: vec![host("a.example.com")],
        asked: vec![host("a.example.com")],
        why: Why::NewNames,
    };
    book.issued(&order.secret, Held { usable: false, ..certificate(&order, START) }, START);
    let decision = book.decide(START, &demand, &policies);
    assert_eq!(decision.start.len(), 1, "without gathering");
    assert_eq!((decision.start[0].why, &decision.start[0].secret), (Why::Replacement, &secret("tls")));
    assert!(decision.drop.is_empty(), "the old one stays until then");
}

#[test]
fn a_revoked_one_is_renewed_at_once() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com"]);
    serve(&mut book, START, &demand, &policies);
    assert_eq!(book.to_look_at(START).len(), 1);
    let past = Suggestion { start: START - DAY, end: START - HOUR, look: START + HOUR };
    book.suggested(&secret("tls"), past);
    assert!(book.to_look_at(START).is_empty() && book.to_look_at(START + HOUR).len() == 1);
    assert_eq!(book.decide(START + 60, &demand, &policies).start[0].why, Why::Renewal);
}

#[test]
fn a_name_that_fails_does_not_take_the_others_along() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com", "shop/b.example.com"]);
    let order = book.decide(START, &demand, &policies).start.remove(0);
    book.begin(&order, &demand, &policies, START);
    let failure = Failure::Names(vec![(host("b.example.com"), "no answer".to_owned())]);
    book.failed(&order, &failure, START);
    let decision = book.decide(START, &demand, &policies);
    assert_eq!(texts(&decision.start), ["a.example.com"]);
    let state = &decision.missing[&(secret("tls"), host("b.example.com"))];
    assert!(matches!(state, State::SetAside { message, .. } if message == "no answer"), "{state:?}");
    serve(&mut book, START, &demand, &policies);
    let again = serve(&mut book, START + HOUR, &demand, &policies);
    assert_eq!(texts(&again), ["a.example.com b.example.com"], "it is tried again");
}

#[test]
fn at_a_renewal_the_old_one_stays_for_a_name_that_fails() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com", "shop/b.example.com"]);
    serve(&mut book, START, &demand, &policies);
    let due = START + 61 * DAY;
    let order = book.decide(due, &demand, &policies).start.remove(0);
    book.begin(&order, &demand, &policies, due);
    book.failed(&order, &Failure::Names(vec![(host("b.example.com"), "no".to_owned())]), due);
    let renewed = serve(&mut book, due, &demand, &policies);
    assert_eq!(texts(&renewed), ["a.example.com"]);
    assert_ne!(renewed[0].secret, secret("tls"));
    assert!(book.held().contains_key(&secret("tls")), "it still serves b.example.com");
    let later = serve(&mut book, due + HOUR, &demand, &policies);
    assert_eq!(texts(&later), ["b.example.com"]);
    assert_eq!(later[0].secret, secret("tls"));
}

#[test]
fn an_issuer_in_trouble_is_left_alone() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com"]);
    let order = book.decide(START, &demand, &policies).start.remove(0);
    book.begin(&order, &demand, &policies, START);
    book.failed(&order, &Failure::Issuer { message: "429".to_owned(), wait: Some(2 * HOUR) }, START);
    let decision = book.decide(START + HOUR, &demand, &policies);
    assert!(decision.start.is_empty());
    assert_eq!(decision.wake, Some(START + 2 * HOUR));
    assert_eq!(book.decide(START + 2 * HOUR, &demand, &policies).start.len(), 1);
}

#[test]
fn a_flood_of_names_leaves_others_their_budget() {
    let policies = policies(|policy| {
        (policy.gather, policy.grouping, policy.in_flight) = (0, Grouping::Name, 1_000);
    });
    let mut book = Book::default();
    let many: Vec<String> = (0..500).map(|n| format!("evil/n{n}.example.com")).collect();
    let mut names: Vec<&str> = many.iter().map(String::as_str).collect();
    let first = serve(&mut book, START, &acme(&names), &policies);
    assert!(!first.is_empty() && first.len() < 50, "{}", first.len());
    names.push("shop/a.example.com");
    let decision = book.decide(START + 1, &acme(&names), &policies);
    assert_eq!(texts(&decision.start), ["a.example.com"]);
    let state = &decision.missing[&(secret("tls"), host("n499.example.com"))];
    assert_eq!(*state, State::OverBudget(Pool::Domain("example.com".to_owned())));
}

#[test]
fn orders_at_a_time_are_bounded_and_namespaces_take_turns() {
    let policies = policies(|policy| {
        (policy.gather, policy.grouping, policy.in_flight, policy.budgets) = (0, Grouping::Name, 2, None);
    });
    let demand =
        acme(&["evil/a.example.com", "evil/b.example.com", "evil/c.example.com", "shop/z.example.com"]);
    let mut book = Book::default();
    let decision = book.decide(START, &demand, &policies);
    assert_eq!(texts(&decision.start), ["a.example.com", "z.example.com"]);
    for order in &decision.start {
        book.begin(order, &demand, &policies, START);
    }
    assert!(book.decide(START, &demand, &policies).start.is_empty());
}

#[test]
fn another_issuer_takes_over_in_the_same_secret() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    serve(&mut book, START, &demand_of(&Issuer::Embedded, "tls", &["shop/a.example.com"]), &policies);
    let orders = serve(&mut book, START, &acme(&["shop/a.example.com"]), &policies);
    assert_eq!(orders[0].secret, secret("tls"));
    assert_eq!(book.held()[&secret("tls")].issuer, Issuer::acme());
}

#[test]
fn nobody_elses_secret_is_taken() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let mut demand = acme(&["shop/a.example.com", "blog/b.example.com"]);
    let beside = book.decide(START, &demand, &policies).start.remove(1).secret;
    demand.foreign.insert(beside.clone());
    let orders = serve(&mut book, START, &demand, &policies);
    assert!(orders.iter().all(|order| order.secret != beside), "{orders:?}");
    let foreign = BTreeSet::from([secret("tls")]);
    let want =
        Want { secret: secret("tls"), gateway: secret("edge"), issuer: Issuer::acme(), names: Vec::new() };
    assert!(Demand::new([want], foreign).targets.is_empty());
}

#[test]
fn who_is_not_there_is_not_asked() {
    let decision = Book::default().decide(START, &acme(&["shop/a.example.com"]), &Policies::new());
    assert!(decision.start.is_empty());
    assert!(decision.missing.values().all(|state| *state == State::NoIssuer));
}

#[test]
fn a_name_of_two_secrets_is_proved_once_at_a_time() {
    let want = |name: &str, issuer: &Issuer| Want {
        secret: secret(name),
        gateway: ObjectName::new("infra", "edge"),
        issuer: issuer.clone(),
        names: vec![WantedName { name: host("a.example.com"), namespace: "shop".into() }],
    };
    let both = |issuer: &Issuer| Demand::new([want("one", issuer), want("two", issuer)], BTreeSet::new());
    let policies = policies(|policy| policy.gather = 0);
    let (mut book, demand) = (Book::default(), both(&Issuer::acme()));
    let first = book.decide(START, &demand, &policies);
    assert_eq!(first.start.len(), 1);
    assert_eq!(first.missing[&(secret("two"), host("a.example.com"))], State::Queued);
    book.begin(&first.start[0], &demand, &policies, START);
    assert!(book.decide(START, &demand, &policies).start.is_empty(), "while the other is under way");
    book.issued(&first.start[0].secret, certificate(&first.start[0], START), START);
    let second = book.decide(START, &demand, &policies);
    assert_eq!(second.start[0].secret, secret("two"));

    let embedded = Book::default().decide(START, &both(&Issuer::Embedded), &policies);
    assert_eq!(embedded.start.len(), 2, "nothing is proved to an authority of our own");
}

#[test]
fn a_name_that_comes_back_while_its_certificate_is_replaced_keeps_the_old_one() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let both = acme(&["shop/a.example.com", "shop/b.example.com"]);
    serve(&mut book, START, &both, &policies);
    // b goes, and c joins a in a new certificate.
    let without = acme(&["shop/a.example.com", "shop/c.example.com"]);
    let order = book.decide(START + 10, &without, &policies).start.remove(0);
    assert_eq!(
        (texts(std::slice::from_ref(&order)), &order.secret),
        (vec!["a.example.com c.example.com".to_owned()], &secret("tls"))
    );
    book.begin(&order, &without, &policies, START + 10);
    assert_eq!(book.place(&order, &without, START + 20), secret("tls"), "b is not wanted any more");
    // b is back before it is there.
    let all = acme(&["shop/a.example.com", "shop/b.example.com", "shop/c.example.com"]);
    let place = book.place(&order, &all, START + 20);
    assert_ne!(place, secret("tls"));
    book.issued(&order.secret, Held { secret: place, ..certificate(&order, START + 20) }, START + 20);
    let decision = book.decide(START + 20, &all, &policies);
    assert_eq!((decision.missing.len(), decision.start.len(), book.held().len()), (0, 0, 2));
}

#[test]
fn an_account_is_for_the_gateways_of_its_namespaces() {
    let corp = Issuer::Acme("corp".into());
    let of = |namespace: &str| {
        let mut policies = policies(|_| ());
        let namespaces = Some(BTreeSet::from([namespace.into()]));
        policies.insert(corp.clone(), Policy { gather: 0, namespaces, ..Policy::acme() });
        policies
    };
    let demand = demand_of(&corp, "tls", &["shop/a.example.com"]);
    let mut book = Book::default();
    let decision = book.decide(START, &demand, &of("bank"));
    assert!(decision.start.is_empty());
    assert_eq!(decision.missing[&(secret("tls"), host("a.example.com"))], State::NotPermitted);
    assert_eq!(texts(&serve(&mut book, START, &demand, &of("infra"))), ["a.example.com"]);
    // When that is taken back, what there is stays, and nobody else makes it.
    let later = book.decide(START + 61 * DAY, &demand, &of("bank"));
    assert!(later.start.is_empty() && later.drop.is_empty(), "{later:?}");
}

#[test]
fn an_account_that_is_not_there_is_not_replaced_by_another() {
    let demand = demand_of(&Issuer::Acme("corp".into()), "tls", &["shop/a.example.com"]);
    let decision = Book::default().decide(START, &demand, &policies(|policy| policy.gather = 0));
    assert!(decision.start.is_empty());
    assert_eq!(decision.missing[&(secret("tls"), host("a.example.com"))], State::NoIssuer);
}

#[test]
fn another_account_makes_it_anew() {
    let corp = Issuer::Acme("corp".into());
    let mut policies = policies(|policy| policy.gather = 0);
    policies.insert(corp.clone(), policies[&Issuer::acme()].clone());
    let mut book = Book::default();
    let names = ["shop/a.example.com"];
    serve(&mut book, START, &acme(&names), &policies);
    let moved = serve(&mut book, START + DAY, &demand_of(&corp, "tls", &names), &policies);
    assert_eq!((moved.len(), &moved[0].secret), (1, &secret("tls")));
    assert_eq!(book.held()[&secret("tls")].issuer, corp);
}
