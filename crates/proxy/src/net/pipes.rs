//! Pipes for bulk data. One is in use only while bytes are in it, so that few serve many connections.

use std::cell::RefCell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::engine::Pipes;

/// The pipes of a worker, for all that it has to do with them.
#[derive(Clone, Debug)]
pub struct PipePool(Rc<Shelf>);

#[derive(Debug)]
struct Shelf {
    idle: RefCell<Vec<Pipe>>,
    /// Held once by each pipe there is.
    alive: Rc<()>,
    /// So many there may be.
    most: usize,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    /// How much goes in at a time.
    pub(super) size: usize,
    _alive: Rc<()>,
}

/// Bytes in a pipe, on their way from one socket to another.
#[derive(Debug)]
pub struct Piped {
    /// Taken when this goes.
    pipe: Option<Pipe>,
    length: usize,
    pool: PipePool,
}

/// What Linux gives to anybody who asks.
const SIZE: usize = 1 << 20;
/// Less than this at a time is better copied. A user with many pipes is given such.
const LEAST: usize = 64 * 1024;
/// More than this are closed rather than kept.
const KEPT: usize = 64;
/// Each takes two descriptors, and is held by whoever does not take what is in it.
const MOST: usize = 512;

const MOVE: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

impl Default for PipePool {
    fn default() -> Self {
        Self::with(MOST)
    }
}

impl PipePool {
    fn with(most: usize) -> Self {
        Self(Rc::new(Shelf { idle: RefCell::default(), alive: Rc::default(), most }))
    }

    /// Takes up to `most` bytes from a socket that never waits; none at its end. `None`: no pipe is to be had, and the
    /// bytes must be copied.
    #[must_use]
    pub fn fill(&self, from: BorrowedFd<'_>, most: usize) -> Option<io::Result<Piped>> {
        let pipe = self.take()?;
        let filled = pipe.fill(from, most);
        let length = *filled.as_ref().unwrap_or(&0);
        // An empty one goes back when it is dropped.
        let piped = Piped { pipe: Some(pipe), length, pool: self.clone() };
        Some(filled.map(|_| piped))
    }

    fn take(&self) -> Option<Pipe> {
        let idle = self.0.idle.borrow_mut().pop();
        idle.or_else(|| self.open())
    }

    fn put(&self, pipe: Pipe) {
        let mut idle = self.0.idle.borrow_mut();
        if idle.len() < KEPT {
            idle.push(pipe);
        }
    }

    fn open(&self) -> Option<Pipe> {
        if Rc::strong_count(&self.0.alive) > self.0.most {
            return None;
        }
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok()?;
        // Where it is not given, a smaller one may do.
        let _ = rustix::pipe::fcntl_setpipe_size(&write, SIZE);
        let size = rustix::pipe::fcntl_getpipe_size(&write).ok()?;
        (size >= LEAST).then(|| Pipe { read, write, size, _alive: Rc::clone(&self.0.alive) })
    }
}

impl Pipes<Pipe> for PipePool {
    fn take(&mut self) -> Option<Pipe> {
        Self::take(self)
    }

    fn put(&mut self, pipe: Pipe) {
        Self::put(self, pipe);
    }
}

impl Pipe {
    /// Moves bytes into it, which is empty.
    pub(super) fn fill(&self, from: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        let most = most.min(self.size);
        again(|| rustix::pipe::splice(from, None, &self.write, None, most, MOVE))
    }

    /// Moves up to so many of the bytes that are in it.
    pub(super) fn drain(&self, to: BorrowedFd<'_>, length: usize) -> io::Result<usize> {
        again(|| rustix::pipe::splice(&self.read, None, to, None, length, MOVE))
    }
}

impl Piped {
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Gives a socket that never waits as much as it takes.
    pub fn drain(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let moved = pipe.drain(to, self.length)?;
        self.length -= moved;
        Ok(moved)
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // One with something in it is of no use to anybody else.
        if let Some(pipe) = self.pipe.take()
            && self.length == 0
        {
            self.pool.put(pipe);
        }
    }
}

/// A signal is no reason to stop.
pub(super) fn again<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    Ok(rustix::io::retry_on_intr(call)?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Both ends of a connection; neither waits.
    fn connection() -> (UnixStream, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        (near, far)
    }

    #[test]
    fn no_more_bytes_than_asked_for() {
        let pool = PipePool::default();
        let ((mut client, from), (to, mut backend)) = (connection(), connection());
        client.write_all(b"hellonext").unwrap();
        let mut piped = pool.fill(from.as_fd(), 5).unwrap().unwrap();
        assert_eq!((piped.len(), piped.drain(to.as_fd()).unwrap(), piped.is_empty()), (5, 5, true));
        let mut got = [0; 9];
        assert_eq!((backend.read(&mut got).unwrap(), &got[..5]), (5, &b"hello"[..]));
        assert_eq!((&from).read(&mut got).unwrap(), 4, "the rest is still there");
        let nothing = pool.fill(from.as_fd(), 5).unwrap();
        assert_eq!(nothing.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(client);
        assert!(pool.fill(from.as_fd(), 5).unwrap().unwrap().is_empty(), "the end");
    }

    /// One that had something in it is not given to another, and makes room for a new one.
    #[test]
    fn pipes_are_few() {
        let pool = PipePool::with(2);
        let (mut client, from) = connection();
        client.write_all(b"abcd").unwrap();
        let first = pool.fill(from.as_fd(), 1).unwrap().unwrap();
        let mut second = pool.fill(from.as_fd(), 1).unwrap().unwrap();
        assert!(pool.fill(from.as_fd(), 1).is_none());
        drop(first);
        assert!(pool.0.idle.borrow().is_empty());
        let third = pool.fill(from.as_fd(), 1).unwrap().unwrap();
        assert!(pool.fill(from.as_fd(), 1).is_none());
        let (to, mut backend) = connection();
        second.drain(to.as_fd()).unwrap();
        drop(second);
        let mut fourth = pool.fill(from.as_fd(), 1).unwrap().unwrap();
        fourth.drain(to.as_fd()).unwrap();
        let mut got = [0; 4];
        assert_eq!((backend.read(&mut got).unwrap(), &got[..2]), (2, &b"bd"[..]));
        drop(third);
    }
}
