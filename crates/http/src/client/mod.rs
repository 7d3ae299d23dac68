//! Connections of clients: the handshake, which version of HTTP it is, and hyper with a watch over it.

mod framing;
mod guests;
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
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_proxy::{Bounds, Ending, HttpConnection, Https, Rewound};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

pub(crate) use self::guests::Guests;
use self::tie::Overdue;
pub(crate) use self::tie::Tie;
use self::watched::Watched;
use crate::body::Body;
use crate::engine::Home;
use crate::local::Local;

/// What HTTP/2 without TLS begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Headers that hyper takes if it is not told how many.
pub(crate) const HEADERS_AT_HAND: usize = 100;

/// The first read takes a whole request in most cases.
const FIRST_READ: usize = 4096;

/// What answers requests.
pub(crate) trait Answers<F>: Fn(Rc<Home>, Rc<Tie>, Request<Incoming>) -> F + Copy + 'static {}

impl<F, A: Fn(Rc<Home>, Rc<Tie>, Request<Incoming>) -> F + Copy + 'static> Answers<F> for A {}

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
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answers(Rc::clone(&of_service), Rc::clone(&of_requests), request);
        async move { Ok::<Response<Body>, Infallible>(answer.await) }
    });
    let bounds = home.kit.bounds();
    if is_http2 {
        let io = TokioIo::new(Watched::http2(stream, activity));
        let connection = http2_builder(&bounds).serve_connection(io, service);
        attend(connection, http2::Connection::graceful_shutdown, &tie, &bounds).await;
    } else {
        let io = TokioIo::new(Watched::http1(stream, activity, home.options.reasons));
        let connection = http1_builder(&bounds).serve_connection(io, service).with_upgrades();
        attend(connection, http1::UpgradeableConnection::graceful_shutdown, &tie, &bounds).await;
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

fn http2_builder(bounds: &Bounds) -> http2::Builder<Local> {
    let mut builder = http2::Builder::new(Local);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(bounds.streams)
        .max_header_list_size(u32::try_from(bounds.header_size).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(bounds.resets)
        .max_local_error_reset_streams(bounds.resets)
        .max_send_buf_size(256 * 1024)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(1024 * 1024)
        .enable_connect_protocol();
    builder
}

/// Lets hyper serve the connection until it ends, is told to, or is overdue.
async fn attend<C>(connection: C, end: impl Fn(Pin<&mut C>), tie: &Tie, bounds: &Bounds)
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = pin!(connection);
    let mut alarm = pin!(sleep_until(tie.deadline(bounds).into()));
    let mut is_ending = false;
    loop {
        tokio::select! {
            biased;
            result = connection.as_mut() => {
                if let Err(error) = result {
                    tie.failed(&error);
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
