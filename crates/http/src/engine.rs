//! The engine on each worker: what its connections share, and what it hears from its worker.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_proxy::{Bounds, Ending, HttpConnection, HttpEngine, HttpKit, HttpWorker};

use crate::client::{self, Guests};
use crate::clock::Clock;
use crate::exchange;
use crate::flush::Flushes;
use crate::limits::Limits;
use crate::networks::Networks;
use crate::rules::{AllExtras, Budgets, Rules, SharedRules};
use crate::session::SessionSecret;
use crate::upstream::Pools;

/// What holds for all HTTP of a process and is not in its plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// Proxies whose word about their clients counts.
    pub trusted: Networks,
    /// Whether error answers name their reason in a header.
    pub reasons: bool,
    /// What the tokens of sessions are made with; replicas that share it know each other's.
    pub secret: SessionSecret,
}

impl Options {
    /// With a secret that dies with the process.
    pub fn new(trusted: Networks, reasons: bool) -> io::Result<Self> {
        let mut secret = [0; 32];
        aws_lc_rs::rand::fill(&mut secret)
            .map_err(|_| io::Error::other("the machine gives no random numbers"))?;
        Ok(Self { trusted, reasons, secret: SessionSecret::new(&secret) })
    }
}

/// The HTTP engine.
#[derive(Debug)]
pub struct Engine {
    options: Arc<Options>,
    budgets: Arc<Budgets>,
    rules: Arc<SharedRules>,
    start: Instant,
}

impl Engine {
    #[must_use]
    pub fn new(options: Options) -> Self {
        // Nobody listens to what h2 says with every frame. Until that is known, other libraries have it offered to `log`.
        let _ = tracing::dispatcher::set_global_default(tracing::Dispatch::none());
        Self {
            options: Arc::new(options),
            budgets: Arc::default(),
            rules: Arc::default(),
            start: Instant::now(),
        }
    }

    pub(crate) fn home(&self, kit: HttpKit) -> Rc<Home> {
        let (clock, flushes) = (Rc::new(Clock::new()), Rc::default());
        Rc::new(Home {
            options: Arc::clone(&self.options),
            pools: Pools::new(&kit.bounds(), &clock, &flushes, &kit.pipes),
            rules: Rules::new(Arc::clone(&self.rules)),
            extras: AllExtras::new(Arc::clone(&self.budgets)),
            limits: limits(&kit.bounds()),
            start: self.start,
            clock,
            flushes,
            guests: Rc::default(),
            mirrors: Cell::new(0),
            kit,
        })
    }
}

impl HttpEngine for Engine {
    fn on_worker(&self, kit: HttpKit) -> Box<dyn HttpWorker> {
        Box::new(Worker(self.home(kit)))
    }
}

/// What all connections of one worker share.
pub(crate) struct Home {
    pub(crate) kit: HttpKit,
    pub(crate) options: Arc<Options>,
    pub(crate) pools: Pools,
    pub(crate) rules: Rules,
    pub(crate) extras: AllExtras,
    pub(crate) limits: Limits,
    /// Of the engine: all workers count from it.
    start: Instant,
    pub(crate) clock: Rc<Clock>,
    pub(crate) flushes: Rc<Flushes>,
    pub(crate) guests: Rc<Guests>,
    /// Copies of requests under way.
    pub(crate) mirrors: Cell<usize>,
}

impl Home {
    /// How long the engine has been there.
    pub(crate) fn age(&self) -> Duration {
        self.start.elapsed()
    }
}

fn limits(bounds: &Bounds) -> Limits {
    Limits { headers: bounds.header_count, header_bytes: bounds.header_size, target: bounds.uri_size }
}

pub(crate) struct Worker(pub(crate) Rc<Home>);

impl HttpWorker for Worker {
    fn serve(&self, connection: HttpConnection) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(client::serve(Rc::clone(&self.0), connection, exchange::serve))
    }

    fn tick(&self) {
        let Home { kit, pools, guests, extras, clock, .. } = &*self.0;
        clock.turn();
        let snapshot = kit.snapshot();
        if pools.tend(&snapshot, clock.now()) {
            extras.forget();
        }
        guests.continue_walk(&snapshot, kit.bounds().drain_time);
    }

    fn look_again(&self) {
        self.0.rules.forget();
        self.0.guests.begin_walk();
    }

    fn drain(&self, time: Duration) {
        self.0.guests.end_all(Instant::now() + time, Ending::Shutdown);
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Home")
    }
}
