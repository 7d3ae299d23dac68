//! Pools of connections, one for each (endpoint, TLS, protocol) on each worker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tidegate_plan::{BackendId, ObjectName};
use tidegate_proxy::{Bounds, Endpoint, PipePool, Snapshot, TlsTo};

use super::{Destination, Speaks, h1, h2};
use crate::clock::Clock;
use crate::flush::Flushes;
use crate::rules::PointerMap;

pub(crate) struct Pools {
    all: RefCell<PointerMap<Key, Rc<Pool>>>,
    most_idle: usize,
    time: Duration,
    /// The snapshot that they were last held against.
    seen: RefCell<Weak<Snapshot>>,
    tended: Cell<Instant>,
    clock: Rc<Clock>,
    flushes: Rc<Flushes>,
    pipes: PipePool,
}

/// What connections must have in common. A pool holds what the addresses stand for, so that they stand for nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    endpoint: usize,
    tls: usize,
    speaks: Speaks,
}

pub(super) struct Pool {
    backend: BackendId,
    gateway: ObjectName,
    endpoint: Arc<Endpoint>,
    tls: Option<TlsTo>,
    pub(super) idle: h1::Idle,
    pub(super) shared: h2::Shared,
    pub(super) most_idle: usize,
    closed: Cell<bool>,
    pub(super) clock: Rc<Clock>,
    pub(super) flushes: Rc<Flushes>,
    pub(super) pipes: PipePool,
}

/// How often idle connections are looked at.
const TENDED: Duration = Duration::from_secs(1);

impl Pools {
    pub(crate) fn new(bounds: &Bounds, clock: &Rc<Clock>, flushes: &Rc<Flushes>, pipes: &PipePool) -> Self {
        Self {
            pipes: pipes.clone(),
            clock: Rc::clone(clock),
            flushes: Rc::clone(flushes),
            all: RefCell::default(),
            most_idle: bounds.idle_upstream,
            time: bounds.idle_upstream_time,
            seen: RefCell::default(),
            tended: Cell::new(clock.now()),
        }
    }

    pub(super) fn pool(&self, to: &Destination, endpoint: &Arc<Endpoint>) -> Rc<Pool> {
        let key = Key {
            endpoint: Arc::as_ptr(endpoint).addr(),
            tls: to.tls.as_ref().map_or(0, |tls| Arc::as_ptr(&tls.config).addr()),
            speaks: to.speaks,
        };
        let mut all = self.all.borrow_mut();
        let pool = all.entry(key).or_insert_with(|| {
            Rc::new(Pool {
                backend: to.backend.plan.id.clone(),
                gateway: to.gateway.clone(),
                endpoint: Arc::clone(endpoint),
                tls: to.tls.clone(),
                idle: h1::Idle::default(),
                shared: h2::Shared::default(),
                most_idle: self.most_idle,
                closed: Cell::new(false),
                clock: Rc::clone(&self.clock),
                flushes: Rc::clone(&self.flushes),
                pipes: self.pipes.clone(),
            })
        });
        Rc::clone(pool)
    }

    /// Closes pools whose connections would not be made today as they were, and lets go of what rests for too long.
    /// Says whether the snapshot is another than before.
    pub(crate) fn tend(&self, snapshot: &Arc<Snapshot>, now: Instant) -> bool {
        // Held weakly, so that no other comes to have its address.
        let changed = !std::ptr::eq(self.seen.borrow().as_ptr(), Arc::as_ptr(snapshot));
        if changed {
            *self.seen.borrow_mut() = Arc::downgrade(snapshot);
            self.all.borrow_mut().retain(|_, pool| {
                let stays =
                    snapshot.still_reaches(&pool.backend, &pool.endpoint, &pool.gateway, pool.tls.as_ref());
                if !stays {
                    pool.close();
                }
                stays
            });
        }
        if now.duration_since(self.tended.get()) >= TENDED {
            self.tended.set(now);
            self.all.borrow_mut().retain(|_, pool| {
                let (idle, shared) = (pool.idle.tend(now, self.time), pool.shared.tend(now, self.time));
                // One that is in use is held by who uses it.
                !(idle && shared && Rc::strong_count(pool) == 1)
            });
        }
        changed
    }
}

impl Pool {
    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    fn close(&self) {
        self.closed.set(true);
        self.idle.clear();
        self.shared.clear();
    }
}
