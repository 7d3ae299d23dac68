//! What failures do to what is decided.

use super::*;

#[test]
fn a_renewal_that_fails_is_told_until_it_is_done() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com", "shop/b.example.com"]);
    serve(&mut book, START, &demand, &policies);
    let due = START + 61 * DAY;
    let order = book.decide(due, &demand, &policies).start.remove(0);
    assert!(book.decide(due, &demand, &policies).late.is_empty(), "it has only become due");
    book.begin(&order, &demand, &policies, due);
    book.failed(&order, &Failure::Names(vec![(host("b.example.com"), "no answer".to_owned())]), due);
    let key = |name: &str| (secret("tls"), host(name));
    let decision = book.decide(due, &demand, &policies);
    assert!(decision.missing.is_empty() && decision.late.len() == 1, "{decision:?}");
    let late = &decision.late[&key("b.example.com")];
    assert_eq!(late.ends, START + 90 * DAY);
    assert!(matches!(&late.state, State::SetAside { message, .. } if message == "no answer"), "{late:?}");
    // It is told while it is tried again as well.
    let again = due + DAY;
    let order = book.decide(again, &demand, &policies).start.remove(0);
    book.begin(&order, &demand, &policies, again);
    assert!(book.decide(again, &demand, &policies).late.contains_key(&key("b.example.com")));
    book.issued(&order.secret, certificate(&order, again), again);
    serve(&mut book, again, &demand, &policies);
    assert!(book.decide(again, &demand, &policies).late.is_empty());
}

#[test]
fn renewals_of_an_issuer_in_trouble_are_late_and_so_is_what_waits_for_too_long() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com"]);
    serve(&mut book, START, &demand, &policies);
    let due = START + 61 * DAY;
    let order = book.decide(due, &demand, &policies).start.remove(0);
    book.begin(&order, &demand, &policies, due);
    let state = |book: &mut Book, now| {
        let late = book.decide(now, &demand, &policies).late;
        late.get(&(secret("tls"), host("a.example.com"))).map(|late| late.state.clone())
    };
    assert_eq!(state(&mut book, due + HOUR), None, "it is on its way");
    assert_eq!(state(&mut book, START + 80 * DAY), Some(State::Ordered));
    book.failed(&order, &Failure::Issuer { message: "away".to_owned(), wait: None }, due);
    let told = state(&mut book, due + HOUR);
    assert!(matches!(&told, Some(State::IssuerHeld { message, .. }) if message == "away"), "{told:?}");
}

/// Carries out what is due; a CA refuses each order with `bad` in it and says no more. Counts the orders.
fn with_a_bad_name(book: &mut Book, now: Seconds, demand: &Demand, policies: &Policies, bad: &str) -> usize {
    let mut count = 0;
    loop {
        let orders = book.decide(now, demand, policies).start;
        if orders.is_empty() {
            return count;
        }
        for order in orders {
            count += 1;
            assert!(count < 100, "it does not end");
            book.begin(&order, demand, policies, now);
            if order.names.contains(&host(bad)) {
                book.failed(&order, &Failure::Order("malformed".to_owned()), now);
            } else {
                book.issued(&order.secret.clone(), certificate(&order, now), now);
            }
        }
    }
}

#[test]
fn an_order_that_is_refused_without_a_reason_is_halved_until_the_name_is_found() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let names: Vec<String> = (0..25).map(|n| format!("shop/n{n}.example.com")).collect();
    let demand = acme(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let orders = with_a_bad_name(&mut book, START, &demand, &policies, "n17.example.com");
    assert!(orders <= 11, "{orders} orders");
    let missing: Vec<String> =
        book.decide(START, &demand, &policies).missing.keys().map(|(_, name)| name.to_string()).collect();
    assert_eq!(missing, ["n17.example.com"]);
    // At a renewal nobody suffers for it either.
    let due = START + 61 * DAY;
    let good: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.contains("n17")).collect();
    with_a_bad_name(&mut book, due, &acme(&good), &policies, "n3.example.com");
    let fresh = |name: &str| {
        book.held().values().any(|held| held.covers(&host(name)) && held.not_after > due + 80 * DAY)
    };
    let old: Vec<&str> =
        good.iter().filter_map(|name| name.strip_prefix("shop/")).filter(|name| !fresh(name)).collect();
    assert_eq!(old, ["n3.example.com"]);
}

#[test]
fn who_asked_too_much_waits_and_others_hardly() {
    for (wait, own, others) in [(120, 240, 120), (DAY, DAY, 600)] {
        let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
        let order = book.decide(START, &acme(&["shop/a.example.com"]), &policies).start.remove(0);
        let both = acme(&["shop/a.example.com", "blog/b.example.com"]);
        book.begin(&order, &both, &policies, START);
        book.failed(&order, &Failure::Limited { message: "too many".to_owned(), wait }, START);
        let decision = book.decide(START + others - 1, &both, &policies);
        assert!(decision.start.is_empty(), "{:?}", decision.start);
        let decision = book.decide(START + others, &both, &policies);
        assert_eq!(texts(&decision.start), ["b.example.com"], "{wait}");
        let state = &decision.missing[&(secret("tls"), host("a.example.com"))];
        let State::SetAside { until, message } = state else { panic!("{state:?}") };
        assert!(*until >= START + own && message == "too many", "{state:?}");
        assert_eq!(texts(&serve(&mut book, *until, &acme(&["shop/a.example.com"]), &policies)).len(), 1);
    }
}

#[test]
fn what_a_ca_said_of_renewal_holds_when_it_says_nothing_more() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com"]);
    serve(&mut book, START, &demand, &policies);
    let window = Suggestion { start: START + 5 * DAY, end: START + 6 * DAY, look: START + HOUR };
    book.suggested(&secret("tls"), window);
    let at = book.held()[&secret("tls")].renew_at();
    book.not_suggested(&secret("tls"), START + DAY);
    let held = &book.held()[&secret("tls")];
    assert_eq!(held.renew_at(), at);
    assert!(book.to_look_at(START + 2 * HOUR).is_empty() && book.to_look_at(START + DAY).len() == 1);
    // Who starts again knows it, and asks at once whether it still holds; of another certificate it says nothing.
    let kept = || serde_json::from_slice(&book.ledger().within(usize::MAX)).unwrap();
    let again = Book::new([Held { suggestion: None, ..held.clone() }], [], kept());
    assert_eq!(again.held()[&secret("tls")].renewal(), (at, Timing::Ari));
    assert_eq!(again.to_look_at(START + 2 * HOUR).len(), 1);
    let other = Held { suggestion: None, serial: "other".to_owned(), ..held.clone() };
    let other = Book::new([other], [], kept());
    assert_eq!(other.held()[&secret("tls")].renewal().1, Timing::Age);
}
