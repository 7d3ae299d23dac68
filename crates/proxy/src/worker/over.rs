//! The end of a connection: what is written down of it, or who takes it over.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::event::epoll;
use tidegate_plan::{Connection, Handling, Hello, Step, Transport};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use super::Worker;
use crate::Ending;
use crate::engine::{Facts, HandOver, Session, Traced, Watched};
use crate::http::{ConnectionPlace, HttpConnection, Https, Occupied, Rewound};
use crate::net::TcpStream;
use crate::observe::{Record, Refused, Tls};

/// For a handshake with a CA.
const PROOF: Duration = Duration::from_secs(10);

impl Worker {
    pub(super) fn over(&mut self, session: Session<TcpStream>, ending: Ending) {
        self.write_down(&session, ending);
        self.shared.leave(session.facts.client.ip());
        drop(session);
    }

    /// A connection that there is no room for.
    pub(super) fn turn_away(&mut self, facts: &Facts, ending: Ending) {
        self.kit.counters().ended(ending);
        self.keep_refusal(facts, ending);
        if let Some(log) = &self.log {
            log.borrow_mut().write(&record(facts, None, 0, 0, self.kit.now, ending));
        }
    }

    /// At the end of the process.
    pub(super) fn end_all(&mut self) {
        for place in 0..self.sessions.places() {
            if let Some(entry) = self.sessions.end(place) {
                self.over(entry.session, Ending::Shutdown);
            }
        }
        self.with_flows(|udp, context| udp.end_all(Ending::Shutdown, context));
        self.flush_log();
    }

    fn write_down(&mut self, session: &Session<TcpStream>, ending: Ending) {
        let facts = &session.facts;
        let (up, down) = (session.up.bytes, session.down.bytes);
        let counters = self.kit.counters();
        counters.ended(ending);
        counters.up(up);
        counters.down(down);
        if let Some(place) = &facts.place {
            let cell = place.stats.cell(self.kit.number);
            cell.taken();
            cell.carried(up, down);
            cell.ended(ending);
        }
        if let Some(route) = &facts.route {
            let cell = route.stats.cell(self.kit.number);
            match &facts.backend {
                Some(backend) if session.is_relaying() => {
                    cell.connected();
                    cell.carried(up, down);
                    backend.stats.cell(self.kit.number).carried(up, down);
                }
                _ => cell.failed(),
            }
        }
        if ending.is_refusal() {
            self.keep_refusal(facts, ending);
        }
        if let Some(log) = &self.log {
            let tls = session.client.tls.as_ref().and_then(|tls| {
                let agreed = tls.agreed();
                Some(Tls { version: agreed.version?, alpn: agreed.alpn })
            });
            log.borrow_mut().write(&record(facts, tls, up, down, self.kit.now, ending));
        }
    }

    /// Where the tables had taken it in, the steps are made here: how they came to that, and where it led.
    fn keep_refusal(&self, facts: &Facts, ending: Ending) {
        let wall = self.kit.wall;
        let steps = match &facts.trace {
            Traced::NotWanted => return,
            Traced::Steps(steps) => steps.clone(),
            Traced::NotAsked if !self.shared.journal.wants(wall) => return,
            Traced::NotAsked => facts.listener.as_ref().map_or_else(Vec::new, |listener| {
                let hello = Hello { sni: facts.server_name.as_deref(), alpn: &[] };
                let hello = (listener.handling != Handling::Tcp).then_some(hello);
                let connection =
                    Connection { local: facts.planned_local(), transport: Transport::Tcp, hello };
                self.kit.snapshot.refusal(&connection, facts.backend.as_deref(), ending.reason())
            }),
        };
        self.shared.journal.keep(refused(facts, steps, wall, ending));
    }

    /// Gives the connection to the HTTP engine, with what was read of it.
    pub(super) fn hand_over(&mut self, session: Session<TcpStream>, what: HandOver) {
        if session.client.watched != Watched::No {
            // What tokio watches nobody else may.
            let _ = epoll::delete(&self.epoll, &session.client.stream);
        }
        let Session { client, facts, .. } = session;
        let (from, local) = (facts.client, facts.planned_local());
        let occupied = Occupied::by_one_more(&self.occupied);
        let place = ConnectionPlace::new(&self.shared, self.log.clone(), self.kit.number, facts, occupied);
        let stream = std::net::TcpStream::from(client.stream.into_fd());
        // Fails only where the runtime has no room for it; the client sees a connection that is closed.
        let stream = match tokio::net::TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => return place.ends(Ending::OutOfResources, Some(&error)),
        };
        let tls = match what {
            HandOver::Http => None,
            HandOver::Challenge { config, read } => {
                tokio::task::spawn_local(prove(stream, read, config, place));
                return;
            }
            HandOver::Https { listener, config, version, read } => {
                Some(Https { listener, config, version, read })
            }
        };
        let connection = HttpConnection { stream, client: from, local, tls, place };
        tokio::task::spawn_local(self.http.serve(connection));
    }
}

/// Shows the certificate that a CA looks for, and nothing else.
async fn prove(
    stream: tokio::net::TcpStream,
    read: Vec<u8>,
    config: Arc<rustls::ServerConfig>,
    _place: ConnectionPlace,
) {
    let _ = tokio::time::timeout(PROOF, async {
        let mut shown = TlsAcceptor::from(config).accept(Rewound::new(read, stream)).await?;
        shown.shutdown().await
    })
    .await;
}

pub(crate) fn record<'a>(
    facts: &'a Facts,
    tls: Option<Tls<'a>>,
    up: u64,
    down: u64,
    now: std::time::Instant,
    ending: Ending,
) -> Record<'a> {
    Record {
        start: facts.started,
        protocol: facts.listener.as_ref().map_or("TCP", |listener| listener.handling.as_str()),
        client: facts.client,
        local: facts.local,
        sni: facts.server_name.as_deref(),
        tls,
        listener: facts.listener.as_ref().map(|listener| &listener.id),
        route: facts.route.as_ref().map(|route| &route.id),
        backend: facts.backend.as_ref().map(|backend| &backend.plan.id),
        endpoint: facts.endpoint.as_ref().map(|endpoint| endpoint.address),
        up,
        down,
        duration: now.duration_since(facts.began),
        ending,
        detail: facts.detail.as_ref().map(|detail| detail as &dyn std::fmt::Display),
        request: None,
    }
}

pub(crate) fn refused(facts: &Facts, steps: Vec<Step>, at: SystemTime, ending: Ending) -> Refused {
    Refused {
        at,
        client: facts.client,
        local: facts.local,
        sni: facts.server_name.as_deref().map(str::to_owned),
        listener: facts.listener.as_ref().map(|listener| listener.id.clone()),
        ending,
        detail: facts.detail.as_deref().map(str::to_owned),
        steps,
    }
}
