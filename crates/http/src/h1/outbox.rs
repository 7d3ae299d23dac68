//! Bytes on their way out: small ones gathered, a large piece as it is, all in as few writes as there can be. Behind them
//! there may be some in a pipe, which whoever has a socket empties.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tidegate_proxy::Piped;
use tokio::io::AsyncWrite;

#[derive(Debug, Default)]
pub struct Outbox {
    small: Vec<u8>,
    /// Of `small`, what is gone.
    gone: usize,
    /// Behind `small`.
    large: Bytes,
    /// Behind `large`.
    after: &'static [u8],
    /// Behind all of it.
    piped: Option<Piped>,
}

/// A piece from this size on is not copied.
const LARGE: usize = 4096;
/// What is gathered before it must go.
const ENOUGH: usize = 16 * 1024;

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.gone == self.small.len() && self.is_small()
    }

    /// Whether more may be put in before some of it goes.
    pub(crate) fn has_room(&self) -> bool {
        self.is_small() && self.small.len() - self.gone < ENOUGH
    }

    /// Whether nothing of it is large.
    pub(crate) fn is_small(&self) -> bool {
        self.large.is_empty() && self.after.is_empty() && self.piped.is_none()
    }

    /// Where small things are written to. Only [with room](Self::has_room).
    pub fn small(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.is_small(), "nothing overtakes what is large");
        &mut self.small
    }

    /// Puts in a piece and what follows it. Only [with room](Self::has_room).
    pub(crate) fn push(&mut self, piece: Bytes, after: &'static [u8]) {
        if piece.len() < LARGE {
            self.small().extend_from_slice(&piece);
            self.small.extend_from_slice(after);
        } else {
            self.large = piece;
            self.after = after;
        }
    }

    /// Puts in what is in a pipe. Only [with room](Self::has_room).
    pub(crate) fn push_piped(&mut self, piped: Piped) {
        debug_assert!(self.is_small(), "nothing overtakes what is large");
        self.piped = Some(piped);
    }

    /// What is left in a pipe once all else [is written](Self::poll_flush).
    pub(crate) fn piped(&mut self) -> Option<&mut Piped> {
        self.piped.take_if(|piped| piped.is_empty());
        self.piped.as_mut()
    }

    /// Writes until nothing is left but a pipe. `carried` is told of each write that took something.
    pub fn poll_flush<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
        mut carried: impl FnMut(),
    ) -> Poll<io::Result<()>> {
        loop {
            let small = &self.small[self.gone..];
            let is_small = self.large.is_empty() && self.after.is_empty();
            if is_small && small.is_empty() {
                break;
            }
            let written = if is_small {
                ready!(Pin::new(&mut *stream).poll_write(context, small))?
            } else {
                let slices = [IoSlice::new(small), IoSlice::new(&self.large), IoSlice::new(self.after)];
                ready!(Pin::new(&mut *stream).poll_write_vectored(context, &slices))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            carried();
            self.took(written);
        }
        self.small.clear();
        self.gone = 0;
        Pin::new(stream).poll_flush(context)
    }

    fn took(&mut self, mut count: usize) {
        let of_small = count.min(self.small.len() - self.gone);
        self.gone += of_small;
        count -= of_small;
        let of_large = count.min(self.large.len());
        self.large.advance(of_large);
        self.after = &self.after[count - of_large..];
        if self.large.is_empty() {
            // It may be a part of something larger.
            self.large = Bytes::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Through a stream that takes a few bytes at a time.
    #[tokio::test]
    async fn everything_goes_out_in_its_order() {
        let large: Vec<u8> = (0..10_000_u32).map(|number| (number % 251) as u8).collect();
        for size in [1, 7, 4096, 1 << 20] {
            let (mut near, mut far) = tokio::io::duplex(size);
            let mut out = Outbox::default();
            out.small().extend_from_slice(b"head");
            out.push(Bytes::from_static(b"little"), b"\r\n");
            assert!(out.has_room());
            out.push(Bytes::from(large.clone()), b"after");
            assert!(!out.has_room());
            let mut writes = 0;
            let writing = async {
                std::future::poll_fn(|context| out.poll_flush(&mut near, context, || writes += 1))
                    .await
                    .unwrap();
                assert!(out.is_empty() && out.has_room());
                drop(near);
            };
            let mut all = Vec::new();
            let (read, ()) = tokio::join!(far.read_to_end(&mut all), writing);
            read.unwrap();
            assert_eq!(all, [&b"headlittle\r\n"[..], &large, b"after"].concat());
            assert!(writes > 0);
        }
    }
}
