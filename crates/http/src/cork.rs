//! A connection over HTTP/2 as h2 writes to it. h2 lets go of every larger piece of a body by itself; each would be a record
//! of TLS, a system call, and mostly a packet of its own. What is written therefore waits until h2 has nothing more to say.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::flush::{Flush, Flushes};

/// The end that h2 has.
pub(crate) struct Corked<S>(Rc<RefCell<Held<S>>>);

/// The end of whoever polls h2, and with each turn [lets go](Self::release) of what it has written by then.
pub(crate) struct Cork<S>(Rc<RefCell<Held<S>>>);

struct Held<S> {
    stream: S,
    waiting: BytesMut,
    /// The stream has taken bytes that it may not have sent.
    is_unflushed: bool,
    /// Who goes on with it if it does not go out [later](Cork::release_late).
    waits_with: Option<Waker>,
    /// The other side has not taken all of it.
    is_blocked: bool,
    /// All that was there was read in this turn.
    is_read: bool,
}

/// What waits at most, which is a record of TLS. Pieces of a quarter of it go out at once: they are worth a call, and not
/// worth a copy.
const MOST: usize = 16 * 1024;
const LARGE: usize = MOST / 4;
/// h2 writes a piece of a body with what comes before it.
const SLICES: usize = 4;

pub(crate) fn corked<S>(stream: S) -> (Corked<S>, Cork<S>) {
    let held = Held {
        stream,
        waiting: BytesMut::new(),
        is_unflushed: false,
        waits_with: None,
        is_blocked: false,
        is_read: false,
    };
    let held = Rc::new(RefCell::new(held));
    (Corked(Rc::clone(&held)), Cork(held))
}

impl<S: AsyncWrite + Unpin + 'static> Cork<S> {
    /// Sends what was written. Where that is not all, the task is woken when more can be sent.
    pub(crate) fn release(&self, context: &mut Context<'_>) -> io::Result<()> {
        let held = &mut *self.0.borrow_mut();
        held.is_read = false;
        let flushed = held.poll_flush(context);
        held.is_blocked = flushed.is_pending();
        match flushed {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }

    /// The same, but together with what is most likely to be written in a moment.
    pub(crate) fn release_late(&self, flushes: &Flushes, context: &mut Context<'_>) -> io::Result<()> {
        let mut held = self.0.borrow_mut();
        held.is_read = false;
        if held.is_blocked {
            drop(held);
            return self.release(context);
        }
        let has_any = !held.waiting.is_empty() || held.is_unflushed;
        if has_any && held.waits_with.is_none() {
            held.waits_with = Some(context.waker().clone());
            flushes.put_late(Rc::clone(&self.0) as Rc<dyn Flush>);
        }
        Ok(())
    }
}

impl<S: AsyncWrite + Unpin> Flush for RefCell<Held<S>> {
    fn flush(&self, context: &mut Context<'_>) {
        let held = &mut *self.borrow_mut();
        let waits_with = held.waits_with.take();
        held.is_blocked = !matches!(held.poll_flush(context), Poll::Ready(Ok(())));
        // What went wrong its own task will see as well.
        if held.is_blocked
            && let Some(task) = waits_with
        {
            task.wake();
        }
    }
}

