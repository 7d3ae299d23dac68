//! Connections of clients: the handshake, which version of HTTP it is, and hyper with a watch over it.

mod framing;
mod guests;
mod h2;
#[cfg(test)]
mod panics;
mod tie;
mod watched;
mod words;

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use http::{Request, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate_proxy::{Bounds, Ending, HttpConnection, Https, Rewound};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

pub(crate) use self::guests::Guests;
pub(crate) use self::h2::{Reply, Tunnel};
use self::tie::Overdue;
pub(crate) use self::tie::Tie;
use self::watched::Watched;
use crate::body::{Body, Incoming};
use crate::engine::Home;

/// What HTTP/2 without TLS begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Headers that hyper takes if it is not told how many.
pub(crate) const HEADERS_AT_HAND: usize = 100;

/// The first read takes a whole request in most cases.
const FIRST_READ: usize = 4096;

/// What answers requests.
pub(crate) trait Answers<F>:
    Fn(Rc<Home>, Rc<Tie>, Request<Incoming>, Option<Rc<Reply>>) -> F + Copy + Unpin + 'static
{
}

impl<F, A: Fn(Rc<Home>, Rc<Tie>, Request<Incoming>, Option<Rc<Reply>>) -> F + Copy + Unpin + 'static>
    Answers<F> for A
{
}

/// Serves a connection to its end.
pub(crate) async fn serve<F>(home: Rc<Home>, connection: HttpConnection, answers: impl Answers<F>)
where
    F: Future<Output = Response<Body>> + 'static,
{
    let HttpConnection { stream, client, local, tls, place } = connection;
    // Without it answers may come later; nothing else depends on it.
    let _ = stream.set_nodelay(true);
    match tls {
        None => {
            let tie = Tie::new(client, local, None, place, &home.options.trusted);
            match timeout(home.kit.bounds().header_time, first_bytes(stream)).await {
                Ok(Ok((stream, is_http2))) => welcome(home, tie, stream, is_http2, answers).await,
                Ok(Err(error)) => tie.place.ends(Ending::ClientGone, Some(&error.kind())),
                Err(_) => tie.place.ends(Ending::HeaderTimeout, None),
            }
        }
        Some(Https { listener, config, read, .. }) => {
            let accept = TlsAcceptor::from(config).accept(Rewound::new(read, stream));
            match timeout(home.kit.bounds().handshake_time, accept).await {
                Ok(Ok(stream)) => {
                    let session = stream.get_ref().1;
                    place.shook_hands(session);
                    let is_http2 = session.alpn_protocol() == Some(b"h2");
                    let tie = Tie::new(client, local, Some(listener), place, &home.options.trusted);
                    welcome(home, tie, stream, is_http2, answers).await;
                }
                Ok(Err(error)) => place.handshake_failed(&error),
                Err(_) => place.ends(Ending::HandshakeTimeout, None),
            }
        }
    }
}

/// Reads until it is known whether this is HTTP/2 by prior knowledge. What was read is given back to be read again.
async fn first_bytes(mut stream: TcpStream) -> io::Result<(Rewound<TcpStream>, bool)> {
    let mut read = Vec::with_capacity(FIRST_READ);
    loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let known = read.len().min(PREFACE.len());
        if read[..known] != PREFACE[..known] {
            return Ok((Rewound::new(read, stream), false));
        }
        if known == PREFACE.len() {
            return Ok((Rewound::new(read, stream), true));
        }
    }
}

async fn welcome<S, F>(home: Rc<Home>, mut tie: Tie, stream: S, is_http2: bool, answers: impl Answers<F>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    if is_http2 {
        tie.speaks_http2();
    }
    let tie = Rc::new(tie);
    let seat = home.guests.seat(&tie);
    let activity = Arc::clone(&tie.activity);
    let (of_service, of_requests) = (Rc::clone(&home), Rc::clone(&tie));
    let answer =
        move |request, reply| answers(Rc::clone(&of_service), Rc::clone(&of_requests), request, reply);
    let bounds = home.kit.bounds();
    if is_http2 {
        let begin = move |request, reply: Rc<Reply>| {
            let answer = answer(request, Some(Rc::clone(&reply)));
            tokio::task::spawn_local(h2::answer(answer, reply));
        };
        let connection = h2::Connection::new(Watched::http2(stream, activity), &bounds, begin);
        attend(connection, h2::Connection::end, Tie::broke, &tie, &bounds).await;
    } else {
        let io = TokioIo::new(Watched::http1(stream, activity, home.options.reasons));
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let answer = answer(request.map(Incoming::Http1), None);
            async move { Ok::<Response<Body>, Infallible>(answer.await) }
        });
        let connection = http1_builder(&bounds).serve_connection(io, service).with_upgrades();
        attend(connection, http1::UpgradeableConnection::graceful_shutdown, Tie::failed, &tie, &bounds).await;
    }
    drop(seat);
}

fn http1_builder(bounds: &Bounds) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // For as many as it has room for at hand hyper must not be told.
    if bounds.header_count != HEADERS_AT_HAND {
        builder.max_headers(bounds.header_count);
    }
    builder
        .max_header_size(bounds.header_size)
        .max_buf_size(bounds.header_size.max(64 * 1024))
        // The watch over the connection does it, with one timer for all requests.
        .header_read_timeout(None);
    builder
}

/// Lets the connection be served until it ends, is told to, or is overdue.
async fn attend<C, E>(
    connection: C,
    end: impl Fn(Pin<&mut C>),
    failed: impl Fn(&Tie, &E),
    tie: &Tie,
    bounds: &Bounds,
) where
    C: Future<Output = Result<(), E>>,
{
    let mut connection = pin!(connection);
    let mut alarm = pin!(sleep_until(tie.deadline(bounds).into()));
    let mut is_ending = false;
    loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => {
                if let Err(error) = result {
                    failed(tie, &error);
                }
                return;
            }
            () = tie.told(), if !is_ending => {
                is_ending = true;
                end(connection.as_mut());
                alarm.as_mut().reset(tie.deadline(bounds).into());
            }
            () = alarm.as_mut() => match tie.overdue(Instant::now(), bounds) {
                None => alarm.as_mut().reset(tie.deadline(bounds).into()),
                Some(Overdue::Idle) => {
                    tie.end(Instant::now() + bounds.header_time, Ending::Done);
                }
                Some(Overdue::Over(ending)) => return tie.place.ends(ending, None),
            },
        }
    }
}
