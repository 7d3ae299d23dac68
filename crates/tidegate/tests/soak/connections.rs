//! The traffic: connections of three kinds that live for the whole run, and short ones all the time. Every byte that
//! comes back is checked.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::changes::{PASSED, TCP_PORT, TERMINATED, TLS_PORT};
use crate::loopback::Tidegate;
use crate::loopback::tls::{client, client_hello, server_name};
use crate::support::PATIENCE;
use crate::support::certificate::Authority;

pub(crate) struct Load {
    runtime: Runtime,
    live: JoinSet<()>,
    probes: Mutex<JoinSet<()>>,
    shared: Arc<Shared>,
}

struct Shared {
    proxy: Ipv4Addr,
    connector: TlsConnector,
    hello: Vec<u8>,
    stop: AtomicBool,
    round_trips: AtomicU64,
    new: AtomicU64,
    bytes: AtomicU64,
    failures: Mutex<Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct Carried {
    round_trips: u64,
    new: u64,
    bytes: u64,
}

/// How a connection gets through the proxy.
#[derive(Clone, Copy, Debug)]
enum Way {
    Tcp,
    Passed,
    Terminated,
}

impl Way {
    fn of(number: usize) -> Self {
        [Self::Tcp, Self::Passed, Self::Terminated][number % 3]
    }
}

trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// Between two exchanges of a connection.
const PAUSE: Duration = Duration::from_millis(500);
/// One in so many sends much at once, for which the kernel moves the bytes.
const BULKY: usize = 50;

impl Load {
    /// Opens all connections and waits until each has had its first answer.
    pub(crate) fn start(tidegate: &Tidegate, authority: &Authority, count: usize) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let shared = Arc::new(Shared {
            proxy: tidegate.ip,
            connector: TlsConnector::from(client(authority)),
            hello: client_hello(PASSED),
            stop: AtomicBool::new(false),
            round_trips: AtomicU64::new(0),
            new: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            failures: Mutex::default(),
        });
        let mut live = JoinSet::new();
        let streams = runtime.block_on(async {
            let mut streams = Vec::new();
            for number in 0..count {
                streams.push(shared.open(Way::of(number), number as u64).await.unwrap());
            }
            streams
        });
        for (number, stream) in streams.into_iter().enumerate() {
            live.spawn_on(Arc::clone(&shared).live(number, stream), runtime.handle());
        }
        Self { runtime, live, probes: Mutex::default(), shared }
    }

    /// From now on new connections are made without a pause, a few at a time.
    pub(crate) fn start_probes(&self) {
        for number in 0..6 {
            let probe = Arc::clone(&self.shared).probe(Way::of(number));
            self.probes.lock().unwrap().spawn_on(probe, self.runtime.handle());
        }
    }

    /// Nothing has gone wrong so far.
    pub(crate) fn assert_well(&self) {
        let failures = self.shared.failures.lock().unwrap();
        assert!(
            failures.is_empty(),
            "{} failures: {:#?}",
            failures.len(),
            &failures[..failures.len().min(10)]
        );
    }

    /// Has every connection finish in order.
    pub(crate) fn stop(mut self) -> Carried {
        self.shared.stop.store(true, Relaxed);
        let mut probes = std::mem::take(&mut *self.probes.lock().unwrap());
        self.runtime.block_on(async {
            while self.live.join_next().await.is_some() {}
            while probes.join_next().await.is_some() {}
        });
        self.assert_well();
        let Shared { round_trips, new, bytes, .. } = &*self.shared;
        Carried { round_trips: round_trips.load(Relaxed), new: new.load(Relaxed), bytes: bytes.load(Relaxed) }
    }
}

