//! From a backend to a connection with one of its endpoints: another is asked where one refuses or keeps silent,
//! within the time there is for all of them.

use std::fmt::Display;
use std::io;
use std::mem;
use std::net::SocketAddr;

use tidegate_plan::Reason;

use crate::engine::end::{Broken, End, Read};
use crate::engine::scratch::Scratch;
use crate::engine::session::{Next, Phase, Session, Step, World, count_handshake};
use crate::engine::stream::{Network, Pipes, Stream};
use crate::engine::wheel::Tick;
use crate::observe::{ConnectFailure, Side};
use crate::tls::Codec;
use crate::upstream::{Backend, Lease};
use crate::{Bounds, Ending};

/// Bytes for the backend that are there before it is.
pub(super) enum InHand {
    /// At the beginning of what was read last.
    Read(usize),
    /// In a vector of their own, because they came in pieces.
    Kept(Vec<u8>),
    /// What the session holds: plaintext that came with the end of the handshake.
    Held,
}

/// Waiting for an endpoint to answer, or to end its handshake.
pub(super) struct Dialing {
    /// Those that did not.
    failed: Vec<SocketAddr>,
    /// When this one was asked.
    asked: Tick,
}

/// A third of the time for all is what one endpoint has, as long as there is another to ask.
const SHARE: u32 = 3;

impl Dialing {
    pub(super) fn deadline(&self, bounds: &Bounds) -> Tick {
        self.asked.after(bounds.connect_time / SHARE)
    }
}

impl InHand {
    pub(super) fn into_vec(self, scratch: &Scratch) -> Vec<u8> {
        match self {
            Self::Read(count) => scratch.read[..count].to_vec(),
            Self::Kept(bytes) => bytes,
            Self::Held => Vec::new(),
        }
    }
}

/// What asking one endpoint came to.
enum Asked {
    /// It took bytes, so it is there.
    Answered,
    Pending,
    Failed(io::Error),
}

impl<S: Stream> Session<S> {
    /// Asks for a connection with the backend, and gives it what is in hand at once if it answers at once.
    pub(super) fn dial<N, P>(&mut self, world: &mut World<'_, N, P>, bytes: InHand) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        self.dialed = world.now;
        let read = match bytes {
            InHand::Read(count) => count,
            InHand::Held => 0,
            InHand::Kept(bytes) => {
                self.held = bytes;
                0
            }
        };
        self.ask(world, Vec::new(), read)
    }

