//! The traffic: clients that keep their connections, with requests of several kinds one after the other, and tunnels
//! that live for the whole run.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::changes::{NAME, PLAIN_PORT, TLS_PORT};
use super::traffic::{Pieces, Sender};
use crate::connections::{in_time, numbered};
use crate::loopback::Tidegate;
use crate::loopback::tls::{client, server_name};
use crate::support::certificate::Authority;
use crate::support::web::pattern;

pub(super) struct Load {
    runtime: Runtime,
    clients: JoinSet<()>,
    shared: Arc<Shared>,
}

struct Shared {
    proxy: Ipv4Addr,
    connectors: [TlsConnector; 2],
    stop: AtomicBool,
    requests: AtomicU64,
    bytes: AtomicU64,
    connections: AtomicU64,
    exchanges: AtomicU64,
    failures: Mutex<Vec<String>>,
}

#[derive(Debug)]
pub(super) struct Carried {
    requests: u64,
    bytes: u64,
    connections: u64,
    exchanges: u64,
}

/// How a client speaks.
#[derive(Clone, Copy, Debug)]
struct Way {
    tls: bool,
    http2: bool,
}

const WAYS: [Way; 4] = [
    Way { tls: false, http2: false },
    Way { tls: true, http2: false },
    Way { tls: false, http2: true },
    Way { tls: true, http2: true },
];
/// Requests at a time of a client that speaks HTTP/2.
const STREAMS: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);

impl Load {
    /// So many clients of each kind, and as many tunnels.
    pub(super) fn start(tidegate: &Tidegate, authority: &Authority, count: usize) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let config = client(authority);
        let connectors = [&b"http/1.1"[..], b"h2"].map(|protocol| {
            let mut config = rustls::ClientConfig::clone(&config);
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsConnector::from(Arc::new(config))
        });
        let shared = Arc::new(Shared {
            proxy: tidegate.ip,
            connectors,
            stop: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            exchanges: AtomicU64::new(0),
            failures: Mutex::default(),
        });
        let mut clients = JoinSet::new();
        for number in 0..count {
            for way in WAYS {
                let streams = if way.http2 { STREAMS } else { 1 };
                let client = Arc::clone(&shared).client(number * 10, way, streams);
                clients.spawn_on(client, runtime.handle());
            }
            clients.spawn_on(Arc::clone(&shared).tunnel(number), runtime.handle());
        }
        Self { runtime, clients, shared }
    }

    /// Nothing has gone wrong so far.
    pub(super) fn assert_well(&self) {
        let failures = self.shared.failures.lock().unwrap();
        let some = &failures[..failures.len().min(10)];
        assert!(failures.is_empty(), "{} failures: {some:#?}", failures.len());
    }

    /// Has every client finish its request and close.
    pub(super) fn stop(mut self) -> Carried {
        self.shared.stop.store(true, Relaxed);
        self.runtime.block_on(async { while self.clients.join_next().await.is_some() {} });
        self.assert_well();
        let Shared { requests, bytes, connections, exchanges, .. } = &*self.shared;
        let carried = Carried {
            requests: requests.load(Relaxed),
            bytes: bytes.load(Relaxed),
            connections: connections.load(Relaxed),
            exchanges: exchanges.load(Relaxed),
        };
        assert!(carried.requests > 0 && carried.exchanges > 0, "{carried}");
        carried
    }
}

impl Shared {
    async fn connect(&self, way: Way) -> Result<Sender, String> {
        self.connections.fetch_add(1, Relaxed);
        let port = if way.tls { TLS_PORT } else { PLAIN_PORT };
        let stream = in_time(TcpStream::connect((self.proxy, port))).await?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        if !way.tls {
            return Sender::new(stream, way.http2).await;
        }
        let connector = &self.connectors[usize::from(way.http2)];
        let stream = in_time(connector.connect(server_name(NAME), stream)).await?;
        Sender::new(stream, way.http2).await
    }

