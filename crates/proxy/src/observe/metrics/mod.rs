//! Everything that is counted, as OpenMetrics text. Sums are made here, at the time of a scrape, and nowhere else.

mod objects;
mod page;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::{Registry, Unit};

use self::page::{Page, directions};
use super::closed_sets::{ConnectFailure, HELLO_KINDS, Handshake, hello_kind};
use super::count::Counts;
use super::counters::Counters;
use super::log::LogState;
use super::mishaps::Mishaps;
use super::process::Process;
use super::requests::CLASSES;
use crate::Ending;
use crate::snapshot::Snapshot;

pub(crate) struct Metrics(Registry);

impl Metrics {
    /// To be sent with what [`render`](Self::render) gives.
    pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// `log` is missing where there is no access log.
    pub(crate) fn new(
        workers: Vec<Arc<Counters>>,
        snapshot: Arc<ArcSwap<Snapshot>>,
        log: Option<Arc<LogState>>,
    ) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Cells { workers, snapshot, log }));
        Self(registry)
    }

    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        // A string takes all that it is given.
        let _ = encode(&mut text, &self.0);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

struct Cells {
    workers: Vec<Arc<Counters>>,
    snapshot: Arc<ArcSwap<Snapshot>>,
    log: Option<Arc<LogState>>,
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cells").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl Collector for Cells {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.connections(&mut page)?;
        self.hellos_and_handshakes(&mut page)?;
        self.connects(&mut page)?;
        self.datagrams(&mut page)?;
        self.requests(&mut page)?;
        self.limits(&mut page)?;
        let snapshot = self.snapshot.load();
        objects::listeners(&snapshot, &mut page)?;
        page.one_gauge(
            "tidegate_certificates_kept",
            "Certificates that listeners go on with although their Secrets have them no more",
            None,
            Some(snapshot.kept.len() as u64),
        )?;
        objects::routes(&snapshot, &mut page)?;
        objects::requests(&snapshot, &mut page)?;
        objects::backends(&snapshot, &mut page)?;
        self.own(&mut page)
    }
}

impl Cells {
    fn sum(&self, of: impl Fn(&Counters) -> u64) -> u64 {
        self.workers.iter().map(|worker| of(worker)).sum()
    }

    fn connections(&self, page: &mut Page<'_>) -> fmt::Result {
        page.one_counter(
            "tidegate_connections_accepted",
            "Connections that were accepted",
            None,
            Some(self.sum(|worker| worker.accepted.get())),
        )?;
        page.one_gauge(
            "tidegate_connections_active",
            "Connections at this moment",
            None,
            Some(self.sum(Counters::active)),
        )?;
        page.counter(
            "tidegate_connections_ended",
            "Connections that ended, by the reason",
            None,
            Ending::all().map(|ending| {
                ([("reason", ending.as_str())], self.sum(|worker| worker.endings.get(ending.index())))
            }),
        )?;
        page.counter(
            "tidegate_traffic",
            "Bytes carried for connections, up to backends and down to clients",
            Some(&Unit::Bytes),
            directions(self.sum(|worker| worker.up.get()), self.sum(|worker| worker.down.get())),
        )?;
        page.one_counter(
            "tidegate_accept_pauses",
            "Times that accepting paused because the machine had nothing left to accept with",
            None,
            Some(self.sum(|worker| worker.accept_pauses.get())),
        )
    }

    fn hellos_and_handshakes(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counter(
            "tidegate_hello_errors",
            "First bytes that were no ClientHello to route by, by what was wrong",
            None,
            HELLO_KINDS
                .iter()
                .enumerate()
                .map(|(index, kind)| ([("kind", *kind)], self.sum(|worker| worker.hello_errors.get(index)))),
        )?;
        let yes_or_no = |is| if is { "true" } else { "false" };
        page.counter(
            "tidegate_handshakes",
            "TLS handshakes carried through, by side, version and whether a session was resumed",
            None,
            Handshake::all().map(|handshake| {
                let version = match handshake.version {
                    tidegate_plan::TlsVersion::V1_2 => "1.2",
                    tidegate_plan::TlsVersion::V1_3 => "1.3",
                };
                let labels = [
                    ("side", handshake.side.as_str()),
                    ("version", version),
                    ("resumed", yes_or_no(handshake.resumed)),
                ];
                (labels, self.sum(|worker| worker.handshakes.get(handshake.index())))
            }),
        )
    }

    fn connects(&self, page: &mut Page<'_>) -> fmt::Result {
        page.one_counter(
            "tidegate_connects",
            "Times that an endpoint was asked for a connection",
            None,
            Some(self.sum(|worker| worker.connects.get())),
        )?;
        page.counter(
            "tidegate_connect_failures",
            "Times that an endpoint did not accept a connection, by the reason",
            None,
            ConnectFailure::ALL.into_iter().map(|failure| {
                let count = self.sum(|worker| worker.connect_failures.get(failure as usize));
                ([("reason", failure.as_str())], count)
            }),
        )
    }

