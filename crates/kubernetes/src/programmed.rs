//! `Programmed` and addresses: what the data planes of a Gateway say of themselves, put into its status.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tidegate_api::core::EndpointEntry;
use tidegate_api::status::{
    Condition, ConditionStatus, ConditionType, GatewayStatus, ListenerSetStatus, ListenerStatus, Reason,
    Status,
};
use tidegate_plan::{FragmentId, ListenerId, ObjectName, Report};

use crate::planes::Addresses;

/// What is known of the data planes of one Gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serving<'a> {
    pub(crate) gateway: &'a ObjectName,
    /// Of every data plane that is connected.
    pub(crate) reports: &'a BTreeMap<String, Report>,
    /// The version of the plan since which Gateway and listeners are as they are.
    pub(crate) needed: u64,
    /// By the Services in front of them.
    pub(crate) ready: &'a Ready,
    /// Why there is not all that shall be there for it.
    pub(crate) failure: Option<&'a str>,
    pub(crate) addresses: &'a Addresses,
    /// Whether the Gateway asks for addresses.
    pub(crate) asked_addresses: usize,
}

/// The data planes of a Gateway that get new connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pods: BTreeSet<String>,
    /// Of those that are no Pods; a Pod may have two.
    others: BTreeSet<IpAddr>,
}

impl Ready {
    pub(crate) fn of<'a>(endpoints: impl IntoIterator<Item = &'a EndpointEntry>) -> Self {
        let mut ready = Self::default();
        for endpoint in endpoints {
            match endpoint.pod() {
                Some(pod) => _ = ready.pods.insert(pod.to_owned()),
                None => ready.others.extend(endpoint.ip_addresses()),
            }
        }
        ready
    }

    pub(crate) fn count(&self) -> usize {
        self.pods.len() + self.others.len()
    }
}

/// What all data planes together say.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Served,
    /// Why not.
    Failed(Reason, String),
    /// They have not said yet; what was said before still holds.
    OnTheWay,
    Nobody(String),
}

