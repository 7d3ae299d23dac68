//! `tidegate diff`: what changes for traffic between two sets of manifests.
//!
//! Every flow that either side was written for is put to both: the answer is what would happen, not which lines differ.

mod backends;
mod certificates;
mod destination;
mod flips;
mod order;
mod overlap;
mod probe;
mod refused;
mod text;
mod traffic;
mod written;

use std::collections::BTreeMap;
use std::path::Path;
use std::slice;

use serde::Serialize;
use tidegate_plan::{Hostname, Listener, ListenerId, Plan, Route, Tables};

use crate::arguments::{Diff, TextFormat};
use crate::meaning::Meaning;
use crate::output::{Error, Outcome, Terminal};

/// One set of manifests, ready to be asked.
pub(crate) struct Side<'a> {
    meaning: &'a Meaning,
    plan: &'a Plan,
    tables: Tables,
    /// In the order in which they go before each other.
    routes: Vec<&'a Route>,
    /// The same, by listener and hostname as written; `None`: those that take any.
    named: BTreeMap<(ListenerId, Option<Hostname>), Vec<&'a Route>>,
    listeners: BTreeMap<&'a ListenerId, &'a Listener>,
}

impl<'a> Side<'a> {
    fn new(meaning: &'a Meaning) -> Self {
        let plan = &meaning.translation().plan;
        let mut routes: Vec<&Route> = plan.routes().collect();
        routes.sort_by_key(|route| (route.created, &route.id));
        let listeners = plan.listeners().map(|listener| (&listener.id, listener)).collect();
        let mut named: BTreeMap<(ListenerId, Option<Hostname>), Vec<&Route>> = BTreeMap::new();
        for &route in &routes {
            let any = route.hostnames.is_empty().then_some(None);
            for hostname in route.hostnames.iter().cloned().map(Some).chain(any) {
                for listener in &route.listeners {
                    named.entry((listener.clone(), hostname.clone())).or_default().push(route);
                }
            }
        }
        Self { meaning, plan, tables: Tables::new(plan), routes, named, listeners }
    }

    /// The routes of a listener that are written for this very hostname, in their order.
    fn routes_for(&self, listener: &ListenerId, hostname: Option<Hostname>) -> &[&'a Route] {
        self.named.get(&(listener.clone(), hostname)).map_or(&[], Vec::as_slice)
    }

    fn listeners_of(&self, route: &Route) -> impl Iterator<Item = &'a Listener> {
        route.listeners.iter().filter_map(|id| self.listeners.get(id).copied())
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    ports: Vec<traffic::Port>,
    traffic: Vec<traffic::Change>,
    certificates: Vec<certificates::Change>,
    backends: Vec<backends::Change>,
    conditions: Vec<flips::Flip>,
}

impl Difference {
    fn between(old: &Meaning, new: &Meaning) -> Self {
        let flips = flips::between(old.translation(), new.translation());
        let [old, new] = [old, new].map(Side::new);
        let places = probe::places([&old, &new]);
        let mut flows = traffic::changes(&places, &old, &new);
        flows.extend(order::changes(&places, &flows, &old, &new));
        Self {
            ports: traffic::ports(&old, &new),
            traffic: flows,
            certificates: certificates::changes(&places, &old, &new),
            backends: backends::changes(&old, &new),
            conditions: flips,
        }
    }

    /// Conditions may flip while every byte goes where it went.
    const fn is_nothing_for_traffic(&self) -> bool {
        self.ports.is_empty()
            && self.traffic.is_empty()
            && self.certificates.is_empty()
            && self.backends.is_empty()
    }
}

pub(crate) fn run(options: &Diff, terminal: &mut Terminal) -> Result<Outcome, Error> {
    if [&options.old, &options.new].into_iter().all(|path| path == Path::new("-")) {
        let message =
            "OLD and NEW cannot both be `-`: standard input can be read once; name a folder or file";
        return Err(Error::Usage(message.to_owned()));
    }
    let old = Meaning::of(slice::from_ref(&options.old))?;
    let new = Meaning::of(slice::from_ref(&options.new))?;
    old.manifests.report(terminal);
    new.manifests.report(terminal);
    let difference = Difference::between(&old, &new);
    match options.output {
        TextFormat::Text => terminal.print(&text::render(&difference))?,
        TextFormat::Json => terminal.print_json(&difference)?,
    }
    Ok(Outcome::good_if(difference.is_nothing_for_traffic()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Sign {
    Starts,
    Stops,
    Changes,
}
