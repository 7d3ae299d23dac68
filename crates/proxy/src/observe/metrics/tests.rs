use std::collections::{HashMap, HashSet};

use tidegate_plan::{
    Addresses, BackendHandle, BackendId, BackendKind, Body, Endpoint, EndpointState, Endpoints, EndpointsId,
    Fragment, Group, ListenerId, ObjectName, Plan, Protocol, Route, RouteId, RouteKind, Rules, StreamRule,
    Tables, TlsVersion, Transport, Upstream,
};

use std::time::Instant;

use super::*;
use crate::Settings;
use crate::observe::{ListenerStats, Side};
use crate::serving::Serving;
use crate::upstream::{Backend, Place, Random};

fn metrics(workers: &[Arc<Counters>], snapshot: Snapshot, log: Option<Arc<LogState>>) -> Metrics {
    Metrics::new(workers.to_vec(), Arc::new(ArcSwap::from_pointee(snapshot)), log)
}

/// Series by name and labels, as they are written.
fn series(text: &str) -> HashMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let all: Vec<_> = lines.map(|line| line.rsplit_once(' ').unwrap()).collect();
    let by_name: HashMap<_, _> = all.iter().map(|(name, value)| (*name, value.parse().unwrap())).collect();
    assert_eq!(by_name.len(), all.len(), "each once");
    by_name
}

#[test]
fn workers_are_summed() {
    let workers = [Arc::new(Counters::default()), Arc::new(Counters::default())];
    for worker in &workers {
        (0..3).for_each(|_| worker.accepted());
        worker.ended(Ending::HelloTimeout);
        worker.up(100);
        worker.down(2_000);
        worker.handshake(Side::Client, TlsVersion::V1_3, true);
        worker.connecting();
        worker.connect_failed(ConnectFailure::Refused);
        worker.hello_refused(&tidegate_hello::HelloError::HelloTooLong { max: 9 });
        worker.flow_began();
        worker.datagrams_up(5, 50);
        worker.datagrams_dropped(Ending::TooManyFlows, 7);
        worker.datagrams_dropped(Ending::TooManyForListener, 2);
        worker.datagrams_dropped(Ending::TooManyForSource, 3);
        worker.datagrams_dropped(Ending::Shutdown, 4);
    }
    (0..2).for_each(|_| workers[1].flow_began());
    workers[1].flow_ended(Ending::Drained);
    workers[1].flow_ended(Ending::Shutdown);
    workers[0].accept_paused();
    workers[0].flow_ended(Ending::FlowEvicted);
    let text = metrics(&workers, Snapshot::default(), Some(Arc::default())).render();
    let series = series(&text);
    for (name, value) in [
        ("tidegate_connections_accepted_total", 6.0),
        ("tidegate_connections_active", 4.0),
        ("tidegate_connections_ended_total{reason=\"hello_timeout\"}", 2.0),
        ("tidegate_connections_ended_total{reason=\"no_route\"}", 0.0),
        ("tidegate_traffic_bytes_total{direction=\"up\"}", 200.0),
        ("tidegate_traffic_bytes_total{direction=\"down\"}", 4_000.0),
        ("tidegate_accept_pauses_total", 1.0),
        ("tidegate_hello_errors_total{kind=\"hello_too_long\"}", 2.0),
        ("tidegate_handshakes_total{side=\"client\",version=\"1.3\",resumed=\"true\"}", 2.0),
        ("tidegate_handshakes_total{side=\"backend\",version=\"1.3\",resumed=\"true\"}", 0.0),
        ("tidegate_connects_total", 2.0),
        ("tidegate_connect_failures_total{reason=\"refused\"}", 2.0),
        ("tidegate_limit_reached_total{limit=\"hello_time\"}", 2.0),
        ("tidegate_limit_reached_total{limit=\"hello_size\"}", 2.0),
        ("tidegate_limit_reached_total{limit=\"udp_flows\"}", 15.0),
        ("tidegate_limit_reached_total{limit=\"connections\"}", 0.0),
        ("tidegate_limit_reached_total{limit=\"connections_per_listener\"}", 4.0),
        ("tidegate_limit_reached_total{limit=\"connections_per_source\"}", 6.0),
        ("tidegate_limit_reached_total{limit=\"drain_time\"}", 2.0),
        ("tidegate_udp_flows_total", 4.0),
        ("tidegate_udp_flows_active", 1.0),
        ("tidegate_udp_datagrams_total{direction=\"up\"}", 10.0),
        ("tidegate_udp_traffic_bytes_total{direction=\"up\"}", 100.0),
        ("tidegate_udp_datagrams_dropped_total{reason=\"too_many_flows\"}", 14.0),
        ("tidegate_log_lines_dropped_total{reason=\"behind\"}", 0.0),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name}\n{text}");
    }
    assert!(series["process_open_fds"] > 2.0);
    assert!(series["process_resident_memory_bytes"] > 1e6);
    assert!(series["process_start_time_seconds"] > 1.7e9);
    assert!(series.contains_key("process_cpu_seconds_total"));
}

