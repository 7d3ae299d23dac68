//! Who looked at what.

use std::collections::{BTreeSet, HashMap};

use tidegate_plan::{BackendId, EndpointsId, ObjectName, RouteId};

use crate::lookup::Dependency;

/// A part of the translation that is made as a whole.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Part {
    Class(ObjectName),
    Gateway(ObjectName),
    Route(RouteId),
    Backend(BackendId),
    Endpoints(EndpointsId),
    TlsPolicy(ObjectName),
    TrafficPolicy(ObjectName),
    XBackend(ObjectName),
}

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

#[derive(Debug, Default)]
pub(super) struct Dependents {
    looked_at: Map<Part, BTreeSet<Dependency>>,
    looked_at_by: Map<Dependency, BTreeSet<Part>>,
}

impl Dependents {
    /// Notes what a part looked at, in place of what it looked at before.
    pub(super) fn set(&mut self, part: &Part, dependencies: BTreeSet<Dependency>) {
        if self.looked_at.get(part) == Some(&dependencies) {
            return;
        }
        self.forget(part);
        for dependency in &dependencies {
            self.looked_at_by.entry(dependency.clone()).or_default().insert(part.clone());
        }
        self.looked_at.insert(part.clone(), dependencies);
    }

    pub(super) fn forget(&mut self, part: &Part) {
        for dependency in self.looked_at.remove(part).into_iter().flatten() {
            if let Some(parts) = self.looked_at_by.get_mut(&dependency) {
                parts.remove(part);
                if parts.is_empty() {
                    self.looked_at_by.remove(&dependency);
                }
            }
        }
    }

    pub(super) fn of(&self, dependency: &Dependency) -> impl Iterator<Item = &Part> {
        self.looked_at_by.get(dependency).into_iter().flatten()
    }
}
