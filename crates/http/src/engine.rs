//! The engine on each worker: what its connections share, and what it hears from its worker.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_proxy::{Ending, HttpConnection, HttpEngine, HttpKit, HttpWorker};

use crate::client::{self, Guests};
use crate::networks::Networks;
use crate::rules::Rules;
use crate::upstream::Pools;

/// What holds for all HTTP of a process and is not in its plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Proxies whose word about their clients counts.
    pub trusted: Networks,
    /// Whether error answers name their reason in a header.
    pub reasons: bool,
}

/// The HTTP engine.
#[derive(Debug, Default)]
pub struct Engine {
    options: Arc<Options>,
}

impl Engine {
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options: Arc::new(options) }
    }
}

impl HttpEngine for Engine {
    fn on_worker(&self, kit: HttpKit) -> Box<dyn HttpWorker> {
        Box::new(Worker(Rc::new(Home {
            options: Arc::clone(&self.options),
            pools: Pools::new(kit.bounds()),
            rules: Rules::default(),
            guests: Guests::default(),
            mirrors: Cell::new(0),
            kit,
        })))
    }
}

/// What all connections of one worker share.
pub(crate) struct Home {
    pub(crate) kit: HttpKit,
    pub(crate) options: Arc<Options>,
    pub(crate) pools: Pools,
    pub(crate) rules: Rules,
    pub(crate) guests: Guests,
    /// Copies of requests under way.
    pub(crate) mirrors: Cell<usize>,
}

struct Worker(Rc<Home>);

impl HttpWorker for Worker {
    fn serve(&self, connection: HttpConnection) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(client::serve(Rc::clone(&self.0), connection))
    }

    fn tick(&self) {
        let Home { kit, pools, guests, .. } = &*self.0;
        let snapshot = kit.snapshot();
        pools.tend(&snapshot, Instant::now());
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
