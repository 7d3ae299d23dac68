//! How a worker is told what to do, also while it waits for nothing but its own epoll.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::{self, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Command;
use super::turn::Token;

/// The side of those who tell.
pub(crate) struct Orders {
    sender: UnboundedSender<Command>,
    bell: Arc<OwnedFd>,
}

/// The side of the worker.
pub(crate) struct Ordered {
    receiver: UnboundedReceiver<Command>,
    bell: Arc<OwnedFd>,
}

pub(crate) fn orders() -> io::Result<(Orders, Ordered)> {
    let (sender, receiver) = unbounded_channel();
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    Ok((Orders { sender, bell: Arc::clone(&bell) }, Ordered { receiver, bell }))
}

impl Orders {
    /// `false`: there is no worker any more.
    pub(crate) fn give(&self, command: Command) -> bool {
        let given = self.sender.send(command).is_ok();
        // Nobody ever reads it: each write is an edge of its own.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        given
    }
}

impl Ordered {
    pub(super) fn watch(&self, epoll: &OwnedFd) -> io::Result<()> {
        Ok(epoll::add(epoll, &self.bell, Token::Bell.into(), EventFlags::IN | EventFlags::ET)?)
    }

    /// `None`: nobody is left to give any.
    pub(super) async fn next(&mut self) -> Option<Command> {
        self.receiver.recv().await
    }

    pub(super) fn waiting(&mut self) -> Result<Command, TryRecvError> {
        self.receiver.try_recv()
    }
}
