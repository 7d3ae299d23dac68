//! A connection from its first byte to its last: hello, handshake, backend, relay. Each step either goes on, waits
//! for one of the two sockets or for its deadline, or ends the connection.

use std::io;
use std::mem;
use std::time::Instant;

use tidegate_hello::Reader;
use tidegate_plan::Expects;

use crate::engine::dial::{Dialing, InHand};
use crate::engine::end::{Broken, End, Read};
use crate::engine::facts::Facts;
use crate::engine::hand_over::HandOver;
use crate::engine::lane::{Fault, Lane};
use crate::engine::scratch::Scratch;
use crate::engine::stream::{Network, Pipes, Stream};
use crate::engine::wheel::Tick;
use crate::observe::{Counters, Journal, Side};
use crate::snapshot::Snapshot;
use crate::tls::Challenges;
use crate::upstream::Random;
use crate::{Bounds, Ending};

pub(crate) struct Session<S: Stream> {
    pub(crate) client: End<S>,
    pub(crate) backend: Option<End<S>>,
    pub(crate) up: Lane<S::Pipe>,
    pub(crate) down: Lane<S::Pipe>,
    pub(super) phase: Phase,
    pub(crate) facts: Facts,
    /// Plaintext that came before there was a backend to take it.
    pub(super) held: Vec<u8>,
    accepted: Tick,
    /// When the phase began.
    since: Tick,
    /// When the first endpoint was asked.
    pub(super) dialed: Tick,
    active: Tick,
    /// Set when what it was made under is gone.
    pub(crate) drain: Option<(Tick, Ending)>,
}

pub(super) enum Phase {
    /// Nothing was read yet.
    Fresh(Expects),
    Hello(Box<Hello>),
    /// With the client.
    Handshake,
    Dialing(Box<Dialing>),
    BackendHandshake(Box<Dialing>),
    Relay,
}

/// A ClientHello that did not come in one piece.
pub(super) struct Hello {
    pub(super) reader: Reader,
    pub(super) seen: Vec<u8>,
}

/// What a connection needs of its worker while it is being looked at.
pub(crate) struct World<'w, N, P> {
    pub(crate) network: &'w mut N,
    pub(crate) pipes: &'w mut P,
    pub(crate) scratch: &'w mut Scratch,
    pub(crate) snapshot: &'w Snapshot,
    pub(crate) bounds: &'w Bounds,
    pub(crate) counters: &'w Counters,
    pub(crate) journal: &'w Journal,
    pub(crate) challenges: &'w Challenges,
    pub(crate) random: &'w mut Random,
    /// The number of the worker.
    pub(crate) worker: usize,
    pub(crate) now: Tick,
    pub(crate) instant: Instant,
}

/// What to do with a connection after it was looked at.
#[derive(Debug)]
pub(crate) enum Next {
    /// It waits for a socket or its deadline.
    Wait,
    /// It had its share of the turn and has more to do.
    Again,
    HandOver(HandOver),
    Over(Ending),
}

pub(super) enum Step {
    /// Another phase, to be looked at right away.
    Go(Phase),
    Stay(Next),
}

/// Bytes that one connection may carry before it is another's turn.
const BUDGET: usize = 1 << 20;

impl<S: Stream> Session<S> {
    pub(crate) fn new(stream: S, expects: Expects, facts: Facts, now: Tick) -> Self {
        Self {
            client: End::new(stream),
            backend: None,
            up: Lane::default(),
            down: Lane::default(),
            phase: Phase::Fresh(expects),
            facts,
            held: Vec::new(),
            accepted: now,
            since: now,
            dialed: now,
            active: now,
            drain: None,
        }
    }

    /// Does all that can be done without waiting.
    pub(crate) fn advance<N, P>(&mut self, world: &mut World<'_, N, P>) -> Next
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        loop {
            let step = match &mut self.phase {
                Phase::Fresh(Expects::Http) => Ok(Step::Stay(Next::HandOver(HandOver::Http))),
                Phase::Fresh(Expects::Bytes) => self.read_first_bytes(world),
                Phase::Fresh(Expects::Hello) | Phase::Hello(_) => self.read_hello(world),
                Phase::Handshake => self.shake_hands(world),
                Phase::Dialing(_) => self.wait_for_backend(world),
                Phase::BackendHandshake(_) => self.shake_hands_with_backend(world),
                Phase::Relay => self.relay(world),
            };
            match step {
                Ok(Step::Stay(next)) => return next,
                Ok(Step::Go(phase)) => {
                    self.phase = phase;
                    self.since = world.now;
                }
                Err(ending) => return Next::Over(ending),
            }
        }
    }

