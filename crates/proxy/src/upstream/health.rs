//! Whether an endpoint is worth a connection, judged by how the last ones went. It knows no socket and no clock;
//! times are milliseconds since a beginning that the caller keeps.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So many connects that fail one after the other put an endpoint aside.
const FAILURES: u8 = 3;
/// How long for: doubled each time that the connection which tries it afterwards fails too.
const FIRST_PAUSE: u64 = 1_000;
const LONGEST_PAUSE: u64 = 30_000;
/// A trial that nobody reports on, because its client went away, is over after this.
const TRIAL: u64 = 10_000;

/// One word, so that every change is one compare-and-swap; all zero while nothing is wrong.
#[derive(Debug, Default)]
pub(crate) struct Health(AtomicU64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    /// It was set aside and its time is over: one connection may try it, after [`Health::claim`].
    Due,
    Ejected,
}

/// The word in its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// Set aside until then, or, on trial, the trial counts until then.
    until: u64,
    on_trial: bool,
    /// How often in a row it was set aside; 0: it is not.
    ejections: u8,
    failures: u8,
}

impl Health {
    #[inline]
    pub(crate) fn is_flawless(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    pub(crate) fn verdict(&self, now: u64) -> Verdict {
        State::of(self.0.load(Relaxed)).verdict(now)
    }

    /// Takes the one trial that is due. Of several that ask at a time, one is told yes.
    pub(crate) fn claim(&self, now: u64) -> bool {
        let word = self.0.load(Relaxed);
        let state = State::of(word);
        if state.verdict(now) != Verdict::Due {
            return false;
        }
        let claimed = State { until: now + TRIAL, on_trial: true, ..state };
        self.0.compare_exchange(word, claimed.word(), Relaxed, Relaxed).is_ok()
    }

    pub(crate) fn connected(&self) {
        if !self.is_flawless() {
            self.0.store(0, Relaxed);
        }
    }

    pub(crate) fn failed(&self, now: u64) {
        let changed = |word| Some(State::of(word).failed(now).word());
        // The closure never says no.
        let _ = self.0.fetch_update(Relaxed, Relaxed, changed);
    }
}

impl State {
    const fn of(word: u64) -> Self {
        Self {
            until: word >> 16,
            on_trial: word & 0x8000 != 0,
            ejections: (word >> 8) as u8 & 0x7f,
            failures: word as u8,
        }
    }

    fn word(self) -> u64 {
        self.until << 16
            | u64::from(self.on_trial) << 15
            | u64::from(self.ejections & 0x7f) << 8
            | u64::from(self.failures)
    }

    fn verdict(self, now: u64) -> Verdict {
        match self.ejections {
            0 => Verdict::Good,
            _ if now < self.until => Verdict::Ejected,
            _ => Verdict::Due,
        }
    }

    fn failed(self, now: u64) -> Self {
        if self.ejections == 0 && self.failures + 1 < FAILURES {
            return Self { failures: self.failures + 1, ..self };
        }
        // Begun before it was set aside: it tells nothing new.
        if self.verdict(now) == Verdict::Ejected && !self.on_trial {
            return self;
        }
        let pause = (FIRST_PAUSE << self.ejections.min(5)).min(LONGEST_PAUSE);
        let ejections = (self.ejections + 1).min(0x7f);
        Self { until: now + pause, on_trial: false, ejections, failures: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_a_row_eject_and_one_success_forgets_them() {
        let health = Health::default();
        for _ in 0..10 {
            health.failed(0);
            health.failed(0);
            assert_eq!(health.verdict(0), Verdict::Good);
            health.connected();
            assert!(health.is_flawless());
        }
        (0..3).for_each(|_| health.failed(5));
        assert_eq!(health.verdict(5), Verdict::Ejected);
        assert_eq!(health.verdict(1_004), Verdict::Ejected);
        assert_eq!(health.verdict(1_005), Verdict::Due);
    }

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let health = Health::default();
        (0..3).for_each(|_| health.failed(0));
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 30, 30, 30] {
            assert_eq!(health.verdict(now + pause * 1_000 - 1), Verdict::Ejected, "{pause}");
            now += pause * 1_000;
            assert!(health.claim(now), "{pause}");
            health.failed(now);
        }
    }

    #[test]
    fn many_trials_that_fail_do_not_wrap_around() {
        let health = Health::default();
        (0..3).for_each(|_| health.failed(0));
        for round in 1..1_000 {
            let now = round * 30_000;
            assert!(health.claim(now));
            health.failed(now);
            assert_eq!(health.verdict(now + 29_999 - 28_999 * u64::from(round < 5)), Verdict::Ejected);
        }
        health.connected();
        assert!(health.is_flawless());
    }

    #[test]
    fn one_trial_at_a_time() {
        let health = Health::default();
        assert!(!health.claim(0), "nothing to try");
        (0..3).for_each(|_| health.failed(0));
        assert!(!health.claim(999));
        assert!(health.claim(1_000));
        assert!(!health.claim(1_001));
        assert_eq!(health.verdict(1_001), Verdict::Ejected);
        assert!(health.claim(1_000 + TRIAL), "nobody told how the first one went");
        health.connected();
        assert_eq!(health.verdict(1_001 + TRIAL), Verdict::Good);
    }

    #[test]
    fn of_many_threads_one_gets_the_trial() {
        for _ in 0..200 {
            let health = Health::default();
            (0..3).for_each(|_| health.failed(0));
            let claims = std::thread::scope(|scope| {
                let ask = || scope.spawn(|| usize::from(health.claim(1_000)));
                let threads: Vec<_> = (0..4).map(|_| ask()).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
            });
            assert_eq!(claims, 1);
        }
    }

    #[test]
    fn failures_that_began_before_the_ejection_do_not_prolong_it() {
        let health = Health::default();
        (0..100).for_each(|_| health.failed(0));
        assert_eq!(health.verdict(1_000), Verdict::Due);
        // Where all endpoints are ejected they are used all the same, without a claim.
        health.failed(1_500);
        assert_eq!(health.verdict(3_499), Verdict::Ejected);
        assert_eq!(health.verdict(3_500), Verdict::Due);
    }

    #[test]
    fn a_state_survives_the_word() {
        let state = State { until: (1 << 48) - 1, on_trial: true, ejections: 0x7f, failures: 255 };
        assert_eq!(State::of(state.word()), state);
        assert_eq!(State::default().word(), 0);
    }
}
