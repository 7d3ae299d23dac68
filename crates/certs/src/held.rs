//! A certificate that there is, and when it is to be renewed.

use serde::{Deserialize, Serialize};
use tidegate_plan::{Hostname, ObjectName};

use crate::hash::{below, hash};
use crate::{HOUR, Issuer, Seconds};

/// Certificates begin a little in the past for clocks that are behind.
const SKEW: Seconds = HOUR;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// Where it is.
    pub secret: ObjectName,
    /// The listener's Secret for which it was made: the same, or the one that had no room.
    pub target: ObjectName,
    pub issuer: Issuer,
    pub names: Vec<Hostname>,
    pub not_before: Seconds,
    pub not_after: Seconds,
    /// In hexadecimal.
    pub serial: String,
    /// When the CA would have it renewed; the ledger keeps it.
    #[serde(skip)]
    pub suggestion: Option<Suggestion>,
    /// Whether the key belongs to it and the chain can be read.
    pub usable: bool,
}

/// What the time of a renewal goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Timing {
    /// Two thirds of its life.
    Age,
    /// What the CA says.
    Ari,
}

/// A window of ACME's renewal information (RFC 9773).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    pub start: Seconds,
    pub end: Seconds,
    /// When to ask again.
    pub look: Seconds,
}

impl Held {
    /// Whether it can be shown to clients at this time. What a CA with a clock of its own made has begun, whatever ours
    /// says: one that is asked for in its place would begin later still.
    #[must_use]
    pub const fn is_good(&self, now: Seconds) -> bool {
        let has_begun = self.issuer.is_acme() || self.not_before <= now + SKEW;
        self.usable && now < self.not_after && has_begun
    }

    pub(crate) const fn life(&self) -> Seconds {
        let life = self.not_after - self.not_before;
        if life > 0 { life } else { 0 }
    }

    #[must_use]
    pub fn covers(&self, name: &Hostname) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// When to ask for the next one: at a time of the CA's window, or at two thirds of its life, each certificate a
    /// little earlier than that by a measure of its own, so that those that were made together are not renewed
    /// together.
    #[must_use]
    pub fn renewal(&self) -> (Seconds, Timing) {
        let life = self.life();
        let chance = hash(&[&self.serial, &self.secret.namespace, &self.secret.name]);
        let by_age = self.not_before + life / 3 * 2 - below(chance, life / 20);
        match self.suggestion {
            // A window that ends too late would leave no time to try again.
            Some(Suggestion { start, end, .. }) if start <= end && end < self.not_after - life / 20 => {
                (start + below(chance, end - start), Timing::Ari)
            }
            Some(_) | None => (by_age, Timing::Age),
        }
    }

    #[must_use]
    pub fn renew_at(&self) -> Seconds {
        self.renewal().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DAY;

    fn held(suggestion: Option<Suggestion>) -> Held {
        Held {
            secret: ObjectName::new("infra", "tls"),
            target: ObjectName::new("infra", "tls"),
            issuer: Issuer::acme(),
            names: vec![Hostname::parse("a.example.com").unwrap()],
            not_before: 0,
            not_after: 90 * DAY,
            serial: "01".to_owned(),
            suggestion,
            usable: true,
        }
    }

    #[test]
    fn it_is_renewed_shortly_before_two_thirds_of_its_life() {
        let at = held(None).renew_at();
        assert!((60 * DAY - 90 * DAY / 20..=60 * DAY).contains(&at), "{at}");
        let all: std::collections::BTreeSet<Seconds> =
            (0..50).map(|n| Held { serial: n.to_string(), ..held(None) }.renew_at()).collect();
        assert!(all.len() > 40, "spread over {} times", all.len());
    }

    #[test]
    fn the_window_of_the_ca_goes_first() {
        let window = |start, end| held(Some(Suggestion { start, end, look: 0 })).renew_at();
        assert!((10 * DAY..12 * DAY).contains(&window(10 * DAY, 12 * DAY)));
        assert_eq!(window(-DAY, -DAY), -DAY, "a revoked one is renewed at once");
        let timing = |start, end| held(Some(Suggestion { start, end, look: 0 })).renewal().1;
        assert_eq!((timing(10 * DAY, 12 * DAY), timing(89 * DAY, 95 * DAY)), (Timing::Ari, Timing::Age));
        let too_late = window(89 * DAY, 95 * DAY);
        assert_eq!(too_late, held(None).renew_at());
        assert_eq!(window(12 * DAY, 10 * DAY), held(None).renew_at());
    }

    #[test]
    fn what_is_not_valid_yet_is_not_good_by_the_clock_that_made_it() {
        let later = Held { not_before: 10 * DAY, not_after: 20 * DAY, ..held(None) };
        assert!(later.is_good(DAY) && !later.is_good(20 * DAY), "the clock of a CA is right");
        let later = Held { issuer: Issuer::Embedded, ..later };
        assert!(!later.is_good(DAY) && later.is_good(10 * DAY - HOUR) && !later.is_good(20 * DAY));
        assert!(!Held { usable: false, ..held(None) }.is_good(DAY));
    }
}
