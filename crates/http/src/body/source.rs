//! The body of a client, of which there is one, however often it is sent: it may be needed again for another try, and
//! mirrors may want a copy, both within bounds, and neither slows the first.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tidegate_proxy::{Ending, PipePool, Piped};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{BodyError, Incoming, IncomingError, Polled, Upload};
use crate::exchange::Exchange;

/// The client's body.
pub(crate) struct Source {
    state: RefCell<State>,
    pub(super) hint: SizeHint,
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

impl Part {
    fn size(&self) -> usize {
        match self {
            Self::Data(data) => data.len(),
            Self::Trailers(_) => 0,
        }
    }
}

/// What may be sent twice of a frame.
fn part(frame: Result<Frame<Bytes>, IncomingError>) -> Option<Result<Part, IncomingError>> {
    match frame.map(Frame::into_data) {
        Ok(Ok(data)) => Some(Ok(Part::Data(data))),
        Ok(Err(frame)) => frame.into_trailers().ok().map(|trailers| Ok(Part::Trailers(trailers))),
        Err(error) => Some(Err(error)),
    }
}

/// So many parts are kept as they came. Of more, small ones are put together: each by itself takes more memory than is
/// in it.
const FEW: usize = 8;
const SMALL: usize = 4096;

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
        Some(Upload::Copy { parts: receiver, hint: self.hint })
    }

    /// Up to so many bytes of the body, which stay to be sent. `None`: there are more.
    pub(crate) async fn peek(self: &Rc<Self>, most: usize) -> Result<Option<Bytes>, BodyError> {
        let mut all = BytesMut::new();
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

    pub(super) fn poll(&self, at: &mut usize, context: &mut Context<'_>) -> Polled<Part, BodyError> {
        let state = &mut *self.state.borrow_mut();
        if let Some(part) = state.kept.as_ref().and_then(|kept| kept.get(*at)) {
            *at += 1;
            return Poll::Ready(Some(Ok(part.clone())));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        let frame = Pin::new(&mut state.incoming).poll_frame(context);
        let polled = self.note(state, frame.map(|frame| frame.and_then(part)), Part::size, context);
        if let Poll::Ready(Some(Ok(part))) = &polled {
            state.keep(part);
            state.copies.retain(|copy| copy.try_send(Copied::Part(part.clone())).is_ok());
            self.look_for_end(state);
            // What is kept of it may have become one with what was there before.
            *at = state.kept.as_ref().map_or(*at + 1, Vec::len);
        }
        polled
    }

    /// The same in a pipe, where that can be and nobody else is to have it.
    pub(super) fn poll_piped(
        &self,
        at: &mut usize,
        pipes: &PipePool,
        context: &mut Context<'_>,
    ) -> Option<Polled<Piped, BodyError>> {
        let state = &mut *self.state.borrow_mut();
        if state.kept.is_some() || !state.copies.is_empty() || state.ended {
            return None;
        }
        let piped = state.incoming.poll_piped(pipes, context)?;
        let polled = self.note(state, piped, Piped::len, context);
        if let Poll::Ready(Some(Ok(_))) = &polled {
            self.look_for_end(state);
            *at += 1;
        }
        Some(polled)
    }

    /// Whether nothing is left behind so many parts.
    pub(super) fn has_ended(&self, at: usize) -> bool {
        let state = self.state.borrow();
        state.ended && state.kept.as_ref().is_none_or(|kept| at >= kept.len())
    }

    /// Counts what came, or waits for as long as the client may take.
    fn note<T>(
        &self,
        state: &mut State,
        polled: Polled<T, IncomingError>,
        size: impl Fn(&T) -> usize,
        context: &mut Context<'_>,
    ) -> Polled<T, BodyError> {
        let part = match polled {
            Poll::Pending => return self.wait(state, context),
            Poll::Ready(None) => None,
            Poll::Ready(Some(Err(error))) => {
                let is_malformed = matches!(error, IncomingError::Malformed(_));
                let ending = if is_malformed { Ending::RequestInvalid } else { Ending::ClientReset };
                self.exchange.ends(ending, None);
                state.copies.clear();
                return Poll::Ready(Some(Err(BodyError::Client)));
            }
            Poll::Ready(Some(Ok(part))) => Some(part),
        };
        state.last = Instant::now();
        match &part {
            Some(part) => self.exchange.carried_up(size(part)),
            None => self.end(state),
        }
        Poll::Ready(part.map(Ok))
    }

    fn look_for_end(&self, state: &mut State) {
        if state.incoming.is_end_stream() {
            self.end(state);
        } else if state.incoming.is_all() {
            // Its end, which HTTP/2 may have in a frame of its own, or trailers are for those who wait for them.
            self.has_all(state);
        }
    }

    fn end(&self, state: &mut State) {
        state.ended = true;
        self.has_all(state);
    }

    fn has_all(&self, state: &mut State) {
        self.exchange.uploaded();
        for copy in state.copies.drain(..) {
            // A mirror that cannot keep up is left without the end.
            let _ = copy.try_send(Copied::End);
        }
    }

    /// The client owes us bytes. Once the backend has begun to answer it may take its time: streams do.
    fn wait<T>(&self, state: &mut State, context: &mut Context<'_>) -> Polled<T, BodyError> {
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

impl State {
    fn keep(&mut self, part: &Part) {
        let Some(kept) = &mut self.kept else { return };
        let size = part.size();
        if size > self.room {
            self.kept = None;
            return;
        }
        self.room -= size;
        let is_one_of_many = kept.len() >= FEW;
        match (kept.last_mut(), part) {
            (Some(Part::Data(last)), Part::Data(data))
                if is_one_of_many && last.len() < SMALL && data.len() < SMALL =>
            {
                let own = std::mem::take(last).try_into_mut();
                let mut joined = own.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                joined.extend_from_slice(data);
                *last = joined.freeze();
            }
            _ => kept.push(part.clone()),
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("size", &self.hint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(room: usize) -> State {
        State {
            incoming: Incoming::Empty,
            kept: Some(Vec::new()),
            room,
            copies: Vec::new(),
            last: Instant::now(),
            alarm: None,
            ended: false,
        }
    }

    fn kept(state: &State) -> Option<(usize, Vec<u8>)> {
        let kept = state.kept.as_ref()?;
        let data = kept.iter().map(|part| match part {
            Part::Data(data) => &data[..],
            Part::Trailers(_) => b"",
        });
        Some((kept.len(), data.collect::<Vec<_>>().concat()))
    }

    /// Memory is bounded by bytes, however few of them come at a time.
    #[test]
    fn what_is_kept_of_many_small_parts() {
        let mut state = state(65_536);
        let all: Vec<u8> = (0..65_536_u32).map(|number| (number % 251) as u8).collect();
        for byte in &all {
            state.keep(&Part::Data(Bytes::copy_from_slice(&[*byte])));
        }
        let (parts, bytes) = kept(&state).unwrap();
        assert!(parts <= FEW + 65_536 / SMALL, "{parts}");
        assert!(bytes == all);
        state.keep(&Part::Data(Bytes::from_static(b"!")));
        assert_eq!(kept(&state), None, "there is no room for more");
    }

    /// What others still hold stays as it is.
    #[test]
    fn what_is_kept_is_in_its_order() {
        let mut state = state(1 << 20);
        let large = Bytes::from(vec![b'L'; SMALL]);
        let mut all = Vec::new();
        for number in 0..100 {
            let data = if number % 7 == 0 { large.clone() } else { Bytes::from(format!("{number} ")) };
            all.extend_from_slice(&data);
            state.keep(&Part::Data(data));
            // As another try would.
            let again = state.kept.as_ref().and_then(|kept| kept.last().cloned());
            assert!(again.is_some());
        }
        state.keep(&Part::Trailers(HeaderMap::new()));
        state.keep(&Part::Data(Bytes::from_static(b"end")));
        all.extend_from_slice(b"end");
        assert!(kept(&state).unwrap().1 == all);
    }
}
