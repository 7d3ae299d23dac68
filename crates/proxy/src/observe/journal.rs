//! The last refused connections with the steps of the decision: the answer to "why was I cut off?". Bounded in
//! number, and in how many a second are looked at closely, so that a flood of them costs no more than a count.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};
use tidegate_plan::{ListenerId, Step};

use crate::Ending;

/// How many are kept.
const KEPT: usize = 1_000;
/// How many are kept of one second.
const A_SECOND: u64 = 100;

#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The second, and in the lower bits how many were let in during it.
    gate: AtomicU64,
    passed_over: AtomicU64,
    /// Taken for a hundred entries a second at most.
    entries: Mutex<VecDeque<Refused>>,
}

/// A connection that was not carried.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    #[serde(serialize_with = "super::time::serialize")]
    pub at: SystemTime,
    pub client: SocketAddr,
    pub local: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<ListenerId>,
    #[serde(rename = "reason", serialize_with = "name")]
    pub ending: Ending,
    /// What more there is to say: an error's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How the plan came to say no; empty where it was not the plan.
    pub steps: Vec<Step>,
}

/// What the journal holds, newest first.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recent {
    /// Refused since the start and not kept, because too many came at a time.
    pub passed_over: u64,
    pub refused: Vec<Refused>,
}

impl Journal {
    /// Whether a refusal of this moment is to be [kept](Self::keep). Asked first, because the steps of a decision are
    /// made only for those that are.
    pub(crate) fn wants(&self, now: SystemTime) -> bool {
        const COUNT: u64 = 0xff;
        let second = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let enter = |gate: u64| match gate >> 8 == second {
            true if gate & COUNT >= A_SECOND => None,
            true => Some(gate + 1),
            false => Some(second << 8 | 1),
        };
        let wants = self.gate.fetch_update(Relaxed, Relaxed, enter).is_ok();
        if !wants {
            self.passed_over.fetch_add(1, Relaxed);
        }
        wants
    }

    pub(crate) fn keep(&self, refused: Refused) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() == KEPT {
            entries.pop_front();
        }
        entries.push_back(refused);
    }

    pub(crate) fn recent(&self) -> Recent {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        Recent {
            passed_over: self.passed_over.load(Relaxed),
            refused: entries.iter().rev().cloned().collect(),
        }
    }
}

fn name<S: Serializer>(ending: &Ending, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(ending.as_str())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_plan::{Reason, Transport};

    use super::*;

    fn refused(port: u16) -> Refused {
        let local: SocketAddr = "127.0.0.1:443".parse().unwrap();
        Refused {
            at: UNIX_EPOCH + Duration::from_millis(1_794_800_475_042),
            client: SocketAddr::new(local.ip(), port),
            local,
            sni: Some("a\n\"b".to_owned()),
            listener: None,
            ending: Ending::Refused(Reason::NoListener),
            detail: None,
            steps: vec![
                Step::Socket { address: local, transport: Transport::Tcp, listeners: vec![], more: 0 },
                Step::Name {
                    of: tidegate_plan::NameOf::ServerName,
                    written: Some("a\n\"b".to_owned()),
                    read: None,
                },
                Step::Refused { reason: Reason::NoListener },
            ],
        }
    }

    #[test]
    fn the_last_thousand_are_kept_newest_first() {
        let journal = Journal::default();
        (1..=1_500).for_each(|port| journal.keep(refused(port)));
        let ports: Vec<u16> = journal.recent().refused.iter().map(|refused| refused.client.port()).collect();
        assert_eq!(ports, (501..=1_500).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_hundred_of_a_second_are_looked_at() {
        let journal = Journal::default();
        let start = UNIX_EPOCH + Duration::from_secs(1_794_800_475);
        for second in 0..3 {
            let at = |n: u64| start + Duration::from_secs(second) + Duration::from_micros(n);
            assert_eq!((0..10_000).filter(|&n| journal.wants(at(n))).count(), 100);
        }
        assert_eq!(journal.recent().passed_over, 3 * 9_900);
    }

    #[test]
    fn threads_share_the_hundred() {
        let journal = Journal::default();
        let now = UNIX_EPOCH + Duration::from_secs(1_794_800_475);
        let wanted: usize = std::thread::scope(|scope| {
            let ask = || (0..1_000).filter(|_| journal.wants(now)).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(wanted, 100);
        assert_eq!(journal.recent().passed_over, 3_900);
    }

    #[test]
    fn as_json_steps_look_like_those_of_explain() {
        let journal = Journal::default();
        journal.keep(refused(1));
        let json = serde_json::to_value(journal.recent()).unwrap();
        let expected = serde_json::json!({
            "passedOver": 0,
            "refused": [{
                "at": "2026-11-16T03:41:15.042Z",
                "client": "127.0.0.1:1",
                "local": "127.0.0.1:443",
                "sni": "a\n\"b",
                "reason": "no_listener",
                "steps": [
                    {
                        "step": "socket",
                        "address": "127.0.0.1:443",
                        "transport": "TCP",
                        "listeners": [],
                        "more": 0,
                    },
                    { "step": "name", "of": "serverName", "written": "a\n\"b", "read": null },
                    { "step": "refused", "reason": "no_listener" },
                ],
            }],
        });
        assert_eq!(json, expected);
    }
}
