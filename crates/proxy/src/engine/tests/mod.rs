//! Sessions between peers that live in memory.

mod memory;
mod play;
mod stage;
mod tls;

use std::time::Duration;

use proptest::prelude::*;
use tidegate_plan::Reason;

use self::memory::ROOM;
use self::stage::Stage;
use crate::Ending;
use crate::engine::Tick;

#[test]
fn bytes_in_hand_go_out_with_the_connect() {
    let mut stage = Stage::new(&[1]);
    stage.client_says(b"hello");
    assert_eq!(stage.dialed(), [(1, true)]);
    assert_eq!(stage.backend_hears(), b"hello");
    stage.backend_says(b"world");
    assert_eq!(stage.client_hears(), b"world");
}

#[test]
fn a_backend_that_speaks_first_is_not_kept_waiting() {
    let mut stage = Stage::new(&[1]);
    stage.look();
    assert_eq!(stage.dialed(), [(1, false)]);
    stage.backend_answers();
    stage.backend_says(b"220 ready");
    assert_eq!(stage.client_hears(), b"220 ready");
}

#[test]
fn an_end_is_carried_over_and_the_other_direction_goes_on() {
    let mut stage = Stage::new(&[1]);
    stage.client_says(b"request");
    stage.client_ends();
    assert_eq!(stage.backend_hears(), b"request");
    assert!(stage.backend_was_told_the_end());
    stage.backend_says(b"answer");
    assert_eq!(stage.client_hears(), b"answer");
    stage.backend_ends();
    assert_eq!(stage.ended, Some(Ending::Done));
    assert!(!stage.client_was_told_the_end(), "the close tells it, a shutdown before it is needless");
}

#[test]
fn an_end_that_comes_with_the_last_bytes_is_seen() {
    let mut stage = Stage::new(&[1]);
    stage.client_says_and_ends(b"all of it");
    assert_eq!(stage.backend_hears(), b"all of it");
    assert!(stage.backend_was_told_the_end());
}

#[test]
fn a_reset_is_carried_over_as_a_reset() {
    let mut stage = Stage::new(&[1]);
    stage.client_says(b"half of");
    stage.client_resets();
    assert_eq!(stage.ended, Some(Ending::ClientReset));
    assert!(stage.backend_was_reset());

    let mut stage = Stage::new(&[1]);
    stage.client_says(b"x");
    stage.backend_resets();
    assert_eq!(stage.ended, Some(Ending::BackendReset));
    assert!(stage.client_was_reset());
}

#[test]
fn a_reset_after_an_orderly_end_is_noticed() {
    let mut stage = Stage::new(&[1]);
    stage.client_says(b"request");
    stage.backend_ends();
    assert!(stage.client_was_told_the_end());
    assert_eq!(stage.ended, None);
    stage.backend_resets();
    assert_eq!(stage.ended, Some(Ending::BackendReset));

    let mut stage = Stage::new(&[1]);
    stage.client_says(b"request");
    stage.client_ends();
    stage.client_resets();
    assert_eq!(stage.ended, Some(Ending::ClientReset));
}

#[test]
fn a_backend_that_is_gone_is_heard_to_its_end_by_a_slow_client() {
    let mut stage = Stage::new(&[1]);
    stage.client_says(b"request");
    stage.backend_says(&[7; ROOM]);
    stage.backend_says(b"the rest");
    stage.backend_ends();
    stage.backend_resets();
    assert_eq!(stage.ended, None, "the client has yet to take it");
    assert_eq!(stage.client_hears(), [7; ROOM]);
    assert_eq!(stage.client_hears(), b"the rest");
    assert_eq!(stage.ended, Some(Ending::BackendReset));
}

#[test]
fn a_backend_that_takes_no_more_is_heard_to_its_end() {
    let mut stage = Stage::new(&[1]);
    stage.client_says(b"a long request");
    stage.backend_answers_and_hangs_up(b"too long");
    stage.client_says(b", and more of it");
    assert_eq!(stage.ended, Some(Ending::BackendReset));
    assert_eq!(stage.client_hears(), b"too long");
    assert!(!stage.client_was_reset());
}

#[test]
fn a_slow_endpoint_gets_what_waited_for_it() {
    let mut stage = Stage::new(&[2]);
    stage.client_says(b"hello");
    assert_eq!(stage.ended, None);
    stage.backend_answers();
    assert_eq!(stage.backend_hears(), b"hello");
}

#[test]
fn another_endpoint_is_asked_where_one_refuses() {
    for endpoints in [[3, 1], [5, 1]] {
        for _ in 0..20 {
            let mut stage = Stage::new(&endpoints);
            stage.client_says(b"hello");
            if stage.dialed().last() == Some(&(5, true)) {
                stage.backend_resets();
            }
            assert_eq!(stage.dialed().last(), Some(&(1, true)));
            assert_eq!(stage.backend_hears(), b"hello");
            assert_eq!(stage.session.up.bytes, 5);
        }
    }
}

#[test]
fn another_endpoint_is_asked_where_one_keeps_silent() {
    for _ in 0..20 {
        let mut stage = Stage::new(&[4, 1]);
        stage.client_says(b"hello");
        if stage.dialed().len() == 1 && stage.dialed()[0].0 == 4 {
            stage.pass(Duration::from_secs(2));
        }
        assert_eq!(stage.dialed().last(), Some(&(1, true)));
        assert_eq!(stage.backend_hears(), b"hello");
    }
}

