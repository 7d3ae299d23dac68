//! From a backend to a connection with one of its endpoints: one that is there, or a new one; another endpoint where
//! one refuses or keeps silent.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tidegate_plan::Reason;
use tidegate_proxy::{Bounds, Ending, Lease, TlsTo};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::h2::Connection;
use super::pools::Pool;
use super::stream::Stream;
use super::{Destination, Line, Reached, Speaks, Unsent, h1};
use crate::body::Upload;
use crate::client::HEADERS_AT_HAND;
use crate::engine::Home;

/// A third of the time for all is what one endpoint has, as long as there is another to ask.
const SHARE: u32 = 3;

/// A connection to the endpoint that is meant, or else to one of the backend's other than those tried already. One that
/// fails is added to `tried`.
pub(crate) async fn reach(
    home: &Home,
    to: &Destination,
    client: IpAddr,
    meant: Option<Lease>,
    tried: &mut Vec<SocketAddr>,
) -> Result<Reached, Unsent> {
    let end = Instant::now() + home.kit.bounds().connect_time;
    let Some(lease) = meant.or_else(|| home.kit.pick(&to.backend, client, tried)) else {
        return Err(failure(Reason::NoEndpoints.into(), "no endpoint is left"));
    };
    let pool = home.pools.pool(to, lease.endpoint());
    if let Some(line) = existing(&pool, to.speaks).await {
        return Ok(Reached { lease, line });
    }
    match made(home, to, &lease, pool, end).await {
        Ok(line) => Ok(Reached { lease, line }),
        Err(unsent) => {
            tried.push(lease.address);
            Err(unsent)
        }
    }
}

/// The same with every endpoint in turn, for requests that no rule for retries is about.
pub(crate) async fn reach_any(home: &Home, to: &Destination, client: IpAddr) -> Result<Reached, Unsent> {
    let mut tried = Vec::new();
    loop {
        match reach(home, to, client, None, &mut tried).await {
            Err(unsent) if unsent.ending == Ending::OutOfResources || !to.backend.has_untried(&tried) => {
                return Err(unsent);
            }
            Err(_) => {}
            reached => return reached,
        }
    }
}

async fn existing(pool: &Rc<Pool>, speaks: Speaks) -> Option<Line> {
    match speaks {
        Speaks::Http1 => loop {
            let mut line = pool.idle.take(pool)?;
            if line.is_ready().await {
                return Some(Line::Http1(line));
            }
        },
        Speaks::Http2 => loop {
            if let Some(stream) = pool.shared.take() {
                return Some(Line::Http2(stream));
            }
            let mut made = pin!(pool.shared.made.notified());
            made.as_mut().enable();
            if !pool.shared.making.get() {
                return None;
            }
            made.await;
        },
    }
}

/// While this is held, others wait for the connection that is being made.
struct Making(Rc<Pool>);

impl Making {
    fn new(pool: &Rc<Pool>) -> Self {
        pool.shared.making.set(true);
        Self(Rc::clone(pool))
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.0.shared.making.set(false);
        self.0.shared.made.notify_waiters();
    }
}

async fn made(
    home: &Home,
    to: &Destination,
    lease: &Lease,
    pool: Rc<Pool>,
    end: Instant,
) -> Result<Line, Unsent> {
    let _making = (to.speaks == Speaks::Http2).then(|| Making::new(&pool));
    let bounds = home.kit.bounds();
    home.kit.connecting();
    let deadline = end.min(Instant::now() + patience(&bounds, to));
    let stream = match timeout_at(deadline, TcpStream::connect(lease.address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let of_endpoint = home.kit.connect_failed(&to.backend, lease, &error);
            let ending = if of_endpoint { Ending::ConnectFailed } else { Ending::OutOfResources };
            return Err(failure(ending, &error.kind().to_string()));
        }
        Err(_) => {
            home.kit.connect_failed(&to.backend, lease, &io::ErrorKind::TimedOut.into());
            return Err(failure(Ending::ConnectTimeout, "the endpoint did not answer"));
        }
    };
    home.kit.connected(&to.backend, lease);
    // Without it a request may leave later; nothing else depends on it.
    let _ = stream.set_nodelay(true);
    let stream = match &to.tls {
        None => Stream::plain(stream),
        Some(tls) => match timeout_at(end, encrypted(tls, stream, to.speaks)).await {
            Ok(Ok(stream)) => {
                home.kit.shook_hands(stream.get_ref().1);
                Stream::tls(stream)
            }
            Ok(Err(error)) => {
                let words = tidegate_proxy::tls_words(&error);
                return Err(failure(Ending::BackendHandshakeFailed, &words));
            }
            Err(_) => {
                return Err(failure(Ending::ConnectTimeout, "the TLS handshake was not complete in time"));
            }
        },
    };
    let broken = |error: &dyn std::error::Error| failure(Ending::BackendReset, &super::cause(error));
    match to.speaks {
        Speaks::Http1 => http1_line(stream, pool, bounds.header_count).await.map_err(|error| broken(&error)),
        Speaks::Http2 => http2_line(stream, &pool).await.map_err(|error| broken(&error)),
    }
}

fn patience(bounds: &Bounds, to: &Destination) -> Duration {
    if to.backend.has_others() { bounds.connect_time / SHARE } else { bounds.connect_time }
}

async fn encrypted(
    tls: &TlsTo,
    stream: TcpStream,
    speaks: Speaks,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let protocol: &[u8] = match speaks {
        Speaks::Http1 => b"http/1.1",
        Speaks::Http2 => b"h2",
    };
    let connector = TlsConnector::from(std::sync::Arc::clone(&tls.config));
    let stream = connector.with_alpn(vec![protocol.to_vec()]).connect(tls.name.clone(), stream).await?;
    // A backend that does not say what it speaks is taken at its policy's word.
    if stream.get_ref().1.alpn_protocol().is_some_and(|agreed| agreed != protocol) {
        return Err(io::Error::other(rustls::Error::NoApplicationProtocol));
    }
    Ok(stream)
}

async fn http1_line(stream: Stream, pool: Rc<Pool>, headers: usize) -> hyper::Result<Line> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(256 * 1024);
    // As many as a request may have, and no fewer than hyper has room for at hand: for more it allocates with each
    // answer.
    if headers > HEADERS_AT_HAND {
        builder.max_headers(headers);
    }
    let (sender, connection) = builder.handshake::<_, Upload>(TokioIo::new(stream)).await?;
    tokio::task::spawn_local(connection.with_upgrades());
    let mut line = h1::Checkout::fresh(sender, pool);
    line.is_ready().await;
    Ok(Line::Http1(line))
}

async fn http2_line(stream: Stream, pool: &Rc<Pool>) -> Result<Line, h2::Error> {
    let connection = Connection::begin(stream).await?;
    let line = Line::Http2(super::h2::Stream::new(&connection));
    // One whose pool is closed is for this request alone.
    if !pool.is_closed() {
        pool.shared.add(connection);
    }
    Ok(line)
}

fn failure(ending: Ending, detail: &str) -> Unsent {
    Unsent { ending, detail: detail.into(), request: None, was_used: false, rejected: false }
}
