//! What a backend gets of a body: the client's, a copy of it, or one of our own.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::source::{Copied, Part, Source};
use super::{BodyError, Polled};

/// What a backend gets.
#[derive(Debug, Default)]
pub(crate) enum Upload {
    #[default]
    Empty,
    Bytes(Bytes),
    /// The client's, from the beginning.
    Client {
        source: Rc<Source>,
        at: usize,
    },
    /// A copy of the client's. Its end is said: a copy that stops without it is not whole.
    Copy {
        parts: mpsc::Receiver<Copied>,
        hint: SizeHint,
    },
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled<Frame<Bytes>, BodyError> {
        let part = match &mut *self {
            Self::Empty => return Poll::Ready(None),
            Self::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Self::Client { source, at } => source.poll(at, context),
            Self::Copy { parts, .. } => match std::task::ready!(parts.poll_recv(context)) {
                Some(Copied::Part(part)) => Poll::Ready(Some(Ok(part))),
                Some(Copied::End) => {
                    *self = Self::Empty;
                    Poll::Ready(None)
                }
                None => Poll::Ready(Some(Err(BodyError::Client))),
            },
        };
        part.map(|part| {
            part.map(|part| {
                part.map(|part| match part {
                    Part::Data(data) => Frame::data(data),
                    Part::Trailers(trailers) => Frame::trailers(trailers),
                })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Bytes(_) | Self::Copy { .. } => false,
            Self::Client { source, at } => source.has_ended(*at),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Client { source, at: 0 } => source.hint,
            Self::Copy { hint, .. } => *hint,
            Self::Client { .. } => SizeHint::default(),
        }
    }
}
