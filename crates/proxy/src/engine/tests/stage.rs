//! A session with everything around it, and its two peers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use super::memory::{Cloud, Memory, NoPipes, ROOM, Wire};
use super::play::{Play, snapshot};
use crate::engine::end::End;
use crate::engine::{Facts, Next, Scratch, Session, Tick, World};
use crate::observe::{Counters, Journal};
use crate::snapshot::Snapshot;
use crate::tls::Challenges;
use crate::upstream::Random;
use crate::{Bounds, Ending};

pub(super) struct Stage {
    pub(super) session: Session<Memory>,
    pub(super) ended: Option<Ending>,
    client: Rc<RefCell<Wire>>,
    cloud: Cloud,
    pub(super) snapshot: Snapshot,
    pub(super) bounds: Bounds,
    scratch: Scratch,
    random: Random,
    counters: Counters,
    journal: Journal,
    began: Instant,
    passed: Duration,
    to_client: Talk,
    to_backend: Talk,
}

/// What was said to somebody and what of it has been heard.
#[derive(Default)]
struct Talk {
    said: u64,
    /// Said, but the wire had no room for it yet.
    waiting: VecDeque<u8>,
    heard: u64,
    wants_to_end: bool,
}

impl Talk {
    fn say(&mut self, count: usize) {
        for _ in 0..count {
            self.waiting.push_back(numbered(self.said));
            self.said += 1;
        }
    }

    fn hear(&mut self, bytes: impl Iterator<Item = u8>) {
        for byte in bytes {
            assert_eq!(byte, numbered(self.heard), "byte {}", self.heard);
            self.heard += 1;
        }
    }
}

/// So that a byte that is lost, doubled or out of order is noticed.
fn numbered(at: u64) -> u8 {
    (at % 251) as u8
}

impl Stage {
    /// A TCP listener.
    pub(super) fn new(endpoints: &[u8]) -> Self {
        Self::of(&Play::default(), endpoints)
    }

    pub(super) fn of(play: &Play, endpoints: &[u8]) -> Self {
        let client = Rc::new(RefCell::new(Wire::default()));
        let began = Instant::now();
        let (from, to) = ("192.0.2.1:40000".parse().unwrap(), "10.0.0.9:5432".parse().unwrap());
        let facts = Facts::new(from, to, 5432, SystemTime::UNIX_EPOCH, began);
        let stream = Memory(Rc::clone(&client));
        Self {
            session: Session::new(stream, play.expects(), facts, Tick::default()),
            ended: None,
            client,
            cloud: Cloud::default(),
            snapshot: snapshot(play, endpoints),
            bounds: Bounds::default(),
            scratch: Scratch::new(),
            random: Random::new(),
            counters: Counters::default(),
            journal: Journal::default(),
            began,
            passed: Duration::ZERO,
            to_client: Talk::default(),
            to_backend: Talk::default(),
        }
    }

    pub(super) fn look(&mut self) {
        self.act(Session::advance);
    }

