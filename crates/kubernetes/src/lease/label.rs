//! When the label that leads data planes to the leader is to be written. A request that nobody answered may still be
//! carried out, by an API server that hung or on behalf of another replica: what the Pod says then is not known.

use std::time::{Duration, Instant};

/// How long what was written is relied on.
const RELIED_ON: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Label {
    /// What the label says, and since when that is known.
    known: Option<(bool, Instant)>,
}

impl Label {
    pub(super) fn is_due(&self, leads: bool, now: Instant) -> bool {
        self.known.is_none_or(|(said, at)| said != leads || now.duration_since(at) >= RELIED_ON)
    }

    /// A request is on its way.
    pub(super) fn asked(&mut self) {
        self.known = None;
    }

    pub(super) fn wrote(&mut self, leads: bool, now: Instant) {
        self.known = Some((leads, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server hangs, the leader steps down, and its request to say so is carried out after it leads again.
    #[test]
    fn a_request_without_an_answer_is_not_relied_on() {
        let now = Instant::now();
        let mut label = Label::default();
        assert!(label.is_due(true, now) && label.is_due(false, now));
        label.asked();
        label.wrote(true, now);
        assert!(!label.is_due(true, now) && label.is_due(false, now));
        label.asked();
        assert!(label.is_due(true, now) && label.is_due(false, now));
    }

    #[test]
    fn what_was_written_is_written_again_after_a_while() {
        let now = Instant::now();
        let mut label = Label::default();
        label.wrote(true, now);
        assert!(!label.is_due(true, now + RELIED_ON / 2));
        assert!(label.is_due(true, now + RELIED_ON));
    }
}