    /// A connection that is used for as long as the server likes, and then another.
    async fn client(self: Arc<Self>, number: usize, way: Way, streams: usize) {
        let mut round = 0;
        while !self.stop.load(Relaxed) {
            let mut sender = match self.connect(way).await {
                Ok(sender) => sender,
                Err(error) => return self.fail(format!("{way:?}: {error}")),
            };
            while !self.stop.load(Relaxed) && sender.is_ready().await {
                let mut under_way = JoinSet::new();
                if let Sender::Http2(sender) = &sender {
                    for stream in 1..streams {
                        let (shared, sender) = (Arc::clone(&self), Sender::Http2(sender.clone()));
                        under_way.spawn(shared.request(sender, way, number + stream, round + stream));
                    }
                }
                sender = match Arc::clone(&self).request(sender, way, number, round).await {
                    Some(sender) => sender,
                    None => return,
                };
                while under_way.join_next().await.is_some() {}
                round += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// One request of three kinds in turn: an echo at once, an echo in pieces, many bytes down.
    async fn request(
        self: Arc<Self>,
        mut sender: Sender,
        way: Way,
        number: usize,
        round: usize,
    ) -> Option<Sender> {
        let to = if round.is_multiple_of(2) { "" } else { "/h2" };
        let (path, body, pieces) = match round % 3 {
            0 => (format!("{to}/echo"), numbered(number as u64, round as u64, 100 + round % 5000), 1),
            1 => (format!("{to}/echo"), numbered(number as u64, round as u64, 50_000), 5),
            _ => (format!("{to}/bytes/200000"), Vec::new(), 1),
        };
        let wanted = if body.is_empty() { pattern(200_000) } else { body.clone() };
        let method = if body.is_empty() { "GET" } else { "POST" };
        let scheme = if way.tls { "https" } else { "http" };
        let request = Request::builder().method(method);
        let request = if way.http2 {
            request.uri(format!("{scheme}://{NAME}{path}"))
        } else {
            request.uri(&path).header("host", NAME)
        };
        let request = request.body(Pieces::new(&body, pieces, Duration::from_millis(40))).unwrap();
        let what = || format!("{way:?} {method} {path} in round {round}");
        match sender.ask(request).await {
            Ok(got) if got[..] == wanted[..] => {
                self.requests.fetch_add(1, Relaxed);
                self.bytes.fetch_add((got.len() + body.len()) as u64, Relaxed);
                Some(sender)
            }
            Ok(got) => {
                let wrong = got.iter().zip(&wanted).position(|(got, wanted)| got != wanted);
                self.fail(format!("{}: {} bytes, wrong at {wrong:?}", what(), got.len()));
                None
            }
            Err(error) => {
                self.fail(format!("{}: {error}", what()));
                None
            }
        }
    }

    /// A WebSocket as far as a proxy sees it: an upgrade, and bytes both ways from then on.
    async fn tunnel(self: Arc<Self>, number: usize) {
        if let Err(error) = self.converse(number).await {
            self.fail(format!("tunnel {number}: {error}"));
        }
    }

    async fn converse(&self, number: usize) -> Result<(), String> {
        let mut stream = in_time(TcpStream::connect((self.proxy, PLAIN_PORT))).await?;
        let head = format!(
            "GET /socket HTTP/1.1\r\nHost: {NAME}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        in_time(stream.write_all(head.as_bytes())).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(in_time(stream.read_u8()).await?);
        }
        if !answer.starts_with(b"HTTP/1.1 101 ") {
            return Err(format!("not upgraded: {}", answer.escape_ascii()));
        }
        let mut round = 0;
        while !self.stop.load(Relaxed) {
            let sent = numbered(number as u64, round, 20 + number % 3000);
            in_time(stream.write_all(&sent)).await?;
            let mut back = vec![0; sent.len()];
            in_time(stream.read_exact(&mut back))
                .await
                .map_err(|error| format!("in round {round}: {error}"))?;
            if back != sent {
                return Err(format!("wrong bytes in round {round}"));
            }
            self.exchanges.fetch_add(1, Relaxed);
            round += 1;
            tokio::time::sleep(PAUSE).await;
        }
        in_time(stream.shutdown()).await?;
        let count = in_time(stream.read(&mut [0; 16])).await?;
        if count == 0 { Ok(()) } else { Err(format!("{count} bytes too many")) }
    }

    fn fail(&self, what: String) {
        self.failures.lock().unwrap().push(what);
    }
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, bytes, connections, exchanges } = self;
        write!(
            f,
            "{requests} requests on {connections} connections, {} MB, {exchanges} exchanges in tunnels, none failed",
            bytes >> 20
        )
    }
}
