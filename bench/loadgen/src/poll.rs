//! An epoll, and the events it told of last.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};

pub(crate) use epoll::EventFlags;

/// The other side has closed, or the connection has failed.
pub(crate) const GONE: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
/// For a socket that is registered once and never again.
pub(crate) const BOTH_EDGES: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::ET);

/// Events told of at a time.
const EVENTS: usize = 1024;

pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) token: usize,
    pub(crate) flags: EventFlags,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS) })
    }

    pub(crate) fn add(&self, socket: impl AsFd, token: usize, flags: EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        Ok(epoll::add(&self.epoll, socket, data, flags | EventFlags::RDHUP)?)
    }

    pub(crate) fn modify(&self, socket: impl AsFd, token: usize, flags: EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        Ok(epoll::modify(&self.epoll, socket, data, flags | EventFlags::RDHUP)?)
    }

    /// Waits for events, at most so long, and puts them in place of those of the last time.
    pub(crate) fn wait(&mut self, limit: Option<Duration>, events: &mut Vec<Event>) {
        events.clear();
        self.events.clear();
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let waited =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), limit.as_ref());
        if waited.is_err() {
            // A signal came in between; the caller comes round again.
            return;
        }
        events.extend(
            self.events.iter().map(|event| Event { token: event.data.u64() as usize, flags: event.flags }),
        );
    }
}