    /// Time goes by, in steps such as a wheel would make.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.passed + time;
        while self.passed < end && self.ended.is_none() {
            self.passed += Duration::from_millis(500);
            if self.session.deadline(&self.bounds) <= Tick::at(self.passed) {
                self.act(Session::expire);
            }
        }
    }

    fn act(&mut self, act: fn(&mut Session<Memory>, &mut World<'_, Cloud, NoPipes>) -> Next) {
        if self.ended.is_some() {
            return;
        }
        let mut world = World {
            network: &mut self.cloud,
            pipes: &mut NoPipes,
            scratch: &mut self.scratch,
            snapshot: &self.snapshot,
            bounds: &self.bounds,
            counters: &self.counters,
            journal: &self.journal,
            challenges: &Challenges::default(),
            random: &mut self.random,
            worker: 0,
            now: Tick::at(self.passed),
            instant: self.began + self.passed,
        };
        let mut next = act(&mut self.session, &mut world);
        while matches!(next, Next::Again) {
            next = self.session.advance(&mut world);
        }
        if let Next::Over(ending) = next {
            self.ended = Some(ending);
        }
    }

    pub(super) fn dialed(&self) -> &[(u8, bool)] {
        &self.cloud.dialed
    }

    fn backend(&self) -> Rc<RefCell<Wire>> {
        Rc::clone(self.cloud.wire.as_ref().expect("a backend was asked"))
    }

    /// One edge, and what the session makes of it.
    fn client_edge(&mut self, readable: bool, writable: bool, hanging_up: bool) {
        self.session.client.notice(readable, writable, hanging_up, self.client.borrow().reset_by_peer);
        self.look();
    }

    fn backend_edge(&mut self, readable: bool, writable: bool, hanging_up: bool) {
        let broken = self.backend().borrow().reset_by_peer;
        let notice = |end: &mut End<Memory>| end.notice(readable, writable, hanging_up, broken);
        self.session.backend.iter_mut().for_each(notice);
        self.look();
    }

    pub(super) fn client_says(&mut self, bytes: &[u8]) {
        self.client.borrow_mut().to_session.bytes.extend(bytes);
        self.client_edge(true, false, false);
    }

    pub(super) fn client_says_and_ends(&mut self, bytes: &[u8]) {
        self.client.borrow_mut().to_session.bytes.extend(bytes);
        self.client.borrow_mut().to_session.ended = true;
        self.client_edge(true, false, true);
    }

    pub(super) fn backend_says(&mut self, bytes: &[u8]) {
        self.backend().borrow_mut().to_session.bytes.extend(bytes);
        self.backend_edge(true, false, false);
    }

    /// How many of the bytes the session takes while nobody takes any from it.
    pub(super) fn backend_says_what_fits(&mut self, bytes: &[u8]) -> usize {
        let mut said = 0;
        for piece in bytes.chunks(ROOM) {
            let before = self.backend().borrow().to_session.bytes.len();
            if before > 0 {
                break;
            }
            self.backend_says(piece);
            said += piece.len();
        }
        said
    }

    /// It has said all and takes nothing more; the poller has yet to tell.
    pub(super) fn backend_answers_and_hangs_up(&mut self, bytes: &[u8]) {
        let wire = self.backend();
        wire.borrow_mut().to_session.bytes.extend(bytes);
        wire.borrow_mut().to_peer.refused = true;
        self.session.backend.iter_mut().for_each(|end| end.notice(true, true, false, false));
    }

    pub(super) fn client_hears(&mut self) -> Vec<u8> {
        let heard = self.client.borrow_mut().to_peer.bytes.drain(..).collect();
        self.client_edge(false, true, false);
        heard
    }

    pub(super) fn backend_hears(&mut self) -> Vec<u8> {
        let heard = self.backend().borrow_mut().to_peer.bytes.drain(..).collect();
        self.backend_edge(false, true, false);
        heard
    }

    /// What was counted of the backend: endpoints that serve, and those that did not.
    pub(super) fn endpoints_seen(&self) -> (u64, u64) {
        let (_, backend) = self.snapshot.backends.iter().next().expect("there is a backend");
        (backend.stats.connections(), backend.stats.failures())
    }

    pub(super) fn backend_answers(&mut self) {
        let wire = self.backend();
        wire.borrow_mut().pending = false;
        self.backend_edge(false, true, false);
    }

    pub(super) fn client_ends(&mut self) {
        self.to_backend.wants_to_end = true;
        self.push_client();
    }

    pub(super) fn backend_ends(&mut self) {
        self.to_client.wants_to_end = true;
        self.push_backend();
    }

    /// At once, whatever it was about to say.
    pub(super) fn backend_hangs_up(&mut self) {
        self.backend().borrow_mut().to_session.ended = true;
        self.backend_edge(true, false, true);
    }

    pub(super) fn client_resets(&mut self) {
        self.client.borrow_mut().reset_by_peer = true;
        self.client_edge(true, true, true);
    }

    pub(super) fn backend_resets(&mut self) {
        self.backend().borrow_mut().reset_by_peer = true;
        self.backend_edge(true, true, true);
    }

    pub(super) fn backend_was_told_the_end(&self) -> bool {
        self.backend().borrow().to_peer.ended
    }

    pub(super) fn client_was_told_the_end(&self) -> bool {
        self.client.borrow().to_peer.ended
    }

    pub(super) fn backend_was_reset(&self) -> bool {
        self.backend().borrow().reset_by_session
    }

    pub(super) fn client_was_reset(&self) -> bool {
        self.client.borrow().reset_by_session
    }

    pub(super) fn client_says_numbered(&mut self, count: usize) {
        if !self.to_backend.wants_to_end {
            self.to_backend.say(count);
            self.push_client();
        }
    }

    pub(super) fn backend_says_numbered(&mut self, count: usize) {
        if !self.to_client.wants_to_end {
            self.to_client.say(count);
            self.push_backend();
        }
    }

    /// Puts on the wire what fits, and then the end; an edge comes only with news.
    fn push_client(&mut self) {
        let news = push(&mut self.to_backend, &self.client);
        if let Some(ended) = news {
            self.client_edge(true, false, ended);
        }
    }

    fn push_backend(&mut self) {
        let wire = self.backend();
        let news = push(&mut self.to_client, &wire);
        if let Some(ended) = news {
            self.backend_edge(true, false, ended);
        }
    }

    pub(super) fn client_takes(&mut self, count: usize) {
        if take(&mut self.to_client, &self.client, count) {
            self.client_edge(false, true, false);
        }
        self.push_client();
        self.push_backend();
    }

    pub(super) fn backend_takes(&mut self, count: usize) {
        let wire = self.backend();
        if take(&mut self.to_backend, &wire, count) {
            self.backend_edge(false, true, false);
        }
        self.push_client();
        self.push_backend();
    }

    pub(super) fn assert_all_heard(&self) {
        assert_eq!(self.to_backend.heard, self.to_backend.said, "to the backend");
        assert_eq!(self.to_client.heard, self.to_client.said, "to the client");
        assert_eq!(self.session.up.bytes, self.to_backend.said);
        assert_eq!(self.session.down.bytes, self.to_client.said);
    }
}

/// `Some` if there is news; with `true`, the end is part of it.
fn push(talk: &mut Talk, wire: &Rc<RefCell<Wire>>) -> Option<bool> {
    let way = &mut wire.borrow_mut().to_session;
    let count = talk.waiting.len().min(ROOM - way.bytes.len());
    way.bytes.extend(talk.waiting.drain(..count));
    let ends = talk.wants_to_end && talk.waiting.is_empty() && !way.ended;
    way.ended |= ends;
    (count > 0 || ends).then_some(ends)
}

/// Whether somebody waits for the room that there is now.
fn take(talk: &mut Talk, wire: &Rc<RefCell<Wire>>, count: usize) -> bool {
    let way = &mut wire.borrow_mut().to_peer;
    let count = count.min(way.bytes.len());
    talk.hear(way.bytes.drain(..count));
    count > 0 && std::mem::take(&mut way.wanted)
}
