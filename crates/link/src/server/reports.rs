//! What data planes say of themselves, for whoever writes statuses. Of each only the newest is kept, so that a slow
//! reader finds no queue, however often sockets open and close.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_plan::Report;
use tokio::sync::Notify;

use crate::ProxyIdentity;

/// Something that is new about one data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is there, and this is how it is.
    Report(Report),
    /// It was sent a version and has not answered for so long.
    Silent { proxy: ProxyIdentity, version: u64, time: Duration },
    /// It follows no more: it ended, or cannot be reached.
    Gone(ProxyIdentity),
}

/// Where events are taken from. They end when the server has stopped and all have been taken.
#[derive(Debug)]
pub struct Reports(Arc<Inbox>);

impl Reports {
    pub(crate) fn new() -> (Self, Sender) {
        let inbox = Arc::new(Inbox::default());
        (Self(Arc::clone(&inbox)), Sender(Arc::new(Open(inbox))))
    }

    /// Waits for the next; losing this future loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let news = self.0.news.notified();
            {
                let mut state = self.0.lock();
                if let Some((_, event)) = state.events.pop_first() {
                    return Some(event);
                }
                if state.closed {
                    return None;
                }
            }
            news.await;
        }
    }
}

#[derive(Default)]
struct Inbox {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    events: BTreeMap<ProxyIdentity, Event>,
    closed: bool,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("events", &self.lock().events.len()).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Sender(Arc<Open>);

impl Sender {
    pub(crate) fn send(&self, of: &ProxyIdentity, event: Event) {
        self.0.0.lock().events.insert(of.clone(), event);
        self.0.0.news.notify_one();
    }
}

/// Dropped when nobody is left to say anything.
#[derive(Debug)]
struct Open(Arc<Inbox>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_plan::ObjectName;

    fn proxy(pod: &str) -> ProxyIdentity {
        ProxyIdentity { gateway: ObjectName::new("a", "b"), pod: pod.to_owned() }
    }

    #[tokio::test]
    async fn of_each_data_plane_the_newest_is_told() {
        let (mut reports, sender) = Reports::new();
        for version in 1..1000 {
            let event = Event::Silent { proxy: proxy("x"), version, time: Duration::ZERO };
            sender.send(&proxy("x"), event);
        }
        sender.send(&proxy("y"), Event::Gone(proxy("y")));
        let event = reports.next().await;
        assert_eq!(event, Some(Event::Silent { proxy: proxy("x"), version: 999, time: Duration::ZERO }));
        drop(sender);
        assert_eq!(reports.next().await, Some(Event::Gone(proxy("y"))));
        assert_eq!(reports.next().await, None);
    }
}
