//! What a wrong clock does to what is decided: CAs have clocks of their own.

use super::*;

/// How many orders are made in so many days for a name whose machine has a clock that is ahead by so much.
fn orders(days: Seconds, ahead: Seconds, mut befall: impl FnMut(&mut Book)) -> usize {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com"]);
    let mut count = 0;
    for passed in (0..days * DAY).step_by(600) {
        let (now, clock) = (START + passed, START + passed + ahead);
        let decision = book.decide(clock, &demand, &policies);
        for order in decision.start {
            count += 1;
            book.begin(&order, &demand, &policies, clock);
            book.issued(&order.secret, certificate(&order, now), clock);
        }
        for secret in decision.drop {
            book.dropped(&secret);
        }
        befall(&mut book);
    }
    count
}

#[test]
fn a_clock_that_is_behind_makes_nobody_ask_again() {
    for behind in [DAY, 14 * DAY, 400 * DAY] {
        assert_eq!(orders(30, -behind, |_| ()), 1, "behind by {} days", behind / DAY);
    }
}

#[test]
fn a_clock_that_is_ahead_makes_nobody_ask_again_and_again() {
    for ahead in [70 * DAY, 90 * DAY - HOUR, 100 * DAY, 1_000 * DAY] {
        let count = orders(30, ahead, |_| ());
        assert!((4..=12).contains(&count), "{count} orders, ahead by {} days", ahead / DAY);
    }
}

#[test]
fn who_spoils_a_key_over_and_over_does_not_spend_what_the_ca_allows() {
    let spoil = |book: &mut Book| {
        for held in book.held().values().cloned().collect::<Vec<_>>() {
            // As old as can be: what a Secret says of itself is not to be believed.
            book.found(Held { usable: false, not_before: 0, ..held });
        }
    };
    let count = orders(7, 0, spoil);
    assert!((4..=10).contains(&count), "{count} orders");
}

#[test]
fn a_certificate_that_was_made_again_says_so_while_it_rests() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com"]);
    let mut spoilt = || {
        let started = serve(&mut book, START, &demand, &policies).len();
        let held = book.held()[&secret("tls")].clone();
        book.found(Held { usable: false, ..held });
        started
    };
    assert_eq!([spoilt(), spoilt(), spoilt()], [1, 1, 0], "the first time it is replaced at once");
    let decision = book.decide(START, &demand, &policies);
    let state = &decision.missing[&(secret("tls"), host("a.example.com"))];
    let State::SetAside { until, message } = state else { panic!("{state:?}") };
    assert!(message.contains("clock") && decision.wake == Some(*until), "{decision:?}");
    let mut book = restarted(&book);
    assert!(book.decide(*until - 1, &demand, &policies).start.is_empty(), "a restart changes nothing");
    assert_eq!(book.decide(*until, &demand, &policies).start.len(), 1);
}

#[test]
fn a_clock_that_goes_back_does_not_keep_the_ca_from_being_asked_when_to_renew() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    serve(&mut book, START, &acme(&["shop/a.example.com"]), &policies);
    book.not_suggested(&secret("tls"), START + 14 * DAY + HOUR);
    assert!(book.to_look_at(START + 14 * DAY).is_empty() && book.to_look_at(START).len() == 1);
}

/// What another process makes of what this one stored.
fn restarted(book: &Book) -> Book {
    let kept = serde_json::from_slice(&book.ledger().within(usize::MAX)).unwrap();
    Book::new(book.held().values().cloned(), [], kept)
}

/// A budget that is used up at the start, with names that wait for it to open again.
fn spent() -> (Book, Demand, Policies) {
    let policies = policies(|policy| {
        (policy.gather, policy.grouping, policy.in_flight) = (0, Grouping::Name, 1_000);
    });
    let names: Vec<String> = (0..60).map(|n| format!("shop/n{n}.example.com")).collect();
    let demand = acme(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut book = Book::default();
    assert!(!serve(&mut book, START, &demand, &policies).is_empty());
    (book, demand, policies)
}

/// After so many days by the clock in which nobody looks: how many hours later there are orders again.
fn opens_after(days: Seconds, is_restarted: bool) -> Seconds {
    let (mut book, demand, policies) = spent();
    if is_restarted {
        book = restarted(&book);
    }
    let again = START + days * DAY;
    let opens = |hours: &Seconds| !serve(&mut book, again + hours * HOUR, &demand, &policies).is_empty();
    (0..20 * 24).find(opens).expect("it opens")
}

#[test]
fn a_clock_that_is_set_ahead_opens_no_budget() {
    let week = 7 * 24;
    for (days, is_restarted, opens) in [
        (0, false, week),
        (0, true, week),
        (20, false, week),
        // Whether time has passed, or the clock was set, nobody knows who was not there.
        (20, true, week),
        (2, true, week),
        (40, true, week),
        // For a night it may be away.
        (1, true, week - 24),
    ] {
        assert_eq!(opens_after(days, is_restarted), opens, "{days} days, restarted: {is_restarted}");
    }
}

#[test]
fn a_process_that_is_started_again_and_again_counts_the_days() {
    let (mut book, demand, policies) = spent();
    let opens = |day: &Seconds| {
        book = restarted(&book);
        !serve(&mut book, START + day * DAY, &demand, &policies).is_empty()
    };
    assert_eq!((1..20).find(opens), Some(7));
}

#[test]
fn what_ended_while_nobody_was_there_is_asked_for_at_once() {
    let (mut book, policies) = (Book::default(), policies(|policy| policy.gather = 0));
    let demand = acme(&["shop/a.example.com"]);
    for _ in 0..2 {
        serve(&mut book, START, &demand, &policies);
        let held = book.held()[&secret("tls")].clone();
        book.found(Held { usable: false, ..held });
    }
    let orders = serve(&mut book, START, &demand, &policies);
    assert!(orders.is_empty(), "one that was made again rests");
    let mut book = restarted(&book);
    assert_eq!(serve(&mut book, START + 100 * DAY, &demand, &policies).len(), 1);
}
