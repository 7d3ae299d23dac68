//! One thread of the data plane. It has sockets of its own for every port and an epoll of its own for all its
//! connections. It waits in that, or, as long as there is HTTP, in the tokio runtime that carries it on the same
//! thread, to which the epoll is one descriptor.

mod accept;
mod datagrams;
mod kit;
mod orders;
mod over;
mod sessions;
mod sweep;
#[cfg(test)]
mod tests;
mod turn;

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::error::TryRecvError;

pub(crate) use self::accept::Listening;
use self::accept::Open;
use self::kit::Kit;
use self::orders::Ordered;
pub(crate) use self::orders::{Orders, orders};
pub(crate) use self::over::{record, refused};
use self::sessions::Sessions;
use self::sweep::Sweep;
use crate::engine::{Due, Tick, Wheel};
use crate::http::{HttpKit, HttpWorker, Occupied};
use crate::observe::LogWriter;
use crate::shared::Shared;
use crate::sys;
use crate::udp::Udp;

pub(crate) struct Worker {
    shared: Arc<Shared>,
    epoll: OwnedFd,
    /// By the number under which all workers know the sockets of a port.
    listening: Vec<Option<Open>>,
    sessions: Sessions,
    wheel: Wheel,
    kit: Kit,
    udp: Udp,
    /// The HTTP engine writes to it too.
    log: Option<Rc<RefCell<LogWriter>>>,
    http: Box<dyn HttpWorker>,
    /// How many HTTP connections there are, and when there last were any.
    occupied: Rc<Occupied>,
    http_seen: Option<Instant>,
    events: Vec<epoll::Event>,
    /// Connections that had their share of a turn and have more to do.
    again: Vec<Due>,
    /// Sockets with more connections than were accepted in a turn.
    accept_again: Vec<usize>,
    due: Vec<Due>,
    sweep: Option<Sweep>,
    /// Somebody has rung: there may be commands.
    rung: bool,
    next_tick: Instant,
    /// Set while the machine has no room for connections; nothing is accepted until a tick later.
    paused: bool,
    paused_said: Option<Instant>,
}

/// What a worker is told.
pub(crate) enum Command {
    /// A socket of this worker's own.
    Listen(usize, Listening),
    /// Accept what waits, close the socket, and say so. One with datagram flows is closed when these have ended.
    Unlisten(usize, Sender<()>),
    /// Something was removed from what connections were made under.
    Sweep,
    /// End all connections, at the latest so long from now.
    Drain(Duration),
}

/// Turns in a row before tokio's tasks have theirs.
const TURNS: usize = 16;
/// After the last HTTP connection, what it leaves behind (copies of requests, connections to backends) has this long
/// to itself on the runtime; then it is looked at with each tick.
const AFTERMATH: Duration = Duration::from_secs(10);
/// Events looked at in one turn.
const EVENTS: usize = 256;

