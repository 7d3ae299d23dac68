//! Pipes for bulk data. One is in use only while bytes are in it, so that few serve many connections.

use std::os::fd::OwnedFd;

use rustix::pipe::PipeFlags;

use crate::engine::Pipes;

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(super) read: OwnedFd,
    pub(super) write: OwnedFd,
    /// How much goes in at a time.
    pub(super) size: usize,
}

#[derive(Debug, Default)]
pub(crate) struct PipePool {
    idle: Vec<Pipe>,
}

/// What Linux gives to anybody who asks.
const SIZE: usize = 1 << 20;
/// More than this are closed rather than kept.
const KEPT: usize = 64;

impl Pipes<Pipe> for PipePool {
    fn take(&mut self) -> Option<Pipe> {
        self.idle.pop().or_else(open)
    }

    fn put(&mut self, pipe: Pipe) {
        if self.idle.len() < KEPT {
            self.idle.push(pipe);
        }
    }
}

fn open() -> Option<Pipe> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok()?;
    // A user with many pipes is given small ones; those do, too.
    let _ = rustix::pipe::fcntl_setpipe_size(&write, SIZE);
    let size = rustix::pipe::fcntl_getpipe_size(&write).ok()?;
    Some(Pipe { read, write, size })
}
