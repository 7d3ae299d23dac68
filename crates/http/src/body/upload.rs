//! A client's body on its way to a backend. It may be needed again for another try, and mirrors may want a copy:
//! both within bounds, and neither slows the first.

use std::cell::RefCell;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tidegate_proxy::Ending;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{BodyError, Incoming, IncomingError};
use crate::exchange::Exchange;

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
    Copy(mpsc::Receiver<Copied>),
}

#[derive(Debug)]
pub(crate) enum Copied {
    Part(Part),
    End,
}

/// A frame that can be sent twice.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Data(Bytes),
    Trailers(HeaderMap),
}

/// The client's body, of which there is one, however often it is sent.
pub(crate) struct Source {
    state: RefCell<State>,
    hint: SizeHint,
    exchange: Rc<Exchange>,
    /// Without a frame.
    time: Duration,
}

struct State {
    incoming: Incoming,
    /// All so far, as long as there may be another try.
    kept: Option<Vec<Part>>,
    /// Room for more of it.
    room: usize,
    copies: Vec<mpsc::Sender<Copied>>,
    last: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

/// Frames that wait for a mirror.
const COPIES: usize = 64;

impl Source {
    /// `keep`: bytes that are kept for another try; 0 for none. `time`: without a frame.
    pub(crate) fn new(
        incoming: Incoming,
        exchange: &Rc<Exchange>,
        keep: usize,
        time: Duration,
    ) -> Option<Rc<Self>> {
        if incoming.is_end_stream() {
            return None;
        }
        exchange.uploading();
        let hint = incoming.size_hint();
        let fits = hint.lower() <= keep as u64;
        let state = State {
            incoming,
            kept: (keep > 0 && fits).then(Vec::new),
            room: keep,
            copies: Vec::new(),
            last: Instant::now(),
            alarm: None,
            ended: false,
        };
        Some(Rc::new(Self { state: RefCell::new(state), hint, exchange: Rc::clone(exchange), time }))
    }

    /// The body for one more try; `None` where too much of it is gone.
    pub(crate) fn upload(self: &Rc<Self>) -> Option<Upload> {
        let state = self.state.borrow();
        let whole = state.kept.is_some() || !self.has_begun(&state);
        whole.then(|| Upload::Client { source: Rc::clone(self), at: 0 })
    }

    fn has_begun(&self, state: &State) -> bool {
        state.ended || state.incoming.size_hint().exact() != self.hint.exact() || self.exchange.up() > 0
    }

    /// A copy of the whole; `None` where too much of it is gone.
    pub(crate) fn copy(&self) -> Option<Upload> {
        let mut state = self.state.borrow_mut();
        if state.kept.is_none() && self.has_begun(&state) {
            return None;
        }
        let kept = state.kept.as_deref().unwrap_or_default();
        let (sender, receiver) = mpsc::channel(COPIES + kept.len());
        for part in kept {
            // There is room for them.
            let _ = sender.try_send(Copied::Part(part.clone()));
        }
        if state.ended {
            let _ = sender.try_send(Copied::End);
        } else {
            state.copies.push(sender);
        }
        Some(Upload::Copy(receiver))
    }

    /// Up to so many bytes of the body, which stay to be sent. `None`: there are more.
    pub(crate) async fn peek(self: &Rc<Self>, most: usize) -> Result<Option<Bytes>, BodyError> {
        let mut all = bytes::BytesMut::new();
        let mut at = 0;
        loop {
            let part = std::future::poll_fn(|context| self.poll(&mut at, context)).await;
            match part {
                None => return Ok(Some(all.freeze())),
                Some(Err(error)) => return Err(error),
                Some(Ok(Part::Trailers(_))) => {}
                Some(Ok(Part::Data(data))) => {
                    all.extend_from_slice(&data);
                    if all.len() > most {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Makes sure that what is looked at beforehand can be sent afterwards.
    pub(crate) fn keep_at_least(&self, bytes: usize) {
        let mut state = self.state.borrow_mut();
        if state.kept.is_none() && !self.has_begun(&state) {
            state.kept = Some(Vec::new());
        }
        state.room = state.room.max(bytes);
    }

    fn poll(&self, at: &mut usize, context: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        let state = &mut *self.state.borrow_mut();
        if let Some(part) = state.kept.as_ref().and_then(|kept| kept.get(*at)) {
            *at += 1;
            return Poll::Ready(Some(Ok(part.clone())));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        let part = match Pin::new(&mut state.incoming).poll_frame(context) {
            Poll::Pending => return self.wait(state, context),
            Poll::Ready(None) => None,
            Poll::Ready(Some(Err(error))) => {
                let ending = if is_malformed(&error) { Ending::RequestInvalid } else { Ending::ClientReset };
                self.exchange.ends(ending, None);
                state.copies.clear();
                return Poll::Ready(Some(Err(BodyError::Client)));
            }
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => Some(Part::Data(data)),
                Err(frame) => frame.into_trailers().ok().map(Part::Trailers),
            },
        };
        state.last = Instant::now();
        let Some(part) = part else {
            self.end(state);
            return Poll::Ready(None);
        };
        if let Part::Data(data) = &part {
            self.exchange.carried_up(data.len());
        }
        state.keep(&part);
        state.copies.retain(|copy| copy.try_send(Copied::Part(part.clone())).is_ok());
        if state.incoming.is_end_stream() {
            self.end(state);
        }
        *at += 1;
        Poll::Ready(Some(Ok(part)))
    }

    fn end(&self, state: &mut State) {
        state.ended = true;
        self.exchange.uploaded();
        for copy in state.copies.drain(..) {
            // A mirror that cannot keep up is left without the end.
            let _ = copy.try_send(Copied::End);
        }
    }

    /// The client owes us bytes. Once the backend has begun to answer it may take its time: streams do.
    fn wait(&self, state: &mut State, context: &mut Context<'_>) -> Poll<Option<Result<Part, BodyError>>> {
        if self.exchange.is_answered() {
            return Poll::Pending;
        }
        let end = state.last + self.time;
        let alarm = state.alarm.get_or_insert_with(|| Box::pin(sleep_until(end)));
        while alarm.as_mut().poll(context).is_ready() {
            if end <= Instant::now() {
                self.exchange.ends(Ending::BodyTimeout, None);
                return Poll::Ready(Some(Err(BodyError::ClientTimeout)));
            }
            alarm.as_mut().reset(end);
        }
        Poll::Pending
    }
}

/// Whether what came is no body, rather than that nothing more came.
fn is_malformed(error: &IncomingError) -> bool {
    let IncomingError::Http1(error) = error else { return false };
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause
        .is_some_and(|cause| matches!(cause.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData))
}

impl State {
    fn keep(&mut self, part: &Part) {
        let Some(kept) = &mut self.kept else { return };
        let size = match part {
            Part::Data(data) => data.len(),
            Part::Trailers(_) => 0,
        };
        if size > self.room {
            self.kept = None;
        } else {
            self.room -= size;
            kept.push(part.clone());
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let part = match &mut *self {
            Self::Empty => return Poll::Ready(None),
            Self::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            Self::Client { source, at } => source.poll(at, context),
            Self::Copy(parts) => match std::task::ready!(parts.poll_recv(context)) {
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
            Self::Bytes(_) | Self::Copy(_) => false,
            Self::Client { source, at } => {
                let state = source.state.borrow();
                state.ended && state.kept.as_ref().is_none_or(|kept| *at >= kept.len())
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Client { source, at: 0 } => source.hint,
            Self::Client { .. } | Self::Copy(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("size", &self.hint).finish_non_exhaustive()
    }
}
