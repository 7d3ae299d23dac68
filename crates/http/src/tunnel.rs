//! One end of a connection that goes on as another protocol: all of a connection of HTTP/1.1, or a stream of HTTP/2.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::wire::Wire;

pub(crate) enum End {
    Connection(Rc<RefCell<Wire>>),
    Stream(Stream),
}

pub(crate) struct Stream {
    frames: RecvStream,
    out: SendStream<Bytes>,
    /// What was read and not taken yet.
    rest: Bytes,
}

impl End {
    pub(crate) fn connection(wire: Rc<RefCell<Wire>>) -> Self {
        Self::Connection(wire)
    }

    pub(crate) fn stream(frames: RecvStream, out: SendStream<Bytes>) -> Self {
        Self::Stream(Stream { frames, out, rest: Bytes::new() })
    }
}

impl Stream {
    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(self.frames.poll_data(context)) {
                Some(Ok(data)) => self.rest = data,
                None => return Poll::Ready(Ok(())),
                // The other side is done with it.
                Some(Err(error)) if matches!(error.reason(), Some(Reason::NO_ERROR | Reason::CANCEL)) => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..count]);
        self.rest.advance(count);
        // There is nothing to be done about a stream that is gone by now: what is read next says so.
        let _ = self.frames.flow_control().release_capacity(count);
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.out.reserve_capacity(bytes.len());
        while self.out.capacity() == 0 {
            match ready!(self.out.poll_capacity(context)) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        let count = self.out.capacity().min(bytes.len());
        let sent = self.out.send_data(Bytes::copy_from_slice(&bytes[..count]), false);
        Poll::Ready(sent.map(|()| count).map_err(broken))
    }
}

fn broken(error: h2::Error) -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, error)
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Connection(wire) => Pin::new(&mut *wire.borrow_mut()).poll_read(context, buffer),
            Self::Stream(stream) => stream.poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Connection(wire) => Pin::new(&mut *wire.borrow_mut()).poll_write(context, bytes),
            Self::Stream(stream) => stream.poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Connection(wire) => Pin::new(&mut *wire.borrow_mut()).poll_flush(context),
            // What a stream was given its connection sends.
            Self::Stream(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Connection(wire) => Pin::new(&mut *wire.borrow_mut()).poll_shutdown(context),
            Self::Stream(stream) => Poll::Ready(stream.out.send_data(Bytes::new(), true).map_err(broken)),
        }
    }
}