    /// Asks endpoints until one does not refuse. What it is given first is what the session holds, or the first
    /// `read` bytes of what was read last: these are copied only if they must wait.
    fn ask<N, P>(
        &mut self,
        world: &mut World<'_, N, P>,
        mut failed: Vec<SocketAddr>,
        read: usize,
    ) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        let backend = self.facts.backend.clone().ok_or(Ending::Refused(Reason::NoBackends))?;
        loop {
            let client = self.facts.client.ip();
            let Some(endpoint) = backend.pick(client, &failed, world.random, world.instant) else {
                let asked = !failed.is_empty();
                return Err(if asked { Ending::ConnectFailed } else { Reason::NoEndpoints.into() });
            };
            let address = endpoint.address;
            self.facts.endpoint = Some(Lease::new(endpoint));
            world.counters.connecting();
            match self.ask_endpoint(address, &backend, world, read)? {
                Asked::Answered => return self.answered(failed, world),
                Asked::Pending => {
                    return Ok(Step::Go(Phase::Dialing(Box::new(Dialing { failed, asked: world.now }))));
                }
                Asked::Failed(error) => {
                    let failure = ConnectFailure::from(&error);
                    self.endpoint_failed(failure, &error, world);
                    if !failure.is_of_endpoint() {
                        return Err(Ending::OutOfResources);
                    }
                    failed.push(address);
                }
            }
        }
    }

    fn ask_endpoint<N, P>(
        &mut self,
        address: SocketAddr,
        backend: &Backend,
        world: &mut World<'_, N, P>,
        read: usize,
    ) -> Result<Asked, Ending>
    where
        N: Network<Stream = S>,
    {
        let tls = self.backend_tls(backend, world)?;
        let Scratch { read: buffer, wire, .. } = &mut *world.scratch;
        if tls.is_some() && read > 0 {
            self.held = buffer[..read].to_vec();
        }
        let first = match &tls {
            Some(_) => wire.as_slice(),
            None if read > 0 => &buffer[..read],
            None => self.held.as_slice(),
        };
        let mut end = match world.network.connect(address, !first.is_empty()) {
            Ok(stream) => End::new(stream),
            Err(error) => return Ok(Asked::Failed(error)),
        };
        end.readable = false;
        let asked = if first.is_empty() {
            Asked::Pending
        } else {
            match end.stream.send(first) {
                Ok(sent) => {
                    if sent < first.len() {
                        end.writable = false;
                        end.out.push(&first[sent..]);
                    }
                    Asked::Answered
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Asked::Pending,
                Err(error) => Asked::Failed(error),
            }
        };
        match (&asked, tls.is_some()) {
            (Asked::Answered, false) => {
                self.up.bytes += first.len() as u64;
                self.held = Vec::new();
            }
            (Asked::Pending, true) => end.out.push(first),
            (Asked::Pending, false) if read > 0 => self.held = first.to_vec(),
            _ => {}
        }
        end.writable &= !matches!(asked, Asked::Pending);
        end.tls = tls;
        self.backend = Some(end);
        Ok(asked)
    }

    /// The codec for a backend that is spoken to in TLS; its first words are in [`Scratch::wire`] then.
    fn backend_tls<N, P>(
        &mut self,
        backend: &Backend,
        world: &mut World<'_, N, P>,
    ) -> Result<Option<Box<Codec>>, Ending> {
        let Some(listener) = &self.facts.listener else { return Ok(None) };
        let agreed = self.client.tls.as_ref().and_then(|tls| tls.agreed().alpn);
        let Some(mut codec) = world.snapshot.backend_tls(backend, &listener.id.gateway, agreed)? else {
            return Ok(None);
        };
        let Scratch { plain, wire, .. } = &mut *world.scratch;
        wire.clear();
        if let Err(error) = codec.receive(&mut [], plain, wire) {
            self.facts.say(error);
            return Err(Ending::BackendHandshakeFailed);
        }
        Ok(Some(Box::new(codec)))
    }

    fn endpoint_failed<N, P>(
        &mut self,
        failure: ConnectFailure,
        why: &dyn Display,
        world: &mut World<'_, N, P>,
    ) {
        self.backend = None;
        world.counters.connect_failed(failure);
        if let Some(backend) = &self.facts.backend {
            backend.stats.cell(world.worker).failed();
        }
        if let Some(endpoint) = &self.facts.endpoint
            && failure.is_of_endpoint()
        {
            endpoint.failed(world.instant);
        }
        self.facts.say(why);
    }

    /// An endpoint that is to speak TLS has still to show that it does.
    fn answered<N, P>(
        &mut self,
        failed: Vec<SocketAddr>,
        world: &mut World<'_, N, P>,
    ) -> Result<Step, Ending> {
        if self.backend.as_ref().is_some_and(|backend| backend.tls.is_some()) {
            return Ok(Step::Go(Phase::BackendHandshake(Box::new(Dialing { failed, asked: world.now }))));
        }
        self.endpoint_serves(world);
        self.begin_relay(world)
    }

    fn endpoint_serves<N, P>(&mut self, world: &World<'_, N, P>) {
        if let (Some(endpoint), Some(backend)) = (&self.facts.endpoint, &self.facts.backend) {
            endpoint.connected();
            backend.stats.cell(world.worker).connected();
        }
        self.facts.detail = None;
    }

    pub(super) fn wait_for_backend<N, P>(&mut self, world: &mut World<'_, N, P>) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        self.still_there()?;
        let Some(backend) = &mut self.backend else { return Err(Ending::ConnectFailed) };
        if !backend.writable && !backend.readable {
            return Ok(Step::Stay(Next::Wait));
        }
        match backend.stream.connected() {
            Ok(()) => {
                let failed = self.failed_before();
                self.answered(failed, world)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                backend.writable = false;
                Ok(Step::Stay(Next::Wait))
            }
            Err(error) => {
                self.endpoint_failed(ConnectFailure::from(&error), &error, world);
                let failed = self.all_failed();
                self.ask(world, failed, 0)
            }
        }
    }

    fn failed_before(&mut self) -> Vec<SocketAddr> {
        match &mut self.phase {
            Phase::Dialing(dialing) | Phase::BackendHandshake(dialing) => mem::take(&mut dialing.failed),
            _ => Vec::new(),
        }
    }

    fn all_failed(&mut self) -> Vec<SocketAddr> {
        let mut failed = self.failed_before();
        failed.extend(self.facts.endpoint.as_ref().map(|endpoint| endpoint.address));
        failed
    }

    /// An endpoint has kept silent: another is asked, if there is one and time for it.
    pub(super) fn give_up_waiting<N, P>(&mut self, world: &mut World<'_, N, P>) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        let late = io::Error::from(io::ErrorKind::TimedOut);
        if self.dialed.after(world.bounds.connect_time) <= world.now {
            self.endpoint_failed(ConnectFailure::TimedOut, &late, world);
            return Err(Ending::ConnectTimeout);
        }
        let failed = self.all_failed();
        let backend = self.facts.backend.clone();
        let client = self.facts.client.ip();
        let other = backend.and_then(|backend| backend.pick(client, &failed, world.random, world.instant));
        if other.is_none() {
            let dialing = Box::new(Dialing { failed, asked: world.now });
            let shaking = matches!(self.phase, Phase::BackendHandshake(_));
            return Ok(Step::Go(if shaking {
                Phase::BackendHandshake(dialing)
            } else {
                Phase::Dialing(dialing)
            }));
        }
        self.endpoint_failed(ConnectFailure::TimedOut, &late, world);
        self.ask(world, failed, 0)
    }

    pub(super) fn shake_hands_with_backend<N, P>(
        &mut self,
        world: &mut World<'_, N, P>,
    ) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        self.still_there()?;
        let Some(backend) = &mut self.backend else { return Err(Ending::BackendHandshakeFailed) };
        let mut early = Vec::new();
        let result = loop {
            if let Err(broken) = backend.flush() {
                break Err(broken);
            }
            let shaking = backend.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
            if !shaking || !backend.readable {
                break Ok(!shaking);
            }
            match backend.read(world.scratch) {
                Ok(Read::Ended) => break Err(Broken::Socket(io::ErrorKind::UnexpectedEof.into())),
                Ok(Read::Plain) => early.extend_from_slice(&world.scratch.plain),
                Ok(Read::Nothing | Read::Bytes(_)) => {}
                Err(broken) => break Err(broken),
            }
        };
        match result {
            Err(broken) => self.handshake_failed(&broken, world),
            Ok(false) => Ok(Step::Stay(Next::Wait)),
            Ok(true) => {
                count_handshake(Side::Backend, backend, world.counters);
                self.endpoint_serves(world);
                if !early.is_empty() {
                    self.down.bytes += early.len() as u64;
                    let written = self.client.write(&early, &mut world.scratch.wire);
                    written.map_err(|broken| self.client_broke(broken, Ending::ClientReset))?;
                }
                self.begin_relay(world)
            }
        }
    }

    /// The endpoint does not speak TLS, or not as it must. The client's bytes are all still here: another is asked.
    fn handshake_failed<N, P>(&mut self, broken: &Broken, world: &mut World<'_, N, P>) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        if let Some(backend) = &mut self.backend {
            // The alert; that it does not get through changes nothing.
            let _ = backend.flush();
        }
        let why: &dyn Display = match broken {
            Broken::Socket(error) => error,
            Broken::Tls(error) => error,
        };
        self.endpoint_failed(ConnectFailure::Tls, why, world);
        let failed = self.all_failed();
        let last = failed.last().copied();
        let asked = self.ask(world, failed, 0);
        let none_left = self.facts.endpoint.as_ref().map(|endpoint| endpoint.address) == last;
        if matches!(asked, Err(Ending::ConnectFailed)) && none_left {
            self.client.stream.reset();
            return Err(Ending::BackendHandshakeFailed);
        }
        asked
    }
}