#[test]
fn when_none_is_left_it_ends() {
    let mut stage = Stage::new(&[3]);
    stage.client_says(b"hello");
    assert_eq!(stage.ended, Some(Ending::ConnectFailed));

    let mut stage = Stage::new(&[4]);
    stage.client_says(b"hello");
    stage.pass(Duration::from_secs(2));
    assert_eq!((stage.ended, stage.dialed().len()), (None, 1));
    stage.pass(Duration::from_secs(4));
    assert_eq!(stage.ended, Some(Ending::ConnectTimeout));

    let mut stage = Stage::new(&[]);
    stage.client_says(b"hello");
    assert_eq!(stage.ended, Some(Ending::Refused(Reason::NoEndpoints)));
}

#[test]
fn an_endpoint_that_never_answers_is_a_failure() {
    let mut stage = Stage::new(&[4]);
    stage.client_says(b"hello");
    stage.pass(Duration::from_secs(6));
    assert_eq!(stage.ended, Some(Ending::ConnectTimeout));
    assert!(!stage.session.is_relaying());
    assert_eq!(stage.endpoints_seen(), (0, 1));
}

#[test]
fn a_client_that_resets_while_its_endpoint_is_asked_is_noticed() {
    let mut stage = Stage::new(&[4]);
    stage.client_says(b"hello");
    stage.client_resets();
    assert_eq!(stage.ended, Some(Ending::ClientReset));
    assert_eq!(stage.endpoints_seen(), (0, 0), "the endpoint is not to blame");

    // One that has only ended its half waits for an answer.
    let mut stage = Stage::new(&[4]);
    stage.client_says_and_ends(b"request");
    assert_eq!(stage.ended, None);
    stage.backend_answers();
    assert_eq!(stage.backend_hears(), b"request");
}

#[test]
fn what_drains_has_its_time() {
    let mut stage = Stage::new(&[1]);
    stage.client_says(b"x");
    stage.session.drain = Some((Tick::at(Duration::from_secs(5)), Ending::Drained));
    stage.pass(Duration::from_secs(4));
    stage.backend_says(b"y");
    assert_eq!(stage.ended, None);
    stage.pass(Duration::from_secs(1));
    assert_eq!(stage.ended, Some(Ending::Drained));
}

#[test]
fn a_busy_connection_lives_no_longer_than_any_may() {
    let mut stage = Stage::new(&[1]);
    stage.bounds.lifetime = Some(Duration::from_secs(10));
    for _ in 0..10 {
        stage.client_says(b"x");
        assert_eq!(stage.backend_hears(), b"x");
        assert_eq!(stage.ended, None);
        stage.pass(Duration::from_secs(1));
    }
    stage.pass(Duration::from_secs(1));
    assert_eq!(stage.ended, Some(Ending::LifetimeOver));
}

#[test]
fn quiet_connections_end_in_their_time() {
    let mut stage = Stage::new(&[1]);
    stage.client_says(b"x");
    stage.pass(Duration::from_secs(3000));
    stage.backend_says(b"y");
    stage.pass(Duration::from_secs(3000));
    assert_eq!(stage.ended, None);
    stage.pass(Duration::from_secs(700));
    assert_eq!(stage.ended, Some(Ending::IdleTimeout));

    let mut stage = Stage::new(&[1]);
    stage.client_says(b"x");
    stage.client_ends();
    stage.pass(Duration::from_secs(299));
    assert_eq!(stage.ended, None);
    stage.pass(Duration::from_secs(2));
    assert_eq!(stage.ended, Some(Ending::HalfOpenTimeout));
}

#[test]
fn a_peer_that_takes_nothing_holds_its_sender_up() {
    let mut stage = Stage::new(&[1]);
    stage.client_says(b"x");
    let all = vec![7; 5 * ROOM];
    let taken = stage.backend_says_what_fits(&all);
    assert!(taken <= 3 * ROOM, "{taken} bytes wait for a client that takes none");
}

#[derive(Clone, Debug)]
enum Act {
    ClientSays(usize),
    BackendSays(usize),
    ClientTakes(usize),
    BackendTakes(usize),
    ClientEnds,
    BackendEnds,
}

fn act() -> impl Strategy<Value = Act> {
    let some = || 1..2 * ROOM;
    prop_oneof![
        6 => some().prop_map(Act::ClientSays),
        6 => some().prop_map(Act::BackendSays),
        6 => some().prop_map(Act::ClientTakes),
        6 => some().prop_map(Act::BackendTakes),
        1 => Just(Act::ClientEnds),
        1 => Just(Act::BackendEnds),
    ]
}

proptest! {
    /// Whatever is said comes through once, in order, and then its end, however peers and poller take turns.
    #[test]
    fn everything_that_is_said_is_heard(slow in any::<bool>(), acts in prop::collection::vec(act(), 1..60)) {
        let mut stage = Stage::new(if slow { &[2] } else { &[1] });
        stage.look();
        stage.backend_answers();
        for act in acts {
            match act {
                Act::ClientSays(count) => stage.client_says_numbered(count),
                Act::BackendSays(count) => stage.backend_says_numbered(count),
                Act::ClientTakes(count) => stage.client_takes(count),
                Act::BackendTakes(count) => stage.backend_takes(count),
                Act::ClientEnds => stage.client_ends(),
                Act::BackendEnds => stage.backend_ends(),
            }
        }
        stage.client_ends();
        stage.backend_ends();
        for _ in 0..400 {
            stage.client_takes(ROOM);
            stage.backend_takes(ROOM);
        }
        stage.assert_all_heard();
        prop_assert_eq!(stage.ended, Some(Ending::Done));
    }
}
