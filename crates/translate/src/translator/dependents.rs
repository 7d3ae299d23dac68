//! Who looked at what.

use std::collections::{BTreeSet, HashMap};

use tidegate_api::{Kind, ObjectKey};
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
    /// Secrets and ConfigMaps among what was looked at, there or not.
    data: BTreeSet<ObjectKey>,
}

impl Dependents {
    /// Notes what a part looked at, in place of what it looked at before.
    pub(super) fn set(&mut self, part: &Part, dependencies: BTreeSet<Dependency>) {
        if self.looked_at.get(part) == Some(&dependencies) {
            return;
        }
        self.forget(part);
        for dependency in &dependencies {
            self.data.extend(data_object(dependency));
            self.looked_at_by.entry(dependency.clone()).or_default().insert(part.clone());
        }
        self.looked_at.insert(part.clone(), dependencies);
    }

    pub(super) fn forget(&mut self, part: &Part) {
        for dependency in self.looked_at.remove(part).into_iter().flatten() {
            if let Some(parts) = self.looked_at_by.get_mut(&dependency) {
                parts.remove(part);
                if parts.is_empty() {
                    if let Some(key) = data_object(&dependency) {
                        self.data.remove(&key);
                    }
                    self.looked_at_by.remove(&dependency);
                }
            }
        }
    }

    pub(super) const fn data(&self) -> &BTreeSet<ObjectKey> {
        &self.data
    }

    pub(super) fn of(&self, dependency: &Dependency) -> impl Iterator<Item = &Part> {
        self.looked_at_by.get(dependency).into_iter().flatten()
    }
}

fn data_object(dependency: &Dependency) -> Option<ObjectKey> {
    match dependency {
        Dependency::Object(key) if matches!(key.kind, Kind::Secret | Kind::ConfigMap) => Some(key.clone()),
        _ => None,
    }
}