    /// For a TCP route. The client may have said something already; if not, the backend may be the first to speak.
    fn read_first_bytes<N, P>(&mut self, world: &mut World<'_, N, P>) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        let count = match self.client.read(world.scratch) {
            Ok(Read::Bytes(count)) => count,
            Ok(_) => 0,
            Err(broken) => return Err(self.client_broke(broken, Ending::ClientReset)),
        };
        self.admit_bytes(world)?;
        self.dial(world, InHand::Read(count))
    }

    fn shake_hands<N, P>(&mut self, world: &mut World<'_, N, P>) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        while self.client.readable && self.is_handshaking() {
            match self.client.read(world.scratch) {
                Ok(Read::Plain) => self.held.extend_from_slice(&world.scratch.plain),
                Ok(Read::Ended) => return Err(Ending::ClientGone),
                Ok(Read::Nothing | Read::Bytes(_)) => break,
                Err(broken) => return Err(self.client_broke(broken, Ending::ClientGone)),
            }
        }
        if let Err(broken) = self.client.flush() {
            return Err(self.client_broke(broken, Ending::ClientGone));
        }
        if self.is_handshaking() {
            return Ok(Step::Stay(Next::Wait));
        }
        count_handshake(Side::Client, &self.client, world.counters);
        self.dial(world, InHand::Held)
    }

    fn is_handshaking(&self) -> bool {
        self.client.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    fn relay<N, P>(&mut self, world: &mut World<'_, N, P>) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        let Some(backend) = &mut self.backend else { return Err(Ending::ConnectFailed) };
        let carried = self.up.bytes + self.down.bytes;
        let (mut up_budget, mut down_budget) = (BUDGET, BUDGET);
        let World { scratch, pipes, .. } = world;
        let up = self.up.carry(&mut self.client, backend, scratch, *pipes, &mut up_budget);
        let down = self.down.carry(backend, &mut self.client, scratch, *pipes, &mut down_budget);
        if matches!(down, Err(Fault::To(_))) {
            // What the client said last, before it went away.
            let _ = self.up.carry(&mut self.client, backend, scratch, *pipes, &mut up_budget);
        }
        let up = up.map_err(|fault| self.broke(Side::Client, fault))?;
        let down = down.map_err(|fault| self.broke(Side::Backend, fault))?;
        if self.up.bytes + self.down.bytes != carried {
            self.active = world.now;
        }
        if up && down {
            return Err(Ending::Done);
        }
        // A side that ended in order is not read any more, and so does not say that it is gone altogether.
        if down && self.backend.as_ref().is_some_and(|backend| backend.broken) {
            return Err(Ending::BackendReset);
        }
        if up && self.client.broken {
            return Err(Ending::ClientReset);
        }
        let more = up_budget == 0 || down_budget == 0;
        Ok(Step::Stay(if more { Next::Again } else { Next::Wait }))
    }

    /// One side failed in the middle. If it was to send more, the other must not take what it has for the whole; if
    /// it would only take no more, the other has got all there is.
    fn broke(&mut self, from: Side, fault: Fault) -> Ending {
        match (from, fault) {
            (Side::Client, Fault::From(broken)) => self.client_broke(broken, Ending::ClientReset),
            (Side::Backend, Fault::From(broken)) => self.backend_broke(&broken, Ending::BackendReset),
            (_, Fault::To(Broken::Tls(error))) => {
                self.facts.say(error);
                if from == Side::Client { Ending::BackendTls } else { Ending::ClientTls }
            }
            (from, Fault::To(Broken::Socket(error))) => {
                self.note_unless_plain(&error);
                if from == Side::Client { Ending::BackendReset } else { Ending::ClientReset }
            }
        }
    }

    pub(super) fn client_broke(&mut self, broken: Broken, lost: Ending) -> Ending {
        if let Some(backend) = &self.backend {
            backend.stream.reset();
        }
        match broken {
            Broken::Socket(error) => {
                self.note_unless_plain(&error);
                lost
            }
            Broken::Tls(error) => {
                self.facts.say(error);
                // The alert; that it does not get through changes nothing.
                let _ = self.client.flush();
                if self.is_relaying() { Ending::ClientTls } else { Ending::HandshakeFailed }
            }
        }
    }

    pub(super) fn backend_broke(&mut self, broken: &Broken, lost: Ending) -> Ending {
        self.client.stream.reset();
        match broken {
            Broken::Socket(error) => {
                self.note_unless_plain(error);
                lost
            }
            Broken::Tls(error) => {
                self.facts.say(error);
                if let Some(backend) = &mut self.backend {
                    let _ = backend.flush();
                }
                Ending::BackendTls
            }
        }
    }

    /// A reset is said by the ending; other errors say more.
    fn note_unless_plain(&mut self, error: &io::Error) {
        if !matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) {
            self.facts.say(error);
        }
    }

    /// When it must be looked at, if nothing happens before.
    pub(crate) fn deadline(&self, bounds: &Bounds) -> Tick {
        let of_phase = match &self.phase {
            Phase::Fresh(_) | Phase::Hello(_) => self.accepted.after(bounds.hello_time),
            Phase::Handshake => self.since.after(bounds.handshake_time),
            Phase::Dialing(dialing) | Phase::BackendHandshake(dialing) => {
                dialing.deadline(bounds).min(self.dialed.after(bounds.connect_time))
            }
            Phase::Relay => self.active.after(self.quiet_time(bounds)),
        };
        let of_life = bounds.lifetime.map_or(Tick::NEVER, |lifetime| self.accepted.after(lifetime));
        let of_drain = self.drain.map_or(Tick::NEVER, |(deadline, _)| deadline);
        of_phase.min(of_life).min(of_drain)
    }

    fn quiet_time(&self, bounds: &Bounds) -> std::time::Duration {
        if self.is_half_open() { bounds.half_open_time.min(bounds.idle_time) } else { bounds.idle_time }
    }

    fn is_half_open(&self) -> bool {
        self.client.ended || self.backend.as_ref().is_some_and(|backend| backend.ended)
    }

    /// What follows from a deadline that has passed.
    pub(crate) fn expire<N, P>(&mut self, world: &mut World<'_, N, P>) -> Next
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        if let Some((deadline, ending)) = self.drain
            && deadline <= world.now
        {
            return Next::Over(ending);
        }
        if world.bounds.lifetime.is_some_and(|lifetime| self.accepted.after(lifetime) <= world.now) {
            return Next::Over(Ending::LifetimeOver);
        }
        match &self.phase {
            Phase::Fresh(_) | Phase::Hello(_) => Next::Over(Ending::HelloTimeout),
            Phase::Handshake => Next::Over(Ending::HandshakeTimeout),
            Phase::Dialing(_) | Phase::BackendHandshake(_) => match self.give_up_waiting(world) {
                Ok(Step::Go(phase)) => {
                    self.phase = phase;
                    self.since = world.now;
                    self.advance(world)
                }
                Ok(Step::Stay(next)) => next,
                Err(ending) => Next::Over(ending),
            },
            Phase::Relay if self.is_half_open() => Next::Over(Ending::HalfOpenTimeout),
            Phase::Relay => Next::Over(Ending::IdleTimeout),
        }
    }

    /// Whether a backend has taken it.
    pub(crate) fn is_relaying(&self) -> bool {
        matches!(self.phase, Phase::Relay)
    }

    /// A client that has reset is gone for good; one that has only ended its half waits for an answer.
    pub(super) fn still_there(&mut self) -> Result<(), Ending> {
        if !self.client.broken {
            return Ok(());
        }
        let reset = Broken::Socket(io::ErrorKind::ConnectionReset.into());
        Err(self.client_broke(reset, Ending::ClientReset))
    }

    /// The backend is there: everything that waited for it goes on.
    pub(super) fn begin_relay<N, P>(&mut self, world: &mut World<'_, N, P>) -> Result<Step, Ending> {
        let held = mem::take(&mut self.held);
        self.active = world.now;
        if !held.is_empty()
            && let Some(backend) = &mut self.backend
        {
            self.up.bytes += held.len() as u64;
            let written = backend.write(&held, &mut world.scratch.wire);
            written.map_err(|broken| self.backend_broke(&broken, Ending::BackendReset))?;
        }
        Ok(Step::Go(Phase::Relay))
    }
}

pub(super) fn count_handshake<S: Stream>(side: Side, end: &End<S>, counters: &Counters) {
    let Some(tls) = &end.tls else { return };
    let agreed = tls.agreed();
    if let Some(version) = agreed.version {
        counters.handshake(side, version, agreed.resumed);
    }
}
