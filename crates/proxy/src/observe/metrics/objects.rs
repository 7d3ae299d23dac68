//! What single listeners, routes and backends have carried, for those that are served at the time of a scrape.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::registry::Unit;
use tidegate_plan::ListenerId;

use super::page::Page;
use crate::Ending;
use crate::observe::TrafficStats;
use crate::observe::requests::CLASSES;
use crate::snapshot::Snapshot;

pub(super) fn listeners(snapshot: &Snapshot, page: &mut Page<'_>) -> fmt::Result {
    let mut all: Vec<_> = snapshot.listeners.iter().collect();
    all.sort_by(|a, b| a.0.cmp(b.0));
    let labels: Vec<ListenerLabels> = all.iter().map(|(id, _)| ListenerLabels::of(id)).collect();
    let all = || labels.iter().zip(all.iter().map(|(_, serving)| serving));
    page.counter(
        "tidegate_listener_connections",
        "Connections and flows that a listener took",
        None,
        all().map(|(labels, serving)| (labels.with(None), serving.stats.connections())),
    )?;
    page.gauge(
        "tidegate_listener_connections_active",
        "Connections and flows of a listener at this moment",
        None,
        all().map(|(labels, serving)| (labels.with(None), serving.active() as u64)),
    )?;
    page.counter(
        "tidegate_listener_traffic",
        "Bytes carried for a listener, up to backends and down to clients",
        Some(&Unit::Bytes),
        all().flat_map(|(labels, serving)| {
            [
                (labels.with(Some(("direction", "up"))), serving.stats.up()),
                (labels.with(Some(("direction", "down"))), serving.stats.down()),
            ]
        }),
    )?;
    // Only what happened: every reason for every listener would be a hundred lines for each.
    let happened = all().flat_map(|(labels, serving)| {
        let counted = Ending::all().map(|ending| (ending, serving.stats.ended(ending)));
        let counted = counted.filter(|(_, count)| *count > 0);
        counted.map(|(ending, count)| (labels.with(Some(("reason", ending.as_str()))), count))
    });
    page.counter(
        "tidegate_listener_connections_ended",
        "Connections and flows of a listener that ended, by the reason",
        None,
        happened,
    )
}

struct ListenerLabels {
    gateway: String,
    listener_set: String,
    listener: Arc<str>,
}

impl ListenerLabels {
    fn of(id: &ListenerId) -> Self {
        Self {
            gateway: id.gateway.to_string(),
            listener_set: id.listener_set.as_ref().map(ToString::to_string).unwrap_or_default(),
            listener: Arc::clone(&id.name),
        }
    }

    fn with<'a>(&'a self, more: Option<(&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
        let set = (!self.listener_set.is_empty()).then_some(("listener_set", self.listener_set.as_str()));
        let own = [("gateway", self.gateway.as_str()), ("listener", &self.listener)];
        own.into_iter().chain(set).chain(more).collect()
    }
}

