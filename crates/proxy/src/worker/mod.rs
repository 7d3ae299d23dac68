//! One thread of the data plane. It has sockets of its own for every port and an epoll of its own for all its
//! connections, which is one descriptor to the tokio runtime that carries HTTP on the same thread.

mod accept;
mod datagrams;
mod kit;
mod over;
mod sessions;
mod sweep;
mod turn;

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::LocalSet;

pub(crate) use self::accept::Listening;
use self::accept::Open;
use self::kit::Kit;
pub(crate) use self::over::{record, refused};
use self::sessions::Sessions;
use self::sweep::Sweep;
use crate::engine::{Due, Tick, Wheel};
use crate::http::{HttpKit, HttpWorker};
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
    events: Vec<epoll::Event>,
    /// Connections that had their share of a turn and have more to do.
    again: Vec<Due>,
    /// Sockets with more connections than were accepted in a turn.
    accept_again: Vec<usize>,
    due: Vec<Due>,
    sweep: Option<Sweep>,
    /// Set while the machine has no room for connections; nothing is accepted until a tick later.
    paused: bool,
    paused_said: Option<Instant>,
}

/// What a worker is told.
pub(crate) enum Command {
    /// A socket of this worker's own.
    Listen(usize, Listening),
    /// Accept what waits, close the socket, and say so.
    Unlisten(usize, Sender<()>),
    /// Something was removed from what connections were made under.
    Sweep,
    /// End all connections, at the latest so long from now.
    Drain(Duration),
}

/// Turns in a row before tokio's tasks have theirs.
const TURNS: usize = 16;
/// Events looked at in one turn.
const EVENTS: usize = 256;

impl Worker {
    pub(crate) fn new(number: usize, shared: Arc<Shared>, log: Option<LogWriter>) -> io::Result<Self> {
        let kit = Kit::new(number, &shared);
        let log = log.map(|log| Rc::new(RefCell::new(log)));
        let http = shared.http.on_worker(HttpKit::new(&shared, number, log.clone()));
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
            events: Vec::with_capacity(EVENTS),
            again: Vec::new(),
            accept_again: Vec::new(),
            due: Vec::new(),
            sweep: None,
            paused: false,
            paused_said: None,
            shared,
        })
    }

    /// Serves until there is nobody left to give commands.
    pub(crate) fn run(self, commands: UnboundedReceiver<Command>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        LocalSet::new().block_on(&runtime, self.serve(commands))
    }

    async fn serve(mut self, mut commands: UnboundedReceiver<Command>) -> io::Result<()> {
        let epoll = sys::epoll::watch(self.epoll.try_clone()?)?;
        let mut ticks = tokio::time::interval(Tick::LENGTH);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => {
                        self.end_all();
                        return Ok(());
                    }
                },
                ready = epoll.readable() => {
                    let mut ready = ready?;
                    // All is watched by edges: an epoll that told less than there was room for is empty.
                    if self.turns() {
                        ready.clear_ready();
                    }
                }
                _ = ticks.tick() => self.tick(),
            }
            tokio::task::yield_now().await;
        }
    }

    /// `true` when there is nothing more to do for now.
    fn turns(&mut self) -> bool {
        (0..TURNS).any(|_| self.turn())
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
