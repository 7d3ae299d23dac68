//! From the first bytes of a connection to the listener and route that take it.

use std::mem;
use std::sync::Arc;

use tidegate_hello::{Limits, Progress, Reader, SniName};
use tidegate_plan::{Admission, Connection, Expects, HttpVersion, Reason, Refusal, Transport};

use crate::Ending;
use crate::engine::dial::InHand;
use crate::engine::end::Read;
use crate::engine::facts::Traced;
use crate::engine::hand_over::HandOver;
use crate::engine::session::{Hello, Next, Phase, Session, Step, World};
use crate::engine::stream::{Network, Pipes, Stream};
use crate::serving::Place;
use crate::tls::Codec;

/// A client that offers more protocols than this is still routed by the first ones.
const PROTOCOLS: usize = 16;

/// The fatal alert of RFC 7301 3.2, as a record of its own: no handshake has begun.
const NO_APPLICATION_PROTOCOL: [u8; 7] = [21, 3, 3, 0, 2, 2, 120];

impl<S: Stream> Session<S> {
    pub(super) fn read_hello<N, P>(&mut self, world: &mut World<'_, N, P>) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        let mut begun = match mem::replace(&mut self.phase, Phase::Fresh(Expects::Hello)) {
            Phase::Hello(hello) => Some(hello),
            _ => None,
        };
        while self.client.readable {
            let count = match self.client.read(world.scratch) {
                Ok(Read::Bytes(count)) => count,
                Ok(Read::Ended) => return Err(Ending::ClientGone),
                Ok(Read::Nothing | Read::Plain) => break,
                Err(broken) => return Err(self.client_broke(broken, Ending::ClientGone)),
            };
            if let Some(hello) = &mut begun {
                hello.seen.extend_from_slice(&world.scratch.read[..count]);
                if let Some(treatment) = self.with_hello(&mut hello.reader, &hello.seen, world)? {
                    return self.treat(treatment, InHand::Kept(mem::take(&mut hello.seen)), world);
                }
                continue;
            }
            let max_hello = world.bounds.hello_size;
            let mut reader = Reader::new(Limits { max_hello, ..Limits::default() });
            // Lent out for as long as it is looked at.
            let read = mem::take(&mut world.scratch.read);
            let treatment = self.with_hello(&mut reader, &read[..count], world);
            world.scratch.read = read;
            if let Some(treatment) = treatment? {
                return self.treat(treatment, InHand::Read(count), world);
            }
            begun = Some(Box::new(Hello { reader, seen: world.scratch.read[..count].to_vec() }));
        }
        if let Some(hello) = begun {
            self.phase = Phase::Hello(hello);
        }
        Ok(Step::Stay(Next::Wait))
    }

    /// What is to be done once the hello is complete.
    fn with_hello<N, P>(
        &mut self,
        reader: &mut Reader,
        seen: &[u8],
        world: &mut World<'_, N, P>,
    ) -> Result<Option<Treatment>, Ending> {
        let hello = match reader.advance(seen) {
            Ok(Progress::NeedMore) => return Ok(None),
            Ok(Progress::Hello(hello)) => hello,
            Err(error) => {
                world.counters.hello_refused(&error);
                self.facts.say(error);
                return Err(Ending::HelloInvalid);
            }
        };
        self.facts.server_name = hello.server_name.as_ref().map(|name| name.as_str().into());
        let mut protocols = [&[][..]; PROTOCOLS];
        let mut count = 0;
        for protocol in hello.alpn.iter().take(PROTOCOLS) {
            protocols[count] = protocol;
            count += 1;
        }
        let sni = hello.server_name.as_ref().map(SniName::as_str);
        let hello = tidegate_plan::Hello { sni, alpn: &protocols[..count] };
        // A CA asks before there is a certificate, so that no listener can be asked first.
        if let Some(config) = world.challenges.of_hello(&hello) {
            return Ok(Some(Treatment::Challenge(config)));
        }
        self.admit(Some(hello), world).map(Some)
    }

    /// For routes that do not look at bytes.
    pub(super) fn admit_bytes<N, P>(&mut self, world: &mut World<'_, N, P>) -> Result<(), Ending> {
        self.admit(None, world).map(|_| ())
    }

    fn admit<N, P>(
        &mut self,
        hello: Option<tidegate_plan::Hello<'_>>,
        world: &World<'_, N, P>,
    ) -> Result<Treatment, Ending> {
        let snapshot = world.snapshot;
        let connection = Connection { local: self.facts.planned_local(), transport: Transport::Tcp, hello };
        let admission = snapshot.tables.admit(&connection, &mut ()).map_err(|refusal| {
            self.facts.trace = if world.journal.wants(self.facts.started) {
                // The same again, step by step.
                Traced::Steps(snapshot.refusal(&connection, None, refusal.reason))
            } else {
                Traced::NotWanted
            };
            self.refused(&refusal)
        })?;
        let (listener, treatment) = match admission {
            Admission::Http => return Ok(Treatment::Http),
            Admission::Stream { listener, rule, certificate, .. } => {
                self.facts.route = Some(Arc::clone(snapshot.stream(rule)?));
                let treatment =
                    if certificate.is_some() { Treatment::Terminate } else { Treatment::PassThrough };
                (listener, treatment)
            }
            Admission::Https { listener, version, .. } => (listener, Treatment::Https(version)),
        };
        self.facts.listener = Some(listener.clone());
        let serving = snapshot.listeners.of(&listener.id).ok_or(Ending::Refused(Reason::NoListener))?;
        self.facts.place = Some(
            Place::take(serving, world.bounds.connections_per_listener).ok_or(Ending::TooManyForListener)?,
        );
        if let Some(route) = &self.facts.route {
            self.facts.backend = Some(Arc::clone(snapshot.backend(route)?));
        }
        Ok(treatment)
    }

    fn refused(&mut self, refusal: &Refusal<'_>) -> Ending {
        self.facts.listener = refusal.listener.cloned();
        if refusal.reason == Reason::NoCommonProtocol {
            // That it does not get through changes nothing.
            let _ = self.client.stream.send(&NO_APPLICATION_PROTOCOL);
        }
        // For all else without an alert: nobody here speaks TLS for that name, and conformance takes an alert for an
        // answer.
        Ending::Refused(refusal.reason)
    }

    fn treat<N, P>(
        &mut self,
        treatment: Treatment,
        bytes: InHand,
        world: &mut World<'_, N, P>,
    ) -> Result<Step, Ending>
    where
        N: Network<Stream = S>,
        P: Pipes<S::Pipe>,
    {
        let config = || match self.facts.place.as_ref().map(|place| &place.tls) {
            Some(Ok(Some(config))) => Ok(Arc::clone(config)),
            Some(Err(reason)) => Err(Ending::Refused(*reason)),
            Some(Ok(None)) | None => Err(Ending::Refused(Reason::NoCertificate)),
        };
        match treatment {
            Treatment::PassThrough => self.dial(world, bytes),
            Treatment::Http => Ok(Step::Stay(Next::HandOver(HandOver::Http))),
            Treatment::Challenge(config) => {
                let read = bytes.into_vec(world.scratch);
                Ok(Step::Stay(Next::HandOver(HandOver::Challenge { config, read })))
            }
            Treatment::Https(version) => {
                let config = config()?;
                let listener = self.facts.listener.clone().ok_or(Ending::Refused(Reason::NoListener))?;
                let read = bytes.into_vec(world.scratch);
                Ok(Step::Stay(Next::HandOver(HandOver::Https { listener, config, version, read })))
            }
            Treatment::Terminate => {
                let codec = Codec::server(config()?).map_err(|error| {
                    self.facts.say(error);
                    Ending::HandshakeFailed
                })?;
                self.client.tls = Some(Box::new(codec));
                let mut hello = bytes.into_vec(world.scratch);
                let taken = self.client.take_in(&mut hello, &mut world.scratch.plain);
                taken.map_err(|broken| self.client_broke(broken, Ending::ClientGone))?;
                self.held.extend_from_slice(&world.scratch.plain);
                Ok(Step::Go(Phase::Handshake))
            }
        }
    }
}

/// What the plan makes of a connection.
#[derive(Clone, Debug)]
enum Treatment {
    PassThrough,
    Terminate,
    Http,
    Https(HttpVersion),
    Challenge(Arc<rustls::ServerConfig>),
}