/// Only those that had something to carry: of a hundred thousand routes most are quiet.
pub(super) fn routes(snapshot: &Snapshot, page: &mut Page<'_>) -> fmt::Result {
    let all = snapshot.streams.iter().map(|(_, route)| route);
    let all = all.filter(|route| route.stats.connections() + route.stats.failures() > 0);
    let mut all: Vec<_> = all.map(|route| (route.id.to_string(), &route.stats)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    traffic("route", &all, page)?;
    page.counter(
        "tidegate_route_failures",
        "Connections and flows of a route that reached no endpoint",
        None,
        all.iter().map(|(name, stats)| ([("route", name.as_str())], stats.failures())),
    )
}

/// The same of requests.
pub(super) fn requests(snapshot: &Snapshot, page: &mut Page<'_>) -> fmt::Result {
    let all = snapshot.requests.iter().filter(|(_, stats)| stats.requests() > 0);
    let mut all: Vec<_> = all.map(|(id, stats)| (id.to_string(), &**stats)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let classes = all.iter().flat_map(|(name, stats)| {
        let counted = CLASSES.iter().enumerate().map(|(class, code)| (*code, stats.class(class)));
        let counted = counted.filter(|(_, count)| *count > 0);
        counted.map(|(code, count)| ([("route", name.as_str()), ("code", code)], count))
    });
    page.counter(
        "tidegate_route_requests",
        "Requests of a route, by the class of their status",
        None,
        classes,
    )?;
    let endings = all.iter().flat_map(|(name, stats)| {
        let counted = Ending::all().map(|ending| (ending, stats.ended(ending)));
        let counted = counted.filter(|(_, count)| *count > 0);
        counted.map(|(ending, count)| ([("route", name.as_str()), ("reason", ending.as_str())], count))
    });
    page.counter("tidegate_route_requests_ended", "Requests of a route, by how they ended", None, endings)?;
    let retries = all.iter().map(|(name, stats)| ([("route", name.as_str())], stats.retries()));
    page.counter("tidegate_route_retries", "Times that a backend of a route was asked again", None, retries)?;
    page.counter(
        "tidegate_route_body",
        "Bytes of bodies carried for the requests of a route, up to backends and down to clients",
        Some(&Unit::Bytes),
        all.iter().flat_map(|(name, stats)| {
            let labels = |direction| [("route", name.as_str()), ("direction", direction)];
            [(labels("up"), stats.up()), (labels("down"), stats.down())]
        }),
    )?;
    page.times(
        "tidegate_route_request_duration",
        "From the head of a request to the end of its answer",
        all.iter().map(|(name, stats)| ([("route", name.as_str())], stats.time())),
    )?;
    page.times(
        "tidegate_route_upstream_duration",
        "From the head of a request to the head of the backend's answer",
        all.iter().map(|(name, stats)| ([("route", name.as_str())], stats.upstream())),
    )
}

pub(super) fn backends(snapshot: &Snapshot, page: &mut Page<'_>) -> fmt::Result {
    let mut all: Vec<_> = snapshot.backends.iter().map(|(id, backend)| (id.to_string(), backend)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let stats: Vec<_> = all.iter().map(|(name, backend)| (name.clone(), &backend.stats)).collect();
    traffic("backend", &stats, page)?;
    page.counter(
        "tidegate_backend_connect_failures",
        "Times that an endpoint of a backend did not accept a connection",
        None,
        stats.iter().map(|(name, stats)| ([("backend", name.as_str())], stats.failures())),
    )?;
    let now = Instant::now();
    page.gauge(
        "tidegate_backend_connections_active",
        "Connections and flows to endpoints of a backend at this moment",
        None,
        all.iter().map(|(name, backend)| {
            let active = backend.endpoints(now).map(|endpoint| u64::from(endpoint.active)).sum::<u64>();
            ([("backend", name.as_str())], active)
        }),
    )?;
    page.gauge(
        "tidegate_backend_endpoints",
        "Endpoints of a backend, by whether they are set aside because connections failed",
        None,
        all.iter().flat_map(|(name, backend)| {
            let labels = |ejected| [("backend", name.as_str()), ("ejected", ejected)];
            let ejected = backend.endpoints(now).filter(|endpoint| endpoint.ejected).count() as u64;
            let all = backend.endpoints(now).count() as u64;
            [(labels("false"), all - ejected), (labels("true"), ejected)]
        }),
    )
}

/// What routes and backends have in common; `kind` is which of them it is.
fn traffic(kind: &str, all: &[(String, &TrafficStats)], page: &mut Page<'_>) -> fmt::Result {
    page.counter(
        &format!("tidegate_{kind}_connections"),
        &format!("Connections and flows that reached an endpoint of a {kind}"),
        None,
        all.iter().map(|(name, stats)| ([(kind, name.as_str())], stats.connections())),
    )?;
    page.counter(
        &format!("tidegate_{kind}_traffic"),
        &format!("Bytes carried for a {kind}, up to endpoints and down to clients"),
        Some(&Unit::Bytes),
        all.iter().flat_map(|(name, stats)| {
            let labels = |direction| [(kind, name.as_str()), ("direction", direction)];
            [(labels("up"), stats.up()), (labels("down"), stats.down())]
        }),
    )
}