impl<S: AsyncWrite + Unpin> Held<S> {
    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        if self.is_unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let count = ready!(Pin::new(&mut self.stream).poll_write(context, &self.waiting))?;
            self.took(count)?;
        }
        Poll::Ready(Ok(()))
    }

    /// The stream has taken so many of those that wait.
    fn took(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.is_unflushed = true;
        self.waiting.advance(count);
        if self.waiting.is_empty() {
            // An idle connection has no memory for it.
            self.waiting = BytesMut::new();
        }
        Ok(())
    }

    fn poll_write(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if length >= LARGE {
            return self.poll_through(context, slices);
        }
        if self.waiting.len() + length > MOST {
            ready!(self.poll_drain(context))?;
        }
        slices.iter().for_each(|slice| self.waiting.extend_from_slice(slice));
        Poll::Ready(Ok(length))
    }

    /// Behind what waits, in one call with it where that is possible.
    fn poll_through(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            let mut all = [IoSlice::new(&[]); SLICES];
            let (first, others) = all.split_at_mut(1);
            first[0] = IoSlice::new(&self.waiting);
            others.iter_mut().zip(slices).for_each(|(place, slice)| *place = IoSlice::new(slice));
            let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, &all))?;
            let of_waiting = count.min(self.waiting.len());
            if of_waiting > 0 {
                self.took(of_waiting)?;
            }
            if count > of_waiting {
                self.is_unflushed = true;
                return Poll::Ready(Ok(count - of_waiting));
            }
            if count == 0 {
                return Poll::Ready(Ok(0));
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Corked<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let held = &mut *self.0.borrow_mut();
        // h2 asks again for each request that it gives away.
        if held.is_read {
            return Poll::Pending;
        }
        let polled = Pin::new(&mut held.stream).poll_read(context, buffer);
        held.is_read = polled.is_pending();
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// That is for [`Cork::release`]: h2 asks for it after each larger piece.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let held = &mut *self.0.borrow_mut();
        ready!(held.poll_flush(context))?;
        Pin::new(&mut held.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes so many bytes in all, so many at a time, and notes how it got them.
    #[derive(Default)]
    struct Narrow {
        room: usize,
        step: usize,
        writes: Vec<Vec<u8>>,
        is_flushed: bool,
        is_shut: bool,
    }

    impl Narrow {
        fn wide() -> Self {
            Self { room: usize::MAX, step: usize::MAX, ..Self::default() }
        }

        fn all(&self) -> Vec<u8> {
            self.writes.concat()
        }
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.room).min(self.step);
            if count == 0 {
                return Poll::Pending;
            }
            self.room -= count;
            self.writes.push(bytes[..count].to_vec());
            self.is_flushed = false;
            Poll::Ready(Ok(count))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.poll_write(context, &slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>())
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.is_flushed = true;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.is_shut = true;
            Poll::Ready(Ok(()))
        }
    }

    fn context() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    fn write(corked: &mut Corked<Narrow>, parts: &[&[u8]]) -> Poll<usize> {
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        Pin::new(corked).poll_write_vectored(&mut context(), &slices).map(Result::unwrap)
    }

    #[test]
    fn small_writes_go_out_as_one() {
        let (mut h2, cork) = corked(Narrow::wide());
        for piece in [b"one ", b"two "] {
            assert_eq!(write(&mut h2, &[piece, b"and "]), Poll::Ready(8));
            assert!(Pin::new(&mut h2).poll_flush(&mut context()).is_ready());
        }
        assert!(cork.0.borrow().stream.writes.is_empty());
        cork.release(&mut context()).unwrap();
        let held = cork.0.borrow();
        assert_eq!(held.stream.writes, [b"one and two and "]);
        assert!(held.stream.is_flushed);
        assert_eq!(held.waiting.capacity(), 0);
    }

    #[test]
    fn a_large_piece_goes_with_what_waits() {
        let (mut h2, cork) = corked(Narrow::wide());
        let large = [b'L'; LARGE];
        assert_eq!(write(&mut h2, &[b"head "]), Poll::Ready(5));
        assert_eq!(write(&mut h2, &[b"frame ", &large]), Poll::Ready(6 + LARGE));
        let held = cork.0.borrow();
        assert_eq!(held.stream.writes, [[&b"head frame "[..], &large].concat()]);
    }

    /// Who takes nothing is waited for with a bounded part of it in hand, and nothing is lost or out of order.
    #[test]
    fn what_is_taken_slowly() {
        let (mut h2, cork) = corked(Narrow { step: 700, ..Narrow::default() });
        let mut expected = Vec::new();
        for number in 0..1000_usize {
            let piece = vec![number as u8; if number % 10 == 0 { LARGE + number } else { number }];
            let mut rest = &piece[..];
            while !rest.is_empty() {
                match write(&mut h2, &[rest]) {
                    Poll::Ready(count) => rest = &rest[count..],
                    Poll::Pending => {
                        assert!(cork.0.borrow().waiting.len() <= MOST);
                        cork.0.borrow_mut().stream.room += 10_000;
                    }
                }
            }
            expected.extend_from_slice(&piece);
        }
        cork.0.borrow_mut().stream.room = usize::MAX;
        assert!(Pin::new(&mut h2).poll_shutdown(&mut context()).is_ready());
        let held = cork.0.borrow();
        assert!(held.stream.all() == expected);
        assert!(held.stream.is_flushed && held.stream.is_shut);
    }
}