    fn datagrams(&self, page: &mut Page<'_>) -> fmt::Result {
        page.one_counter(
            "tidegate_udp_flows",
            "Datagram flows that began",
            None,
            Some(self.sum(|worker| worker.flows.get())),
        )?;
        page.one_gauge(
            "tidegate_udp_flows_active",
            "Datagram flows at this moment",
            None,
            Some(self.sum(Counters::active_flows)),
        )?;
        page.counter(
            "tidegate_udp_flows_ended",
            "Datagram flows that ended, by the reason",
            None,
            self.happened(|worker| &worker.flow_endings),
        )?;
        page.counter(
            "tidegate_udp_datagrams",
            "Datagrams carried, up to backends and down to clients",
            None,
            directions(
                self.sum(|worker| worker.datagrams_up.get()),
                self.sum(|worker| worker.datagrams_down.get()),
            ),
        )?;
        let names = Mishaps::default().all().map(|(name, _)| name);
        page.counter(
            "tidegate_udp_mishaps",
            "Datagrams and calls that went wrong without ending a flow, by what it was",
            None,
            names
                .into_iter()
                .enumerate()
                .map(|(at, name)| ([("kind", name)], self.sum(|worker| worker.mishaps.all()[at].1))),
        )?;
        page.counter(
            "tidegate_udp_traffic",
            "Bytes of datagrams carried, up to backends and down to clients",
            Some(&Unit::Bytes),
            directions(
                self.sum(|worker| worker.datagram_bytes_up.get()),
                self.sum(|worker| worker.datagram_bytes_down.get()),
            ),
        )?;
        page.counter(
            "tidegate_udp_datagrams_dropped",
            "Datagrams that were not carried, by the reason",
            None,
            self.happened(|worker| &worker.datagram_drops),
        )
    }

    fn requests(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counter(
            "tidegate_requests",
            "HTTP requests, by the class of their status",
            None,
            CLASSES
                .iter()
                .enumerate()
                .map(|(class, code)| ([("code", *code)], self.sum(|worker| worker.requests.get(class)))),
        )?;
        page.counter(
            "tidegate_requests_ended",
            "HTTP requests, by how they ended",
            None,
            self.happened(|worker| &worker.request_endings),
        )
    }

    /// Of datagrams and requests only what happened: most endings are of connections.
    fn happened(
        &self,
        of: impl Fn(&Counters) -> &Counts<{ Ending::COUNT }>,
    ) -> impl Iterator<Item = ([(&'static str, &'static str); 1], u64)> {
        let counted = Ending::all().map(move |ending| {
            ([("reason", ending.as_str())], self.sum(|worker| of(worker).get(ending.index())))
        });
        counted.filter(|(_, count)| *count > 0)
    }

    /// The same events as above under the name of the bound, for whoever wants to know which to raise.
    fn limits(&self, page: &mut Page<'_>) -> fmt::Result {
        let ended = |endings: &[Ending]| {
            let of = |ending: &Ending| self.sum(|worker| worker.endings.get(ending.index()));
            endings.iter().map(of).sum::<u64>()
        };
        // Some bounds are for flows as well: those that ended, and datagrams that could begin none.
        let flows_ended = |ending: Ending| self.sum(|worker| worker.flow_endings.get(ending.index()));
        let dropped = |ending: Ending| self.sum(|worker| worker.datagram_drops.get(ending.index()));
        let full = |ending: Ending| ended(&[ending]) + dropped(ending);
        let both = |ending: Ending| {
            self.sum(|worker| worker.endings.get(ending.index()) + worker.request_endings.get(ending.index()))
        };
        let too_long = hello_kind(&tidegate_hello::HelloError::HelloTooLong { max: 0 });
        let reached = [
            ("connections", ended(&[Ending::TooManyConnections])),
            ("connections_per_listener", full(Ending::TooManyForListener)),
            ("connections_per_source", full(Ending::TooManyForSource)),
            ("hello_time", ended(&[Ending::HelloTimeout])),
            ("hello_size", self.sum(|worker| worker.hello_errors.get(too_long))),
            ("handshake_time", ended(&[Ending::HandshakeTimeout])),
            ("connect_time", both(Ending::ConnectTimeout)),
            ("idle_time", both(Ending::IdleTimeout)),
            ("half_open_time", ended(&[Ending::HalfOpenTimeout])),
            ("lifetime", ended(&[Ending::LifetimeOver])),
            (
                "drain_time",
                ended(&[Ending::Drained, Ending::Shutdown])
                    + flows_ended(Ending::Drained)
                    + flows_ended(Ending::Shutdown),
            ),
            ("udp_flows", dropped(Ending::TooManyFlows) + flows_ended(Ending::FlowEvicted)),
            ("header_time", ended(&[Ending::HeaderTimeout])),
            ("header_size", both(Ending::RequestTooLarge)),
            ("body_time", both(Ending::BodyTimeout)),
            ("mirrors", self.sum(|worker| worker.reached.get(Ending::TooManyMirrors.index()))),
            ("retries", self.sum(|worker| worker.reached.get(Ending::TooManyRetries.index()))),
        ];
        page.counter(
            "tidegate_limit_reached",
            "Times that a bound was reached and something was refused or ended for it",
            None,
            reached.into_iter().map(|(limit, count)| ([("limit", limit)], count)),
        )
    }

    fn own(&self, page: &mut Page<'_>) -> fmt::Result {
        if let Some(log) = &self.log {
            page.counter(
                "tidegate_log_lines_dropped",
                "Lines of the access log that were not written, because writing was too slow or failed",
                None,
                [([("reason", "behind")], log.lines_behind()), ([("reason", "failed")], log.lines_failed())],
            )?;
        }
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        page.gauge("tidegate_build_info", "The version that runs", None, [(version, 1_u64)])?;
        let Process { open_files, open_files_limit, resident_bytes, cpu_seconds, start_seconds } =
            Process::now();
        page.one_counter("process_cpu", "Processor time used", Some(&Unit::Seconds), cpu_seconds)?;
        let since = "When the process started, since 1970";
        page.one_gauge("process_start_time", since, Some(&Unit::Seconds), start_seconds)?;
        page.one_gauge("process_resident_memory", "Memory in use", Some(&Unit::Bytes), resident_bytes)?;
        page.one_gauge("process_open_fds", "Open file descriptors", None, open_files)?;
        page.one_gauge("process_max_fds", "Most file descriptors that may be open", None, open_files_limit)
    }
}

#[cfg(test)]
mod tests;
