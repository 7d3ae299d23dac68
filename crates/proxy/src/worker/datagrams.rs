//! The worker as its datagram flows see it: bounds, counters and log.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};

use tidegate_plan::{Connection, ListenerHandle, Reason, Transport};

use super::Worker;
use crate::Ending;
use crate::observe::{LogWriter, Record, Refused};
use crate::serving::Place;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::udp::{Context, FlowRecord, Host, Udp};

impl Worker {
    /// Lets the flows do something with all that a worker lends them.
    pub(super) fn with_flows<R>(&mut self, act: impl FnOnce(&mut Udp, &mut Context<'_>) -> R) -> R {
        let kit = &mut self.kit;
        let mut desk = Desk {
            shared: &self.shared,
            snapshot: &kit.snapshot,
            log: self.log.as_deref(),
            worker: kit.number,
            now: kit.now,
            wall: kit.wall,
        };
        let mut context = Context {
            snapshot: &kit.snapshot,
            epoll: std::os::fd::AsFd::as_fd(&self.epoll),
            now: kit.now,
            counters: &self.shared.counters[kit.number],
            random: &mut kit.random,
            host: &mut desk,
        };
        act(&mut self.udp, &mut context)
    }
}

struct Desk<'w> {
    shared: &'w Shared,
    snapshot: &'w Snapshot,
    log: Option<&'w RefCell<LogWriter>>,
    worker: usize,
    now: std::time::Instant,
    wall: std::time::SystemTime,
}

impl Host for Desk<'_> {
    fn enter(&mut self, listener: &ListenerHandle, client: IpAddr) -> Result<Place, Ending> {
        let bounds = &self.snapshot.bounds;
        let serving = self.snapshot.listeners.of(&listener.id).ok_or(Ending::Refused(Reason::NoListener))?;
        if !self.shared.sources.enter(client, bounds.connections_per_source) {
            return Err(Ending::TooManyForSource);
        }
        let place = Place::take(serving, bounds.connections_per_listener);
        if place.is_none() {
            self.shared.sources.leave(client);
        }
        place.ok_or(Ending::TooManyForListener)
    }

    fn leave(&mut self, client: IpAddr) {
        self.shared.sources.leave(client);
    }

    fn ended(&mut self, flow: &FlowRecord<'_>) {
        let (up, down) = (flow.up.bytes, flow.down.bytes);
        if let Some(place) = flow.place {
            let cell = place.stats.cell(self.worker);
            cell.taken();
            cell.carried(up, down);
            cell.ended(flow.ending);
        }
        if let Some(backend) = flow.backend {
            let cell = backend.stats.cell(self.worker);
            cell.connected();
            cell.carried(up, down);
        }
        if let Some(route) = flow.route {
            let cell = route.stats.cell(self.worker);
            cell.connected();
            cell.carried(up, down);
        }
        self.write(flow);
    }

    /// A stranger can send such datagrams without end, so that only some of them are written down.
    fn refused(&mut self, flow: &FlowRecord<'_>, port: u16) {
        if let Some(route) = flow.route {
            route.stats.cell(self.worker).failed();
        }
        if !self.shared.journal.wants(self.wall) {
            return;
        }
        let local = SocketAddr::new(flow.local.ip(), port);
        let connection = Connection { local, transport: Transport::Udp, hello: None };
        let steps = self.snapshot.refusal(&connection, flow.backend, flow.ending.reason());
        self.shared.journal.keep(Refused {
            at: self.wall,
            client: flow.client,
            local: flow.local,
            sni: None,
            listener: flow.listener.map(|listener| listener.id.clone()),
            ending: flow.ending,
            detail: None,
            steps,
        });
        self.write(flow);
    }
}

impl Desk<'_> {
    fn write(&mut self, flow: &FlowRecord<'_>) {
        let Some(log) = self.log else { return };
        log.borrow_mut().write(&Record {
            start: self.wall - self.now.duration_since(flow.began),
            protocol: "UDP",
            client: flow.client,
            local: flow.local,
            sni: None,
            tls: None,
            listener: flow.listener.map(|listener| &listener.id),
            route: flow.route.map(|route| &route.id),
            backend: flow.backend.map(|backend| &backend.plan.id),
            endpoint: flow.endpoint,
            up: flow.up.bytes,
            down: flow.down.bytes,
            duration: flow.ended.duration_since(flow.began),
            ending: flow.ending,
            detail: None,
            request: None,
        });
    }
}