impl Serving<'_> {
    /// The status of the Gateway with what translation left open filled in.
    pub(crate) fn gateway(&self, status: &GatewayStatus, before: Option<&Status>) -> GatewayStatus {
        let before = if let Some(Status::Gateway(before)) = before { Some(before) } else { None };
        let mut status = status.clone();
        let all = self.listeners(&mut status.listeners, None, before.map(|before| &before.listeners[..]));
        let state = self.with_address(all);
        fill(
            &mut status.conditions,
            &state,
            "the Gateway is served",
            before.map(|before| &before.conditions[..]),
        );
        status.addresses.clone_from(&self.addresses.found);
        if self.asked_addresses > 0 {
            let generation = status.conditions.first().map_or(0, |condition| condition.observed_generation);
            status.conditions.push(self.assigned(generation));
        }
        status
    }

    pub(crate) fn set(
        &self,
        name: &ObjectName,
        status: &ListenerSetStatus,
        before: Option<&Status>,
    ) -> ListenerSetStatus {
        let before = if let Some(Status::ListenerSet(before)) = before { Some(before) } else { None };
        let mut status = status.clone();
        let all =
            self.listeners(&mut status.listeners, Some(name), before.map(|before| &before.listeners[..]));
        fill(
            &mut status.conditions,
            &all,
            "the ListenerSet is served",
            before.map(|before| &before.conditions[..]),
        );
        status
    }

    /// Fills in the listeners of the Gateway, or of one of its ListenerSets, and tells how they are together.
    fn listeners(
        &self,
        statuses: &mut [ListenerStatus],
        set: Option<&ObjectName>,
        before: Option<&[ListenerStatus]>,
    ) -> State {
        let mut all = self.presence().unwrap_or(State::Served);
        for status in statuses {
            if !is_open(&status.conditions) {
                continue;
            }
            let id = ListenerId {
                gateway: self.gateway.clone(),
                listener_set: set.cloned(),
                name: status.name.clone(),
            };
            let state = self.listener(&id);
            let before = before.and_then(|before| before.iter().find(|before| before.name == status.name));
            fill(
                &mut status.conditions,
                &state,
                "the listener is served",
                before.map(|before| &before.conditions[..]),
            );
            all = all.worse(match state {
                State::Failed(reason, why) => {
                    State::Failed(reason, format!("listener {}: {why}", status.name))
                }
                other => other,
            });
        }
        all
    }

    /// Those that speak for the Gateway: not one that has just come and serves nothing yet, and beside one that is
    /// ready, none that is not: it is on its way out, or not there yet.
    fn serving(&self) -> impl Iterator<Item = &Report> {
        let is_ready = |report: &Report| self.ready.pods.contains(&report.proxy);
        let told = || self.reports.values().filter(|report| report.version > 0);
        let has_ready = told().any(is_ready);
        told().filter(move |report| !has_ready || is_ready(report))
    }

    /// Why nobody serves anything, where nobody does.
    fn presence(&self) -> Option<State> {
        let nobody = |why: &str| State::Nobody(self.failure.unwrap_or(why).to_owned());
        if self.reports.is_empty() {
            return Some(nobody("no data plane is connected"));
        }
        if self.serving().next().is_none() {
            return Some(
                match self.reports.values().find_map(|report| Some((report, report.failed.as_ref()?))) {
                    Some((report, why)) => State::Failed(Reason::Invalid, said(report, why)),
                    None => nobody("no data plane has been told yet"),
                },
            );
        }
        (self.ready.count() == 0).then(|| nobody("no data plane is ready"))
    }

    fn listener(&self, id: &ListenerId) -> State {
        let all = self.serving().map(|report| self.said_by(report, id)).fold(State::Served, State::worse);
        match self.presence() {
            Some(nobody) => all.worse(nobody),
            None => all,
        }
    }

    fn said_by(&self, report: &Report, id: &ListenerId) -> State {
        if report.version < self.needed {
            return match &report.failed {
                Some(why) => State::Failed(Reason::Invalid, said(report, why)),
                None => State::OnTheWay,
            };
        }
        if let Some(why) = report.refused.get(&FragmentId::Listener(id.clone())) {
            return State::Failed(Reason::Invalid, said(report, why));
        }
        match report.listeners.get(id) {
            Some(Ok(())) => State::Served,
            Some(Err(why)) => State::Failed(Reason::PortUnavailable, said(report, why)),
            None => State::OnTheWay,
        }
    }

    fn with_address(&self, state: State) -> State {
        match (&self.addresses.fault, state) {
            (Some((Reason::AddressNotUsable, why)), _) => {
                State::Failed(Reason::AddressNotUsable, why.clone())
            }
            (Some((reason, why)), State::Served | State::OnTheWay) => {
                State::Failed(*reason, self.failure.unwrap_or(why).to_owned())
            }
            (_, state) => state,
        }
    }

    fn assigned(&self, generation: i64) -> Condition {
        let found = self.addresses.found.len();
        let (status, reason, message) = match &self.addresses.fault {
            None => {
                (ConditionStatus::True, Reason::AddressesAssigned, "all addresses are assigned".to_owned())
            }
            Some((_, why)) if found > 0 => (ConditionStatus::False, Reason::PartiallyAssigned, why.clone()),
            Some((_, why)) => (ConditionStatus::False, Reason::NotAssigned, why.clone()),
        };
        Condition {
            kind: ConditionType::AddressesAssigned,
            status,
            reason,
            message,
            observed_generation: generation,
        }
    }
}

fn said(report: &Report, why: &str) -> String {
    format!("data plane {}: {why}", report.proxy)
}

impl State {
    fn rank(&self) -> u8 {
        match self {
            Self::Served => 0,
            Self::OnTheWay => 1,
            Self::Nobody(_) => 2,
            Self::Failed(..) => 3,
        }
    }

    fn worse(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }
}

/// Whether translation left it to the data planes.
fn is_open(conditions: &[Condition]) -> bool {
    conditions.iter().any(|condition| {
        condition.kind == ConditionType::Programmed && condition.status == ConditionStatus::Unknown
    })
}

fn fill(conditions: &mut [Condition], state: &State, good: &str, before: Option<&[Condition]>) {
    if !is_open(conditions) {
        return;
    }
    let is_programmed = |condition: &&Condition| condition.kind == ConditionType::Programmed;
    let before = before.and_then(|before| before.iter().find(is_programmed));
    let Some(condition) = conditions.iter_mut().find(|condition| condition.kind == ConditionType::Programmed)
    else {
        return;
    };
    let mut say = |status, reason, message: &str| {
        condition.status = status;
        condition.reason = reason;
        message.clone_into(&mut condition.message);
    };
    match state {
        State::Served => say(ConditionStatus::True, Reason::Programmed, good),
        State::Failed(reason, why) => say(ConditionStatus::False, *reason, why),
        State::Nobody(why) => say(ConditionStatus::False, Reason::Pending, why),
        State::OnTheWay => match before.filter(|before| before.status == ConditionStatus::True) {
            // With the generation that it was said of.
            Some(before) => condition.clone_from(before),
            None => say(ConditionStatus::False, Reason::Pending, "the data planes have not answered yet"),
        },
    }
}

#[cfg(test)]
#[path = "programmed_tests.rs"]
mod tests;
