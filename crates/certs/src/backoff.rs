//! How long to wait after something failed.

use serde::{Deserialize, Serialize};

use crate::hash::{below, hash};
use crate::{DAY, HOUR, Seconds};

/// The CA as a whole: it may be back soon, and one question finds out.
pub(crate) const ISSUER: Steps = Steps { first: 30, last: HOUR };

/// One name: a challenge that failed mostly fails for a reason that stays.
pub(crate) const NAME: Steps = Steps { first: 300, last: DAY };

/// A certificate of that life that is made again and again: the last wait leaves most of a life to renew in.
pub(crate) const fn again(life: Seconds) -> Steps {
    Steps { first: HOUR, last: life / 6 }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    first: Seconds,
    last: Seconds,
}

/// What failed, how often in a row, and how long to wait since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Setback {
    pub count: u32,
    pub since: Seconds,
    pub wait: Seconds,
    /// What the CA asked for.
    #[serde(default)]
    pub at_least: Seconds,
    pub message: String,
}

impl Setback {
    /// One more failure; `at_least` is what the CA asked for.
    pub(crate) fn after(
        before: Option<&Self>,
        steps: Steps,
        now: Seconds,
        at_least: Seconds,
        message: String,
        whose: &str,
    ) -> Self {
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        let doubled = steps.first.saturating_mul(1 << (count - 1).min(20)).min(steps.last);
        let jitter = below(hash(&[whose, &count.to_string()]), doubled / 5);
        Self { count, since: now, wait: doubled - jitter, at_least, message }
    }

    /// When to try again. A certificate in use that ends before long does not wait for the whole time.
    pub(crate) fn until(&self, expiry: Option<Seconds>) -> Seconds {
        let patience = expiry.map_or(Seconds::MAX, |expiry| ((expiry - self.since) / 4).max(900));
        self.since + self.wait.min(patience).max(self.at_least)
    }

    /// A clock that went back must not keep anybody waiting for the time it went back by.
    pub(crate) fn not_in_future(&mut self, now: Seconds) {
        self.since = self.since.min(now);
    }

    pub(crate) const fn is_forgotten(&self, now: Seconds) -> bool {
        now - self.since > 2 * self.wait + self.at_least + 2 * DAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_longer_up_to_a_bound() {
        let mut setback: Option<Setback> = None;
        let mut waits = Vec::new();
        for _ in 0..40 {
            let next = Setback::after(setback.as_ref(), NAME, 0, 0, String::new(), "a");
            waits.push(next.wait);
            setback = Some(next);
        }
        assert!((240..=300).contains(&waits[0]), "{waits:?}");
        assert!(waits[3] > waits[0] * 4 && waits.iter().all(|wait| *wait <= DAY));
        assert!(waits[39] >= DAY * 4 / 5);
    }

    #[test]
    fn what_the_ca_asks_for_is_waited_for() {
        assert_eq!(Setback::after(None, ISSUER, 0, 7 * DAY, String::new(), "a").until(None), 7 * DAY);
    }

    #[test]
    fn an_expiry_that_is_near_shortens_the_wait() {
        let long = Setback { count: 12, since: 0, wait: DAY, at_least: 0, message: String::new() };
        assert_eq!(long.until(None), DAY);
        assert_eq!(long.until(Some(8 * HOUR)), 2 * HOUR);
        assert_eq!(long.until(Some(60)), 900);
    }
}
