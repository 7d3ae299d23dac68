//! One turn: what the epoll has to tell, and what that does to connections.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::Worker;
use super::sessions::Entry;
use crate::Ending;
use crate::engine::{Due, End, Next, Session, Tick, Watched};
use crate::net::TcpStream;
use crate::udp;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Client(u32),
    Backend(u32),
    Listening(usize),
    /// There may be commands.
    Bell,
    Udp(u64),
}

const KIND: u32 = 62;
/// No number of a socket.
const BELL: u64 = (1 << KIND) - 1;
const _: () = assert!(udp::TOKEN >> KIND == 1, "the kind that is left for flows");

impl From<Token> for EventData {
    fn from(token: Token) -> Self {
        let (kind, value) = match token {
            Token::Client(place) => (0, u64::from(place)),
            Token::Backend(place) => (2, u64::from(place)),
            Token::Listening(number) => (3, number as u64),
            Token::Bell => (3, BELL),
            Token::Udp(token) => return Self::new_u64(token),
        };
        Self::new_u64(kind << KIND | value)
    }
}

impl From<EventData> for Token {
    fn from(data: EventData) -> Self {
        let value = data.u64() & ((1 << KIND) - 1);
        match data.u64() >> KIND {
            0 => Self::Client(value as u32),
            2 => Self::Backend(value as u32),
            3 if value == BELL => Self::Bell,
            3 => Self::Listening(value as usize),
            _ => Self::Udp(data.u64()),
        }
    }
}

const FOR_INPUT: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
const FOR_ROOM: EventFlags = FOR_INPUT.union(EventFlags::OUT);
const ENDING: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP);
const WRITABLE: EventFlags = EventFlags::OUT.union(EventFlags::HUP).union(EventFlags::ERR);

impl Worker {
    /// Waits at most so long for something to happen, unless there is more to do already. `true` when there is nothing
    /// more to do for now.
    pub(super) fn turn(&mut self, patience: Duration) -> bool {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let room = rustix::buffer::spare_capacity(&mut events);
        let idle = self.again.is_empty() && self.accept_again.is_empty();
        let patience = if idle { patience } else { Duration::ZERO };
        let patience = Timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos().into() };
        let told = epoll::wait(&self.epoll, room, Some(&patience));
        let mut all = !told.is_ok_and(|count| count == events.capacity());
        self.kit.look_at_clock();
        self.kit.take_up_snapshot();
        let mut datagrams = false;
        for event in &events {
            let token = event.data.into();
            datagrams |= matches!(token, Token::Udp(_));
            self.happened(token, event.flags);
        }
        if datagrams {
            self.with_flows(|udp, context| udp.flush(context));
            // These are not watched by edges: only an epoll with nothing to tell has none of them left.
            all = false;
        }
        self.events = events;
        for due in std::mem::take(&mut self.again) {
            if let Some(entry) = self.sessions.same(due) {
                entry.again = false;
                self.look_at(due);
            }
        }
        for number in std::mem::take(&mut self.accept_again) {
            self.accept_from(number);
        }
        self.sessions.free_ended();
        all && self.again.is_empty() && self.accept_again.is_empty()
    }

    fn happened(&mut self, token: Token, flags: EventFlags) {
        let notice = |end: &mut End<TcpStream>| {
            let has = |flag| flags.intersects(flag);
            end.notice(has(EventFlags::IN), has(WRITABLE), has(ENDING), has(EventFlags::ERR));
        };
        match token {
            Token::Listening(number) => self.accept_from(number),
            Token::Bell => self.rung = true,
            Token::Udp(token) => self.with_flows(|udp, context| udp.ready(token, context)),
            Token::Client(place) => {
                let Some((due, entry)) = self.sessions.at(place) else { return };
                notice(&mut entry.session.client);
                self.look_at(due);
            }
            Token::Backend(place) => {
                let Some((due, entry)) = self.sessions.at(place) else { return };
                entry.session.backend.iter_mut().for_each(notice);
                self.look_at(due);
            }
        }
    }

    /// A connection that was just accepted: it may be over before it has a place.
    pub(super) fn begin(&mut self, mut session: Session<TcpStream>) {
        match session.advance(&mut self.kit.world()) {
            Next::Over(ending) => self.over(session, ending),
            Next::HandOver(what) => self.hand_over(session, what),
            next @ (Next::Wait | Next::Again) => {
                let due = self.sessions.insert(session);
                self.settle(due, next);
            }
        }
    }

    fn look_at(&mut self, due: Due) {
        let Some(entry) = self.sessions.same(due) else { return };
        let next = entry.session.advance(&mut self.kit.world());
        self.settle(due, next);
    }

    pub(super) fn look_at_deadline(&mut self, due: Due) {
        let Some(entry) = self.sessions.same(due) else { return };
        let deadline = entry.session.deadline(&self.kit.snapshot.bounds);
        let now = self.kit.tick();
        if deadline > now {
            entry.entered = self.wheel.enter(deadline, due);
            return;
        }
        entry.entered = Tick::NEVER;
        let next = entry.session.expire(&mut self.kit.world());
        self.settle(due, next);
    }

    /// Does what follows from looking at a connection.
    fn settle(&mut self, due: Due, next: Next) {
        match next {
            Next::Over(ending) => {
                if let Some(entry) = self.sessions.end(due.place) {
                    self.over(entry.session, ending);
                }
            }
            Next::HandOver(what) => {
                if let Some(entry) = self.sessions.end(due.place) {
                    self.hand_over(entry.session, what);
                }
            }
            Next::Wait | Next::Again => {
                let Some(entry) = self.sessions.same(due) else { return };
                let Entry { session, entered, again } = entry;
                let mut watched = watch(&self.epoll, &mut session.client, Token::Client(due.place));
                if let Some(backend) = &mut session.backend {
                    watched = watched.and(watch(&self.epoll, backend, Token::Backend(due.place)));
                }
                let deadline = session.deadline(&self.kit.snapshot.bounds);
                if deadline < *entered {
                    *entered = self.wheel.enter(deadline, due);
                }
                if matches!(next, Next::Again) && !std::mem::replace(again, true) {
                    self.again.push(due);
                }
                if let Err(error) = watched {
                    session.facts.say(error);
                    self.settle(due, Next::Over(Ending::OutOfResources));
                }
            }
        }
    }
}

/// Each socket is watched once, until it is closed; one that took no more bytes is from then on watched for room, too.
fn watch(epoll: &OwnedFd, end: &mut End<TcpStream>, token: Token) -> rustix::io::Result<()> {
    let wanted = end.to_watch();
    if wanted <= end.watched {
        return Ok(());
    }
    let flags = if wanted == Watched::ForRoom { FOR_ROOM } else { FOR_INPUT };
    if end.watched == Watched::No {
        epoll::add(epoll, &end.stream, token.into(), flags)?;
    } else {
        epoll::modify(epoll, &end.stream, token.into(), flags)?;
    }
    end.watched = wanted;
    Ok(())
}
