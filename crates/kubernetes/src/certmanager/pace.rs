//! How often the names of a Certificate are changed: each time cert-manager has a certificate made anew, which a CA counts.
//! Budgets are cert-manager's CA's own; this is so that nobody spends them by writing a route over and over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate_plan::ObjectName;

/// So many changes go at once, for routes that come one after the other.
const AT_ONCE: u32 = 6;
/// Then one in this time.
const EACH: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct Paces {
    /// Changes that are still counted, and since when.
    counted: BTreeMap<ObjectName, (u32, Instant)>,
}

impl Paces {
    /// When the names of a Certificate may be changed next; `None`: now.
    pub(super) fn until(&self, name: &ObjectName, now: Instant) -> Option<Instant> {
        let (count, since) = self.counted.get(name)?;
        let passed = u32::try_from(now.duration_since(*since).as_secs() / EACH.as_secs()).unwrap_or(u32::MAX);
        let over = (count + 1).saturating_sub(AT_ONCE);
        (over > passed).then(|| *since + EACH * over)
    }

    pub(super) fn changed(&mut self, name: &ObjectName, now: Instant) {
        let (count, since) = self.counted.get(name).copied().unwrap_or((0, now));
        let passed = u32::try_from(now.duration_since(since).as_secs() / EACH.as_secs()).unwrap_or(u32::MAX);
        let left = count.saturating_sub(passed);
        let since = if left == 0 { now } else { since + EACH * passed };
        self.counted.insert(name.clone(), (left + 1, since));
        self.counted.retain(|_, (count, since)| now.duration_since(*since) < EACH * *count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_changes_go_at_once_and_then_one_in_a_while() {
        let (mut paces, name, start) = (Paces::default(), ObjectName::new("infra", "tls"), Instant::now());
        let mut now = start;
        let mut changes = 0;
        // Somebody changes a hostname every three seconds, for a day.
        while now < start + Duration::from_secs(86_400) {
            if paces.until(&name, now).is_none() {
                paces.changed(&name, now);
                changes += 1;
            }
            now += Duration::from_secs(3);
        }
        assert!((140..=151).contains(&changes), "{changes} changes");
        // The day's end is when the next one may go.
        assert_eq!(paces.until(&name, now), None);
        paces.changed(&name, now);
        let again = paces.until(&name, now).unwrap();
        assert!(again > now && again <= now + EACH, "{:?}", again - now);
        assert_eq!(paces.until(&name, again), None);
        let later = now + EACH * 10;
        for number in 0..AT_ONCE {
            assert_eq!(paces.until(&name, later), None, "{number}");
            paces.changed(&name, later);
        }
        assert!(paces.until(&name, later).is_some());
        assert_eq!(paces.until(&ObjectName::new("infra", "other"), later), None, "nobody else waits");
    }
}
