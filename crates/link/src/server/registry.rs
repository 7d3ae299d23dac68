//! Who follows at this moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

use crate::ProxyIdentity;

/// Of each data plane one stream counts, the newest: an older one is of a connection that nobody has missed yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry(Arc<Mutex<Streams>>);

#[derive(Debug, Default)]
struct Streams {
    of: BTreeMap<ProxyIdentity, Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    until: watch::Sender<Option<SystemTime>>,
}

/// A place among those that follow, for as long as this is held.
#[derive(Debug)]
pub(crate) struct Place {
    registry: Registry,
    identity: ProxyIdentity,
    number: u64,
    /// How long the data plane is known to be what it says; `None`: another stream of it has come.
    pub(crate) until: watch::Receiver<Option<SystemTime>>,
}

impl Registry {
    /// `None` where the Gateway has as many as it may have.
    pub(crate) fn enter(&self, identity: &ProxyIdentity, until: SystemTime, most: usize) -> Option<Place> {
        let mut streams = self.lock();
        let first = ProxyIdentity { gateway: identity.gateway.clone(), pod: String::new() };
        let others = streams.of.range(first..).take_while(|(other, _)| other.gateway == identity.gateway);
        if others.filter(|(other, _)| *other != identity).count() >= most {
            return None;
        }
        let number = streams.next;
        streams.next += 1;
        let (sender, until) = watch::channel(Some(until));
        if let Some(older) = streams.of.insert(identity.clone(), Entry { number, until: sender }) {
            older.until.send_replace(None);
        }
        Some(Place { registry: self.clone(), identity: identity.clone(), number, until })
    }

    /// The data plane has shown anew who it is.
    pub(crate) fn extend(&self, identity: &ProxyIdentity, until: SystemTime) {
        if let Some(entry) = self.lock().of.get(identity) {
            entry
                .until
                .send_modify(|before| *before = Some(before.map_or(until, |before| before.max(until))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Gives it back, and says whether it was still this stream's.
    pub(crate) fn leave(&self) -> bool {
        let mut streams = self.registry.lock();
        let own = streams.of.get(&self.identity).is_some_and(|entry| entry.number == self.number);
        if own {
            streams.of.remove(&self.identity);
        }
        own
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate_plan::ObjectName;

    fn proxy(gateway: &str, pod: &str) -> ProxyIdentity {
        ProxyIdentity { gateway: ObjectName::new("default", gateway), pod: pod.to_owned() }
    }

    #[test]
    fn the_newest_stream_of_a_data_plane_counts() {
        let (registry, now) = (Registry::default(), SystemTime::now());
        let old = registry.enter(&proxy("a", "x"), now, 1).unwrap();
        let new = registry.enter(&proxy("a", "x"), now, 1).unwrap();
        assert_eq!((*old.until.borrow(), *new.until.borrow()), (None, Some(now)));
        assert!(!old.leave());
        assert!(new.leave());
    }

    #[test]
    fn each_gateway_has_so_many() {
        let (registry, now) = (Registry::default(), SystemTime::now());
        let held = registry.enter(&proxy("a", "x"), now, 1).unwrap();
        assert!(registry.enter(&proxy("a", "y"), now, 1).is_none());
        assert!(registry.enter(&proxy("b", "y"), now, 1).is_some());
        drop(held);
        assert!(registry.enter(&proxy("a", "y"), now, 1).is_some());
    }

    #[test]
    fn who_enrols_again_may_stay() {
        let (registry, now) = (Registry::default(), SystemTime::now());
        let place = registry.enter(&proxy("a", "x"), now, 1).unwrap();
        let later = now + Duration::from_secs(60);
        registry.extend(&proxy("a", "x"), later);
        registry.extend(&proxy("a", "x"), now);
        assert_eq!(*place.until.borrow(), Some(later));
    }
}
