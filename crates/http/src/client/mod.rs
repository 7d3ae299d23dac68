//! Connections of clients: the handshake, which version of HTTP it is, and a watch over each.

mod activity;
mod guests;
mod h1;
mod h2;
#[cfg(test)]
mod panics;
mod tie;
mod watched;

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use http::{HeaderMap, Request, Response, StatusCode};
use tidegate_proxy::{Bounds, Ending, HttpConnection, Https, Rewound};
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

pub(crate) use self::guests::Guests;
pub(crate) use self::h1::Connection as Http1;
pub(crate) use self::h2::{Reply as Http2Reply, Tunnel};
use self::tie::Overdue;
pub(crate) use self::tie::Tie;
use crate::body::{Body, Incoming};
use crate::engine::Home;
use crate::wire::{Stream, Wire};

/// What HTTP/2 without TLS begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Where the answer to a request goes, and what comes before it.
#[derive(Clone)]
pub(crate) enum Reply {
    Http1(Rc<Http1>),
    Http2(Rc<h2::Reply>),
}

impl Reply {
    /// Sends an answer that comes before the answer.
    pub(crate) fn answer_early(&self, status: StatusCode, headers: HeaderMap) {
        match self {
            Self::Http1(connection) => connection.answer_early(status, &headers),
            Self::Http2(reply) => reply.answer_early(status, headers),
        }
    }
}

/// What answers requests.
pub(crate) trait Answers<F>:
    Fn(Rc<Home>, Rc<Tie>, Request<Incoming>, Reply) -> F + Copy + Unpin + 'static
{
}

impl<F, A: Fn(Rc<Home>, Rc<Tie>, Request<Incoming>, Reply) -> F + Copy + Unpin + 'static> Answers<F> for A {}

/// Serves a connection to its end. Its parts are boxed one by one: a connection that rests has memory for no other.
pub(crate) async fn serve<F>(home: Rc<Home>, connection: HttpConnection, answers: impl Answers<F>)
where
    F: Future<Output = Response<Body>> + 'static,
{
    let Some((tie, wire, is_http2)) = Box::pin(admit(Rc::clone(&home), connection)).await else { return };
    if is_http2 {
        Box::pin(welcome_http2(home, tie, wire, answers)).await;
    } else {
        Box::pin(welcome_http1(home, tie, wire, answers)).await;
    }
}

/// Shakes hands and finds out whether it is HTTP/2.
async fn admit(home: Rc<Home>, connection: HttpConnection) -> Option<(Rc<Tie>, Wire, bool)> {
    let HttpConnection { stream, client, local, tls, place } = connection;
    // Without it answers may come later; nothing else depends on it.
    let _ = stream.set_nodelay(true);
    let bounds = home.kit.bounds();
    let (listener, mut wire) = match tls {
        None => (None, Wire::new(Stream::Plain(stream))),
        Some(Https { listener, config, read, .. }) => {
            let accept = TlsAcceptor::from(config).accept(Rewound::new(read, stream));
            match timeout(bounds.handshake_time, accept).await {
                Ok(Ok(stream)) => (Some(listener), Wire::new(Stream::Accepted(Box::new(stream)))),
                Ok(Err(error)) => {
                    place.handshake_failed(&error);
                    return None;
                }
                Err(_) => {
                    place.ends(Ending::HandshakeTimeout, None);
                    return None;
                }
            }
        }
    };
    let is_http2 = match &wire.stream {
        Stream::Accepted(stream) => {
            let session = stream.get_ref().1;
            place.shook_hands(session);
            session.alpn_protocol() == Some(b"h2")
        }
        _ => match timeout(bounds.header_time, has_preface(&mut wire)).await {
            Ok(Ok(is_http2)) => is_http2,
            Ok(Err(error)) => {
                place.ends(Ending::ClientGone, Some(&error.kind()));
                return None;
            }
            Err(_) => {
                place.ends(Ending::HeaderTimeout, None);
                return None;
            }
        },
    };
    let tie = Tie::new(client, local, listener, place, is_http2, &home.options.trusted, &home.clock);
    Some((Rc::new(tie), wire, is_http2))
}

/// Reads until it is known whether this is HTTP/2 by prior knowledge.
async fn has_preface(wire: &mut Wire) -> io::Result<bool> {
    loop {
        if poll_fn(|context| wire.poll_fill(context)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let known = wire.rest.len().min(PREFACE.len());
        if wire.rest[..known] != PREFACE[..known] {
            return Ok(false);
        }
        if known == PREFACE.len() {
            return Ok(true);
        }
    }
}

async fn welcome_http1<F>(home: Rc<Home>, tie: Rc<Tie>, wire: Wire, answers: impl Answers<F>)
where
    F: Future<Output = Response<Body>> + 'static,
{
    let seat = home.guests.seat(&tie);
    let connection = Http1::new(wire, &tie.activity);
    let answer = |request| {
        let reply = Reply::Http1(Rc::clone(&connection));
        answers(Rc::clone(&home), Rc::clone(&tie), request, reply)
    };
    let served = pin!(h1::serve(&home, &tie, &connection, answer));
    attend(served, |_| (), Tie::broke, &tie, &home.kit.bounds()).await;
    drop(seat);
}

async fn welcome_http2<F>(home: Rc<Home>, tie: Rc<Tie>, wire: Wire, answers: impl Answers<F>)
where
    F: Future<Output = Response<Body>> + 'static,
{
    let seat = home.guests.seat(&tie);
    let bounds = home.kit.bounds();
    let stall_time = bounds.idle_time;
    let (of_service, of_requests) = (Rc::clone(&home), Rc::clone(&tie));
    let begin = move |request, reply: Rc<h2::Reply>| {
        let (home, tie) = (Rc::clone(&of_service), Rc::clone(&of_requests));
        let clock = Rc::clone(&home.clock);
        // Boxed, because the runtime moves what it is given several times.
        tokio::task::spawn_local(Box::pin(async move {
            let answering = pin!(answers(home, tie, request, Reply::Http2(Rc::clone(&reply))));
            h2::answer(answering, &reply, &clock, stall_time).await;
        }));
    };
    let connection = pin!(h2::Connection::new(wire, &tie, &home, begin));
    attend(connection, h2::Connection::end, Tie::broke, &tie, &bounds).await;
    drop(seat);
}

/// Lets the connection be served until it ends, is told to, or is overdue.
async fn attend<C, E>(
    mut connection: Pin<&mut C>,
    end: impl Fn(Pin<&mut C>),
    broke: impl Fn(&Tie, &E),
    tie: &Tie,
    bounds: &Bounds,
) where
    C: Future<Output = Result<(), E>>,
{
    let mut alarm = pin!(sleep_until(tie.deadline(bounds).into()));
    let mut is_ending = false;
    poll_fn(|context| {
        loop {
            if let Poll::Ready(result) = connection.as_mut().poll(context) {
                if let Err(error) = result {
                    broke(tie, &error);
                }
                return Poll::Ready(());
            }
            if !is_ending && tie.is_ending() {
                is_ending = true;
                end(connection.as_mut());
                alarm.as_mut().reset(tie.deadline(bounds).into());
                continue;
            }
            tie.watch(context);
            if alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            match tie.overdue(Instant::now(), bounds) {
                None => {}
                Some(Overdue::Idle) => tie.end(Instant::now() + bounds.header_time, Ending::Done),
                Some(Overdue::Over(ending)) => {
                    tie.place.ends(ending, None);
                    return Poll::Ready(());
                }
            }
            alarm.as_mut().reset(tie.deadline(bounds).into());
        }
    })
    .await;
}