#[test]
fn the_text_is_what_the_format_asks_for() {
    let text = metrics(&[Arc::default()], snapshot(), Some(Arc::default())).render();
    assert!(text.ends_with("# EOF\n"));
    let mut known = HashMap::new();
    let mut helped = HashSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, _] => assert!(helped.insert(name), "{name} twice"),
            ["#", "TYPE", name, kind] => assert!(known.insert(name, kind).is_none(), "{name} twice"),
            ["#", "UNIT", name, unit] => assert!(name.ends_with(&format!("_{unit}")), "{line}"),
            ["#", "EOF"] => {}
            _ => {
                let end = line.find(['{', ' ']).unwrap();
                let suffixes = ["_total", "_bucket", "_sum", "_count"];
                let family = suffixes.iter().find_map(|suffix| line[..end].strip_suffix(suffix));
                let family = family.unwrap_or(&line[..end]);
                let kind = known.get(family).unwrap_or_else(|| panic!("no TYPE before {line}"));
                assert_eq!(line[..end].ends_with("_total"), *kind == "counter", "{line}");
                assert!(helped.contains(family), "{line}");
                assert!(family.starts_with("tidegate_") || family.starts_with("process_"), "{line}");
            }
        }
    }
}

/// One listener of a ListenerSet and one backend with two endpoints, both with some traffic.
fn snapshot() -> Snapshot {
    let listener = ListenerId {
        gateway: ObjectName::new("infra", "edge"),
        listener_set: Some(ObjectName::new("shop", "extra")),
        name: "tls".into(),
    };
    let stats = Arc::new(ListenerStats::new(2));
    stats.cell(0).taken();
    stats.cell(1).taken();
    stats.cell(1).carried(10, 20);
    stats.cell(1).ended(Ending::Done);
    let serving = Arc::new(Serving::new(stats, Ok(None), None));
    // For as long as the test lives.
    std::mem::forget(crate::serving::Place::take(&serving, 1));

    let object = ObjectName::new("shop", "web");
    let endpoints_id = EndpointsId { service: object.clone(), port: "".into() };
    let id = BackendId { kind: BackendKind::Service, object, port: 80, transport: Transport::Tcp };
    let plan = tidegate_plan::Backend {
        id: id.clone(),
        addresses: Addresses::Endpoints(endpoints_id.clone()),
        protocol: Protocol::Unspecified,
        upstream: Upstream::Plain,
        affinity: None,
        session: None,
        retry_budget: None,
        prefer_close: false,
        allow_loopback: false,
    };
    let endpoint = |address: &str| Endpoint {
        address: address.parse().unwrap(),
        port: 80,
        state: EndpointState::Ready,
        zone: None,
    };
    let endpoints =
        Endpoints { id: endpoints_id, endpoints: vec![endpoint("10.0.0.1"), endpoint("10.0.0.2")] };
    let plan = BackendHandle::new(&Arc::new(Fragment::new(Body::Backend(plan)))).unwrap();
    let place = Place::new(&Settings { workers: 2, ..Settings::default() });
    let backend = Backend::new(plan, Some(&endpoints), None, &place);
    let now = Instant::now();
    let chosen = backend.pick("192.0.2.1".parse().unwrap(), &[], &mut Random::new(), now).unwrap();
    chosen.opened();
    (0..3).for_each(|_| chosen.failed(now));
    backend.stats.cell(1).connected();
    backend.stats.cell(0).failed();
    backend.stats.cell(0).carried(30, 40);

    let mut snapshot = Snapshot::default();
    let mut plan = Plan::default();
    for name in ["busy", "quiet"] {
        plan.insert(Body::Route(Route {
            id: RouteId { kind: RouteKind::Tls, object: ObjectName::new("shop", name) },
            created: 0,
            listeners: Vec::new(),
            hostnames: Vec::new(),
            rules: Rules::Stream(StreamRule { name: None, backends: Group::default() }),
        }));
    }
    snapshot.tables = Tables::new(&plan);
    snapshot.put_streams(&plan);
    let busy = snapshot.streams.iter().find(|(_, route)| &*route.id.object.name == "busy").unwrap().1;
    (0..2).for_each(|worker| busy.stats.cell(worker).connected());
    snapshot.listeners.insert(listener, serving);
    snapshot.backends.insert(id, Arc::new(backend));
    snapshot
}

#[test]
fn listeners_and_backends_have_their_own() {
    let text = metrics(&[], snapshot(), None).render();
    let series = series(&text);
    let listener = "gateway=\"infra/edge\",listener=\"tls\",listener_set=\"shop/extra\"";
    let backend = "backend=\"Service shop/web:80\"";
    for (name, value) in [
        (format!("tidegate_listener_connections_total{{{listener}}}"), 2.0),
        (format!("tidegate_listener_connections_active{{{listener}}}"), 1.0),
        (format!("tidegate_listener_traffic_bytes_total{{{listener},direction=\"down\"}}"), 20.0),
        (format!("tidegate_listener_connections_ended_total{{{listener},reason=\"done\"}}"), 1.0),
        ("tidegate_route_connections_total{route=\"TLSRoute shop/busy\"}".to_owned(), 2.0),
        ("tidegate_route_failures_total{route=\"TLSRoute shop/busy\"}".to_owned(), 0.0),
        (format!("tidegate_backend_connections_total{{{backend}}}"), 1.0),
        (format!("tidegate_backend_connect_failures_total{{{backend}}}"), 1.0),
        (format!("tidegate_backend_connections_active{{{backend}}}"), 1.0),
        (format!("tidegate_backend_traffic_bytes_total{{{backend},direction=\"up\"}}"), 30.0),
        (format!("tidegate_backend_endpoints{{{backend},ejected=\"false\"}}"), 1.0),
        (format!("tidegate_backend_endpoints{{{backend},ejected=\"true\"}}"), 1.0),
    ] {
        assert_eq!(series.get(name.as_str()), Some(&value), "{name}\n{text}");
    }
    let endings = series.keys().filter(|name| name.starts_with("tidegate_listener_connections_ended"));
    assert_eq!(endings.count(), 1, "only what happened");
    assert!(!text.contains("shop/quiet"), "it carried nothing");
    assert!(!text.contains("tidegate_log_lines"), "there is no log");
}
