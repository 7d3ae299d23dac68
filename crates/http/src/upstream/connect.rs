//! From a backend to a connection with one of its endpoints: one that is there, or a new one; another endpoint where
//! one refuses or keeps silent.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tidegate_plan::Reason;
use tidegate_proxy::{Bounds, Ending, Lease, TlsTo};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::h2::Connection;
use super::pools::Pool;
use super::{Destination, Line, Reached, Speaks, Unsent, h1};
use crate::engine::Home;
use crate::wire::Stream;

/// An answer may have as many headers as a request, and no fewer than these.
const FEWEST_HEADERS: usize = 100;

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
    let Some(lease) = meant.or_else(|| home.kit.pick(&to.backend, client, tried, home.clock.now())) else {
        return Err(failure(Reason::NoEndpoints.into(), "no endpoint is left"));
    };
    let pool = home.pools.pool(to, lease.endpoint());
    if let Some(line) = existing(&pool, to.speaks).await {
        return Ok(Reached { lease, line });
    }
    // Boxed, since it is large and most requests do without.
    match Box::pin(made(home, to, &lease, pool)).await {
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
        Speaks::Http1 => pool.idle.take(pool).await.map(Line::Http1),
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

async fn made(home: &Home, to: &Destination, lease: &Lease, pool: Rc<Pool>) -> Result<Line, Unsent> {
    let _making = (to.speaks == Speaks::Http2).then(|| Making::new(&pool));
    let bounds = home.kit.bounds();
    let end = Instant::now() + bounds.connect_time;
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
        None => Stream::Plain(stream),
        Some(tls) => match timeout_at(end, encrypted(tls, stream, to.speaks)).await {
            Ok(Ok(stream)) => {
                home.kit.shook_hands(stream.get_ref().1);
                Stream::Connected(Box::new(stream))
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
    match to.speaks {
        Speaks::Http1 => {
            let line = h1::Line::new(stream, bounds.header_count.max(FEWEST_HEADERS));
            Ok(Line::Http1(h1::Checkout::fresh(line, pool)))
        }
        Speaks::Http2 => {
            let line = http2_line(stream, &pool, bounds.idle_time).await;
            line.map_err(|error| failure(Ending::BackendReset, &super::cause(&error)))
        }
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

async fn http2_line(stream: Stream, pool: &Rc<Pool>, stall_time: Duration) -> Result<Line, h2::Error> {
    let connection = Connection::begin(stream, &pool.clock, stall_time).await?;
    let line = Line::Http2(super::h2::Stream::new(&connection));
    // One whose pool is closed is for this request alone.
    if !pool.is_closed() {
        pool.shared.add(connection);
    }
    Ok(line)
}

fn failure(ending: Ending, detail: &str) -> Unsent {
    Unsent { ending, detail: detail.into(), is_whole: true, was_used: false, rejected: false }
}
