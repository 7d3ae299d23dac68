//! Connections that go on as another protocol: WebSocket and its like, asked for by Upgrade over HTTP/1.1 or by
//! extended CONNECT over HTTP/2, on either side.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use h2::ext::Protocol;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use tidegate_proxy::Ending;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::Exchange;
use super::failure::Failure;
use crate::body::{Body, Download, Incoming, Upload};
use crate::client::{Reply, Tunnel};
use crate::hop;
use crate::request::is_http2;
use crate::tunnel::End;
use crate::upstream::{Destination, Reached, Speaks, reach_any};

/// What a client would like to go on with.
pub(super) struct Wish {
    protocol: HeaderValue,
    /// Asked for by CONNECT, over HTTP/2.
    extended: bool,
    client: Client,
}

/// The client's end, once it was answered.
enum Client {
    Connection(oneshot::Receiver<End>),
    Stream(Tunnel),
}

impl Client {
    async fn end(self) -> Option<End> {
        match self {
            Self::Connection(end) => end.await.ok(),
            Self::Stream(Tunnel { frames, out }) => Some(End::stream(frames, out.await.ok()?)),
        }
    }
}

const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");

/// How often a tunnel asks whether it may go on.
const LOOK: Duration = Duration::from_millis(500);

/// Bytes on their way in one direction.
const BUFFER: usize = 16 * 1024;

impl Wish {
    pub(super) fn of(request: &Request<Incoming>, reply: &Reply) -> Option<Self> {
        let connection = match reply {
            Reply::Http1(connection) => connection,
            Reply::Http2(reply) => {
                let protocol = request.extensions().get::<Protocol>()?;
                let protocol = HeaderValue::from_str(protocol.as_str()).ok()?;
                return Some(Self { protocol, extended: true, client: Client::Stream(reply.tunnel()?) });
            }
        };
        let headers = request.headers();
        let protocol = headers.get(header::UPGRADE)?;
        let asked = headers.get_all(header::CONNECTION).iter().any(|line| hop::has_token(line, "upgrade"));
        // What has a body cannot go on as something else before its end: the request is served as it is.
        let is_plain = has_http2(protocol) || !request.body().is_end_stream();
        if !asked || is_plain {
            return None;
        }
        let protocol = protocol.clone();
        Some(Self { protocol, extended: false, client: Client::Connection(connection.inherit()) })
    }

    /// Rules see the GET that it would be over HTTP/1.1.
    pub(super) fn settle(&self, parts: &mut Parts) {
        if self.extended {
            parts.method = Method::GET;
        }
    }
}

/// Whether HTTP/2 is among the protocols that are offered: in the middle of HTTP/1.1 it is no longer a thing, and would
/// carry requests past all rules. Wherever it stands, the backend would be free to take it.
fn has_http2(offered: &HeaderValue) -> bool {
    offered.as_bytes().split(|byte| *byte == b',').any(|protocol| is_http2(protocol.trim_ascii()))
}

pub(super) async fn forward(
    exchange: &Rc<Exchange>,
    mut to: Destination,
    parts: &mut Parts,
    wish: Wish,
) -> Result<Response<Body>, Failure> {
    let client_key = parts.headers.get(KEY).cloned();
    let (Reached { lease, line }, extended) = reached(exchange, &mut to).await?;
    exchange.endpoint.set(Some(lease.address));
    if extended {
        connect(parts, &wish);
    } else {
        upgrade(exchange, parts, &wish);
    }
    let (response, mut hold) =
        line.send((&*parts).into(), &to, lease.address, Upload::Empty, |_, _| ()).await?;
    exchange.answered();
    let agreed = if extended { StatusCode::OK } else { StatusCode::SWITCHING_PROTOCOLS };
    if response.status() != agreed {
        let (mut head, incoming) = response.into_parts();
        head.version = Version::HTTP_11;
        head.extensions.clear();
        hop::strip_response(&mut head.headers);
        let download = Download::new(incoming, hold, lease, exchange, None);
        return Ok(Response::from_parts(head, Body::Download(Box::new(download))));
    }
    let (head, incoming) = response.into_parts();
    let backend = match &mut hold {
        None => incoming.into_wire().map(|wire| End::connection(Rc::new(RefCell::new(wire)))),
        Some(hold) => {
            incoming.into_stream().zip(hold.take_out()).map(|(frames, out)| End::stream(frames, out))
        }
    };
    let mut answer = Response::new(Body::Empty);
    *answer.headers_mut() = head.headers;
    let agreed = hop::strip_response(answer.headers_mut());
    if wish.extended {
        answer.headers_mut().remove(ACCEPT);
    } else {
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        // Over HTTP/2 nobody proves that a key was read, and a client of HTTP/1.1 asks for it.
        if let (true, Some(key)) = (extended, client_key.and_then(|key| accept(&key))) {
            answer.headers_mut().insert(ACCEPT, key);
        }
        hop::ask_upgrade(answer.headers_mut(), agreed.unwrap_or(wish.protocol));
    }
    let exchange = Rc::clone(exchange);
    // A connection over HTTP/1.1 gives up its own when it is handed over.
    let seat = exchange.home.guests.seat(&exchange.tie);
    tokio::task::spawn_local(async move {
        let _held = (hold, lease, seat);
        if let (Some(client), Some(backend)) = (wish.client.end().await, backend) {
            let ending = relay(&exchange, client, backend).await;
            exchange.ends(ending, None);
        }
    });
    Ok(answer)
}

