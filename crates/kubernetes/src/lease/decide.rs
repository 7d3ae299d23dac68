//! Who leads, decided from what the Lease says and a clock of our own.
//!
//! Times in the Lease are other machines' and are not compared with ours: a holder is gone when its record has not
//! changed for as long as it promised to renew it, counted from when we saw it change.

use std::time::{Duration, Instant};

/// How long a holder may be silent before others take over.
pub(crate) const DURATION: Duration = Duration::from_secs(15);
/// How long a leader goes on without having been able to renew: less than what others wait.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// How often a Lease is looked at, and renewed.
pub(crate) const PERIOD: Duration = Duration::from_secs(2);

/// What a Lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Empty: nobody holds it.
    pub(crate) holder: String,
    pub(crate) duration: Duration,
    /// As written, to see whether it changes.
    pub(crate) renewed: String,
    pub(crate) transitions: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is no Lease yet.
    Create,
    /// It is ours, or nobody's, or has run out.
    Take,
    Renew,
    Wait,
}

/// What one candidate has seen so far.
#[derive(Debug)]
pub(crate) struct Candidate {
    identity: String,
    seen: Option<(Record, Instant)>,
    renewed: Option<Instant>,
}

impl Candidate {
    pub(crate) fn new(identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), seen: None, renewed: None }
    }

    /// What to do about a Lease that was read at `now`.
    pub(crate) fn decide(&mut self, record: Option<&Record>, now: Instant) -> Step {
        let Some(record) = record else { return Step::Create };
        if self.seen.as_ref().is_none_or(|(seen, _)| seen != record) {
            self.seen = Some((record.clone(), now));
        }
        if record.holder == self.identity {
            return if self.leads(now) { Step::Renew } else { Step::Take };
        }
        self.renewed = None;
        let since = self.seen.as_ref().map_or(now, |(_, since)| *since);
        if record.holder.is_empty() || now.duration_since(since) >= record.duration {
            Step::Take
        } else {
            Step::Wait
        }
    }

    /// The API server took what we wrote in a request that began at `began`.
    pub(crate) fn wrote(&mut self, began: Instant) {
        self.renewed = Some(began);
    }

    pub(crate) fn lost(&mut self) {
        self.renewed = None;
    }

    /// Whether this candidate may act as the leader: others cannot have taken over yet.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        self.renewed.is_some_and(|renewed| now.duration_since(renewed) < DEADLINE)
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, renewed: &str) -> Record {
        Record { holder: holder.to_owned(), duration: DURATION, renewed: renewed.to_owned(), transitions: 1 }
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_that_is_not_there_is_made() {
        assert_eq!(Candidate::new("a").decide(None, Instant::now()), Step::Create);
    }

    #[test]
    fn a_holder_that_renews_is_left_alone_whatever_its_clock_says() {
        let start = Instant::now();
        let mut candidate = Candidate::new("a");
        for (seconds, renewed) in [(0, "1970"), (10, "2099"), (20, "1980"), (34, "1981")] {
            assert_eq!(candidate.decide(Some(&record("b", renewed)), after(start, seconds)), Step::Wait);
        }
        assert_eq!(candidate.decide(Some(&record("b", "1981")), after(start, 48)), Step::Wait);
        assert_eq!(candidate.decide(Some(&record("b", "1981")), after(start, 49)), Step::Take);
    }

    #[test]
    fn a_lease_that_was_let_go_is_taken_at_once() {
        assert_eq!(Candidate::new("a").decide(Some(&record("", "x")), Instant::now()), Step::Take);
    }

    #[test]
    fn a_leader_renews_and_stops_before_others_begin() {
        let start = Instant::now();
        let mut candidate = Candidate::new("a");
        assert!(!candidate.leads(start));
        candidate.wrote(start);
        assert_eq!(candidate.decide(Some(&record("a", "x")), after(start, 2)), Step::Renew);
        assert!(candidate.leads(after(start, 9)));
        assert!(!candidate.leads(after(start, 10)), "renewing did not work for too long");
        assert!(DEADLINE < DURATION);
    }

    #[test]
    fn a_replica_that_comes_back_under_its_name_takes_its_lease_again() {
        let start = Instant::now();
        let mut candidate = Candidate::new("a");
        assert_eq!(candidate.decide(Some(&record("a", "x")), start), Step::Take);
        assert!(!candidate.leads(start), "not before it is written");
    }

    #[test]
    fn who_is_deposed_leads_no_more() {
        let start = Instant::now();
        let mut candidate = Candidate::new("a");
        candidate.wrote(start);
        assert_eq!(candidate.decide(Some(&record("b", "x")), after(start, 1)), Step::Wait);
        assert!(!candidate.leads(after(start, 1)));
    }
}
