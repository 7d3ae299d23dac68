//! What becomes of traffic that a group of backends is given, before anything is known of endpoints.

use crate::{Group, Reason, Target, WeightedBackend};

/// What a group does with its traffic as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All of it goes to backends that can be had.
    Served,
    /// Some shares fail, because their backends are invalid.
    Partly,
    /// All of it fails, for this reason.
    Failed(Reason),
}

impl Group {
    /// The sum of all weights, the invalid backends' too: they keep their share and fail it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|backend| u64::from(backend.weight)).sum()
    }

    #[must_use]
    pub fn fate(&self) -> Fate {
        if self.0.is_empty() {
            return Fate::Failed(Reason::NoBackends);
        }
        let weighted: Vec<_> = self.0.iter().filter(|backend| backend.weight > 0).collect();
        let failures: Vec<_> = weighted.iter().filter_map(|backend| backend.failure()).collect();
        match failures.first() {
            _ if weighted.is_empty() => Fate::Failed(Reason::NoWeight),
            None => Fate::Served,
            Some(reason) if failures.len() == weighted.len() => Fate::Failed(*reason),
            Some(_) => Fate::Partly,
        }
    }
}

impl WeightedBackend {
    /// In percent of the group's [`total`](Group::total); nothing where no backend has weight.
    #[must_use]
    pub fn percent(&self, total: u64) -> f64 {
        if total == 0 { 0.0 } else { f64::from(self.weight) * 100.0 / total as f64 }
    }

    /// Why its share fails.
    #[must_use]
    pub const fn failure(&self) -> Option<Reason> {
        match self.target {
            Target::Backend(_) => None,
            Target::Invalid(reason) => Some(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendId, BackendKind, ObjectName, Transport};

    fn group(backends: &[(u32, Option<Reason>)]) -> Group {
        let target = |invalid: Option<Reason>| {
            invalid.map_or_else(
                || {
                    let object = ObjectName::new("default", "web");
                    Target::Backend(BackendId {
                        kind: BackendKind::Service,
                        object,
                        port: 80,
                        transport: Transport::Tcp,
                    })
                },
                Target::Invalid,
            )
        };
        let backend =
            |&(weight, invalid)| WeightedBackend { weight, target: target(invalid), filters: vec![] };
        Group(backends.iter().map(backend).collect())
    }

    #[test]
    fn the_fate_of_a_group() {
        let bad = Some(Reason::BackendNotFound);
        for (backends, fate) in [
            (&[][..], Fate::Failed(Reason::NoBackends)),
            (&[(0, None), (0, None)], Fate::Failed(Reason::NoWeight)),
            (&[(1, None), (3, None)], Fate::Served),
            (&[(1, None), (3, bad)], Fate::Partly),
            (&[(1, bad), (3, None)], Fate::Partly),
            (&[(1, bad), (3, Some(Reason::NoEndpoints))], Fate::Failed(Reason::BackendNotFound)),
            (&[(1, None), (0, bad)], Fate::Served),
            (&[(0, None), (1, bad)], Fate::Failed(Reason::BackendNotFound)),
        ] {
            assert_eq!(group(backends).fate(), fate, "{backends:?}");
        }
    }

    #[test]
    fn an_invalid_backend_keeps_its_share() {
        let group = group(&[(1, None), (3, Some(Reason::BackendNotFound))]);
        let percents: Vec<_> = group.0.iter().map(|backend| backend.percent(group.total())).collect();
        assert_eq!(percents, [25.0, 75.0]);
    }
}