impl Shared {
    /// A connection, after its first exchange.
    async fn open(&self, way: Way, number: u64) -> Result<Pin<Box<dyn Bytes>>, String> {
        let port = if matches!(way, Way::Tcp) { TCP_PORT } else { TLS_PORT };
        let failed = |error| format!("{way:?}: {error}");
        let stream = in_time(TcpStream::connect((self.proxy, port))).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let mut stream: Pin<Box<dyn Bytes>> = match way {
            Way::Tcp => Box::pin(stream),
            Way::Passed => {
                let mut stream = Box::pin(stream);
                self.exchange(&mut stream, &self.hello).await.map_err(failed)?;
                stream
            }
            Way::Terminated => {
                let shaken = in_time(self.connector.connect(server_name(TERMINATED), stream)).await;
                Box::pin(shaken.map_err(failed)?)
            }
        };
        self.exchange(&mut stream, &numbered(number, 0, 64)).await.map_err(failed)?;
        Ok(stream)
    }

    async fn live(self: Arc<Self>, number: usize, mut stream: Pin<Box<dyn Bytes>>) {
        let size = if number.is_multiple_of(BULKY) { 512 * 1024 } else { 16 + number % 2000 };
        let mut round = 1;
        // Not all at the same moment.
        tokio::time::sleep(PAUSE.mul_f64((number % 100) as f64 / 100.0)).await;
        while !self.stop.load(Relaxed) {
            if let Err(error) = self.exchange(&mut stream, &numbered(number as u64, round, size)).await {
                return self.fail(format!("live {:?} {number} in round {round}: {error}", Way::of(number)));
            }
            round += 1;
            tokio::time::sleep(PAUSE).await;
        }
        if let Err(error) = finish(&mut stream).await {
            self.fail(format!("the end of live {:?} {number}: {error}", Way::of(number)));
        }
    }

    async fn probe(self: Arc<Self>, way: Way) {
        while !self.stop.load(Relaxed) {
            let number = self.new.fetch_add(1, Relaxed);
            let result = match self.open(way, number).await {
                Ok(mut stream) => finish(&mut stream).await,
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                self.fail(format!("new {way:?}: {error}"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sends and reads at the same time, since more may be on the way than buffers hold.
    async fn exchange(&self, stream: &mut Pin<Box<impl Bytes + ?Sized>>, bytes: &[u8]) -> Result<(), String> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut back = vec![0; bytes.len()];
        let write = async {
            writer.write_all(bytes).await?;
            writer.flush().await
        };
        in_time(async { tokio::try_join!(write, reader.read_exact(&mut back)) }).await?;
        self.round_trips.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        let wrong = back.iter().zip(bytes).position(|(got, sent)| got != sent);
        wrong.map_or(Ok(()), |at| Err(format!("wrong byte at {at} of {}", bytes.len())))
    }

    fn fail(&self, what: String) {
        self.failures.lock().unwrap().push(what);
    }
}

/// The end must be carried to the backend and come back from there.
async fn finish(stream: &mut Pin<Box<dyn Bytes>>) -> Result<(), String> {
    in_time(async {
        stream.shutdown().await?;
        stream.read(&mut [0; 16]).await
    })
    .await
    .and_then(|count| if count == 0 { Ok(()) } else { Err(format!("{count} bytes too many")) })
}

pub(crate) async fn in_time<T>(work: impl Future<Output = std::io::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Bytes that no other connection and no other round has.
pub(crate) fn numbered(connection: u64, round: u64, length: usize) -> Vec<u8> {
    let mut state = connection << 32 ^ round ^ 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Backends that send back what they get, for as long as the runtime lives.
pub(crate) fn echoes<const N: usize>(runtime: &Runtime) -> [SocketAddr; N] {
    std::array::from_fn(|_| {
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(echo(stream));
            }
        });
        address
    })
}

async fn echo(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let (mut reader, mut writer) = stream.split();
    if tokio::io::copy(&mut reader, &mut writer).await.is_ok() {
        let _ = writer.shutdown().await;
    }
}

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round_trips, new, bytes } = self;
        write!(f, "{round_trips} exchanges, {} MB each way, {new} new connections, none broken", bytes >> 20)
    }
}