/// A connection, and whether it takes a tunnel as a stream among others. A backend of HTTP/2 that does not is asked
/// over HTTP/1.1, as all others are.
async fn reached(exchange: &Exchange, to: &mut Destination) -> Result<(Reached, bool), Failure> {
    let (home, client) = (&exchange.home, exchange.tie.client.ip());
    let reached = reach_any(home, to, client).await?;
    if to.speaks == Speaks::Http1 {
        return Ok((reached, false));
    }
    let takes = timeout(home.kit.bounds().connect_time, reached.line.takes_tunnels()).await;
    if takes.unwrap_or(false) {
        return Ok((reached, true));
    }
    drop(reached);
    to.speaks = Speaks::Http1;
    Ok((reach_any(home, to, client).await?, false))
}

/// Asks over HTTP/1.1.
fn upgrade(exchange: &Exchange, parts: &mut Parts, wish: &Wish) {
    if wish.extended && !parts.headers.contains_key(KEY) {
        parts.headers.insert(KEY, key(exchange));
    }
    hop::ask_upgrade(&mut parts.headers, wish.protocol.clone());
}

/// Asks over HTTP/2.
fn connect(parts: &mut Parts, wish: &Wish) {
    parts.headers.remove(KEY);
    parts.method = Method::CONNECT;
    let protocol = String::from_utf8_lossy(wish.protocol.as_bytes());
    parts.extensions.insert(Protocol::from(&*protocol));
}

/// What proves to a client of WebSocket that its key was read (RFC 6455 4.2.2).
fn accept(key: &HeaderValue) -> Option<HeaderValue> {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key.as_bytes().trim_ascii());
    context.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    HeaderValue::try_from(STANDARD.encode(context.finish())).ok()
}

/// A key that nobody looks at: what is asked for over HTTP/2 has none, and backends want one.
fn key(exchange: &Exchange) -> HeaderValue {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let kit = &exchange.home.kit;
    let mut text: Vec<u8> = (0..21).map(|_| DIGITS[(kit.random() % 64) as usize]).collect();
    // 16 bytes are 22 digits, the last of which has two bits.
    text.push(DIGITS[(kit.random() % 4 * 16) as usize]);
    text.extend_from_slice(b"==");
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("AAAAAAAAAAAAAAAAAAAAAA=="))
}

/// Waits until the route, or its way to this backend, is gone and the time to end is over: what lives for hours
/// must not outlive its permission.
async fn disallowed(exchange: &Exchange) {
    let (Some(listener), Some(rule)) = (exchange.listener.get(), exchange.rule.get()) else { return };
    let backend = exchange.backend.borrow().as_ref().map(|backend| backend.plan.id.clone());
    let Some(backend) = backend else { return };
    let kit = &exchange.home.kit;
    while kit.snapshot().still_allows(&listener.id, rule, &backend) {
        tokio::time::sleep(LOOK).await;
    }
    tokio::time::sleep(kit.bounds().drain_time).await;
}

/// Carries bytes both ways until both have ended, one breaks, nothing moves for too long, or the connection must end.
async fn relay(exchange: &Exchange, client: End, backend: End) -> Ending {
    let bounds = exchange.home.kit.bounds();
    let half_open_time = bounds.half_open_time.min(bounds.idle_time);
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_backend, mut to_backend) = tokio::io::split(backend);
    let active = Cell::new(Instant::now());
    let is_half_open = Cell::new(false);
    // Whether the other had ended before. A stream that is done is gone, and takes no end.
    let one_ended = || {
        active.set(Instant::now());
        is_half_open.replace(true)
    };
    let up = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            match from_client.read(&mut buffer).await {
                Ok(0) => {
                    let was_half_open = one_ended();
                    let ended = to_backend.shutdown().await;
                    return if was_half_open { Ok(()) } else { ended.map_err(|_| Ending::BackendReset) };
                }
                Ok(count) => {
                    active.set(Instant::now());
                    exchange.carried_up(count);
                    to_backend.write_all(&buffer[..count]).await.map_err(|_| Ending::BackendReset)?;
                    to_backend.flush().await.map_err(|_| Ending::BackendReset)?;
                }
                Err(_) => return Err(Ending::ClientReset),
            }
        }
    };
    let down = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            match from_backend.read(&mut buffer).await {
                Ok(0) => {
                    let was_half_open = one_ended();
                    let ended = to_client.shutdown().await;
                    return if was_half_open { Ok(()) } else { ended.map_err(|_| Ending::ClientReset) };
                }
                Ok(count) => {
                    active.set(Instant::now());
                    exchange.carried_down(count);
                    to_client.write_all(&buffer[..count]).await.map_err(|_| Ending::ClientReset)?;
                    to_client.flush().await.map_err(|_| Ending::ClientReset)?;
                }
                Err(_) => return Err(Ending::BackendReset),
            }
        }
    };
    let quiet = async {
        loop {
            let (time, ending) = if is_half_open.get() {
                (half_open_time, Ending::HalfOpenTimeout)
            } else {
                (bounds.idle_time, Ending::IdleTimeout)
            };
            let (now, end) = (Instant::now(), active.get() + time);
            if end <= now {
                return ending;
            }
            // Nobody tells when a side ends: it is looked at in time for what follows from that.
            sleep_until(end.min(now + half_open_time)).await;
        }
    };
    tokio::select! {
        both = async { tokio::try_join!(up, down) } => match both {
            Ok(_) => Ending::Upgraded,
            Err(ending) => ending,
        },
        ending = quiet => ending,
        ending = exchange.tie.must_end() => ending,
        () = disallowed(exchange) => Ending::Drained,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 1.3.
    #[test]
    fn a_key_is_accepted() {
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept(&key).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