impl Worker {
    pub(crate) fn new(number: usize, shared: Arc<Shared>, log: Option<LogWriter>) -> io::Result<Self> {
        let kit = Kit::new(number, &shared);
        let log = log.map(|log| Rc::new(RefCell::new(log)));
        let http = shared.http.on_worker(HttpKit::new(&shared, number, log.clone(), kit.pipes.clone()));
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            listening: Vec::new(),
            sessions: Sessions::default(),
            wheel: Wheel::new(kit.tick()),
            udp: Udp::new(
                Arc::clone(&shared.flows),
                &kit.snapshot.bounds,
                Arc::clone(&shared.counters[number].mishaps),
            ),
            kit,
            log,
            http,
            occupied: Rc::default(),
            http_seen: None,
            events: Vec::with_capacity(EVENTS),
            again: Vec::new(),
            accept_again: Vec::new(),
            due: Vec::new(),
            sweep: None,
            rung: true,
            next_tick: Instant::now() + Tick::LENGTH,
            paused: false,
            paused_said: None,
            shared,
        })
    }

    /// Serves until there is nobody left to give commands.
    pub(crate) fn run(self, orders: Ordered) -> io::Result<()> {
        // Not a `LocalSet`, which would poll this future as well with every turn of its tasks.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_io().enable_time().build_local(LocalOptions::default())?.block_on(self.serve(orders))
    }

    async fn serve(mut self, mut orders: Ordered) -> io::Result<()> {
        orders.watch(&self.epoll)?;
        loop {
            let goes_on = if self.is_alone() {
                self.wait_alone(&mut orders)
            } else {
                self.wait_beside_http(&mut orders).await?
            };
            if !goes_on {
                self.end_all();
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    /// Whether the runtime has nothing to do that could not wait for a tick.
    fn is_alone(&mut self) -> bool {
        if self.occupied.is_any() {
            self.http_seen = Some(self.kit.now);
        }
        self.http_seen.is_none_or(|seen| self.kit.now.duration_since(seen) > AFTERMATH)
    }

    /// While there is no HTTP the thread waits in its own epoll, until the next tick. If the runtime's waited for it,
    /// each event would have to wake both. `false`: nobody is left to give commands.
    fn wait_alone(&mut self, orders: &mut Ordered) -> bool {
        while !self.occupied.is_any() {
            if std::mem::take(&mut self.rung) && !self.obey_all(orders) {
                return false;
            }
            if self.kit.now >= self.next_tick {
                self.tick();
                // Those who leave do not ring.
                self.rung = true;
                return true;
            }
            self.turn(self.next_tick - self.kit.now);
        }
        true
    }

    fn obey_all(&mut self, orders: &mut Ordered) -> bool {
        loop {
            match orders.waiting() {
                Ok(command) => self.obey(command),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// The epoll is one descriptor of the runtime's, so that HTTP goes on while nothing happens here.
    async fn wait_beside_http(&mut self, orders: &mut Ordered) -> io::Result<bool> {
        let epoll = sys::epoll::watch(self.epoll.try_clone()?)?;
        let mut tick = std::pin::pin!(tokio::time::sleep_until(self.next_tick.into()));
        loop {
            tokio::select! {
                biased;
                command = orders.next() => match command {
                    Some(command) => self.obey(command),
                    None => return Ok(false),
                },
                ready = epoll.readable() => {
                    let mut ready = ready?;
                    // All is watched by edges: an epoll that told less than there was room for is empty.
                    if self.turns() {
                        ready.clear_ready();
                    }
                }
                () = &mut tick => {
                    self.tick();
                    tick.as_mut().reset(self.next_tick.into());
                    if self.is_alone() {
                        return Ok(true);
                    }
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// `true` when there is nothing more to do for now.
    fn turns(&mut self) -> bool {
        (0..TURNS).any(|_| self.turn(Duration::ZERO))
    }

    fn obey(&mut self, command: Command) {
        self.kit.look_at_clock();
        match command {
            Command::Listen(number, listening) => self.listen(number, listening),
            Command::Unlisten(number, done) => {
                self.unlisten(number);
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
            }
            Command::Sweep => self.begin_sweep(),
            Command::Drain(time) => self.drain(time),
        }
        self.sessions.free_ended();
    }

    /// Every tenth of a second: deadlines, the log, and whatever else has no socket to wake it.
    fn tick(&mut self) {
        self.kit.look_at_clock();
        self.next_tick = self.kit.now + Tick::LENGTH;
        self.kit.take_up_snapshot();
        self.resume_accepting();
        let mut due = std::mem::take(&mut self.due);
        self.wheel.turn(self.kit.tick(), &mut due);
        for due in due.drain(..) {
            self.look_at_deadline(due);
        }
        self.due = due;
        self.continue_sweep();
        self.udp.bound_by(&self.kit.snapshot.bounds);
        self.with_flows(Udp::tick);
        self.sessions.free_ended();
        self.turns();
        self.http.tick();
        self.flush_log();
    }

    fn flush_log(&self) {
        self.log.iter().for_each(|log| log.borrow_mut().flush());
    }
}
