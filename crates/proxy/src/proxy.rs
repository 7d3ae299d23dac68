//! A running data plane.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate_plan::{Body, EndpointsId, Fragment, FragmentId, ListenerHandle, Plan};
use tokio::sync::{oneshot, watch};

use crate::control::Control;
use crate::http::HttpEngine;
use crate::net::descriptor_limit;
use crate::observe::{AccessLog, Metrics, Recent};
use crate::ports::{Ports, SocketState};
use crate::shared::Shared;
use crate::tls::{Challenges, KeptCertificate, TicketSecret};
use crate::upstream::{Names, Resolver};
use crate::worker::{Worker, orders};
use crate::{Bounds, Settings};

pub struct Proxy {
    shared: Arc<Shared>,
    control: Arc<Mutex<Control>>,
    changes: watch::Sender<u64>,
    metrics: Metrics,
    log: Option<AccessLog>,
    threads: Vec<thread::JoinHandle<()>>,
    /// Dropped to end the thread of the control side.
    _running: oneshot::Sender<()>,
}

/// A port that could not be opened is tried again this often.
const RETRY: Duration = Duration::from_secs(1);
/// What the log has to write down the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

impl Proxy {
    /// Starts the workers, which have nothing to do until they are told.
    pub fn start(
        mut settings: Settings,
        log: Option<AccessLog>,
        http: Box<dyn HttpEngine>,
    ) -> io::Result<Self> {
        settings.bounds = settings.bounds.within(descriptor_limit());
        let shared = Arc::new(Shared::new(settings, http));
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for number in 0..shared.settings.workers {
            let (give, ordered) = orders()?;
            let (shared, log) = (Arc::clone(&shared), log.as_ref().map(AccessLog::writer));
            let run = move || {
                let worker = Worker::new(number, shared, log);
                worker.and_then(|worker| worker.run(ordered)).unwrap_or_else(|error| died(number, &error));
            };
            threads.push(thread::Builder::new().name(format!("worker-{number}")).spawn(run)?);
            senders.push(give);
        }
        let secret =
            TicketSecret::random().map_err(|_| io::Error::other("the machine gives no random numbers"))?;
        let ports = Ports::new(&shared.settings, senders);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let control = Arc::new_cyclic(|control: &std::sync::Weak<Mutex<Control>>| {
            let control = control.clone();
            let names = Names::new(runtime.handle().clone(), resolver(), move |answer| {
                if let Some(control) = control.upgrade() {
                    lock(&control).resolved(&answer);
                }
            });
            Mutex::new(Control::new(Arc::clone(&shared), ports, names, secret))
        });
        let changes = watch::Sender::new(0);
        let (running, stopped) = oneshot::channel();
        let (of_thread, changed) = (Arc::clone(&control), changes.clone());
        let run = move || runtime.block_on(look_after(of_thread, changed, stopped));
        threads.push(thread::Builder::new().name("control".to_owned()).spawn(run)?);
        let log_state = log.as_ref().map(|log| Arc::clone(log.state()));
        let metrics = Metrics::new(shared.counters.clone(), Arc::clone(&shared.snapshot), log_state);
        Ok(Self { shared, control, changes, metrics, log, threads, _running: running })
    }

    /// Takes in what changed in a plan; new connections are served by it when this returns.
    pub fn apply(&self, plan: &Plan, fragments: &BTreeSet<FragmentId>, endpoints: &BTreeSet<EndpointsId>) {
        noting_changes(&self.control, &self.changes, |control| control.apply(plan, fragments, endpoints));
    }

    /// What is open, and what is not and why.
    #[must_use]
    pub fn sockets(&self) -> Vec<SocketState> {
        lock(&self.control).ports().states()
    }

    /// Certificates that are shown although their Secrets have them no more.
    #[must_use]
    pub fn kept(&self) -> Arc<[KeptCertificate]> {
        Arc::clone(lock(&self.control).kept())
    }

    /// A fragment of the plan as it is served: a listener with what it keeps.
    #[must_use]
    pub fn served(&self, fragment: &Arc<Fragment>) -> Arc<Fragment> {
        let Body::Listener(listener) = &fragment.body else { return Arc::clone(fragment) };
        let snapshot = self.shared.snapshot.load();
        Arc::clone(snapshot.tables.listener(&listener.id).map_or(fragment, ListenerHandle::fragment))
    }

    /// Says when [`sockets`](Self::sockets) or [`kept`](Self::kept) has something new to say.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What [`metrics`](Self::metrics) is, for whoever serves it.
    pub const METRICS_TYPE: &str = Metrics::CONTENT_TYPE;

    #[must_use]
    pub fn bounds(&self) -> Arc<Bounds> {
        Arc::clone(lock(&self.control).bounds())
    }

    /// Bounds from now on. Connections that are there keep the deadlines they have until something moves these.
    pub fn bound(&self, bounds: Bounds) {
        lock(&self.control).bound(bounds.within(descriptor_limit()));
    }

    /// From now on, session tickets are those of all data planes with this secret.
    pub fn share_tickets(&self, secret: &[u8; 32]) {
        lock(&self.control).share_tickets(secret);
    }

    /// All that was counted, as OpenMetrics text.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.metrics.render()
    }

    /// The last connections that were refused, and why.
    #[must_use]
    pub fn refused(&self) -> Recent {
        self.shared.journal.recent()
    }

    /// What is answered to CAs that want a name proved.
    #[must_use]
    pub fn challenges(&self) -> &Challenges {
        &self.shared.challenges
    }

    /// Connections at this moment.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.active()
    }

    /// For a log file that was renamed.
    pub fn reopen_log(&self) {
        self.log.iter().for_each(AccessLog::reopen);
    }

    /// Datagram flows at this moment.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.shared.flows.flows()
    }

    /// Accepts nothing more and waits for the connections and flows there are, so long at most.
    pub async fn drain(&self, time: Duration) {
        lock(&self.control).drain(time);
        let end = tokio::time::Instant::now() + time;
        while self.connections() + self.flows() > 0 && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends everything that is left.
    pub fn stop(self) {
        let Self { control, log, threads, _running, .. } = self;
        lock(&control).drain(Duration::ZERO);
        drop(_running);
        drop(control);
        for thread in threads {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        if let Some(log) = log {
            log.finish(LAST_LINES);
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("connections", &self.connections()).finish_non_exhaustive()
    }
}

fn died(worker: usize, error: &io::Error) {
    eprintln!("tidegate: worker {worker} has ended: {error}");
}

fn lock(control: &Mutex<Control>) -> MutexGuard<'_, Control> {
    control.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the control side does besides being told: DNS, ports that were not to be had, and certificates that are kept.
async fn look_after(
    control: Arc<Mutex<Control>>,
    changes: watch::Sender<u64>,
    mut stopped: oneshot::Receiver<()>,
) {
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            () = tokio::time::sleep(RETRY) => noting_changes(&control, &changes, Control::retry),
        }
    }
}

fn noting_changes(control: &Mutex<Control>, changes: &watch::Sender<u64>, act: impl FnOnce(&mut Control)) {
    let mut control = lock(control);
    let seen = |control: &Control| (control.ports().states(), Arc::clone(control.kept()));
    let before = seen(&control);
    act(&mut control);
    if seen(&control) != before {
        changes.send_modify(|count| *count += 1);
    }
}

/// Without a configuration the machine itself is asked, as the C library does.
fn resolver() -> Resolver {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 53));
    Resolver::system().or_else(|_| Resolver::at(local)).expect("a resolver with one address can be made")
}
