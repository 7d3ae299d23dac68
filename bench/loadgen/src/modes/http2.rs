//! Requests over HTTP/2: connections that stay, each with a number of requests under way at all times. Plain requests
//! must bring the page of the backend; gRPC calls must bring back their message, and a status in the trailers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use h2::RecvStream;
use h2::client::{self, SendRequest};
use http::{HeaderMap, Request, Response, StatusCode};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::LOOK_UP;
use crate::Result;
use crate::connection::BODY;
use crate::histogram::Histogram;
use crate::target;
use crate::window::{self, Turn, Window};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: target::Options,
    #[command(flatten)]
    window: window::Options,
    #[arg(long, default_value_t = 10)]
    conns: usize,
    /// Requests under way on each connection
    #[arg(long, default_value_t = 10)]
    streams: usize,
    /// Whom to ask for
    #[arg(long, default_value = "echo.test")]
    host: String,
    /// gRPC calls with a message of this size that is echoed
    #[arg(long, value_name = "BYTES")]
    grpc: Option<usize>,
}

/// A connection that is not there by then, or a request that was not answered, has failed.
const PATIENCE: Duration = Duration::from_secs(5);
const WINDOW: u32 = 1 << 20;

pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, load(options))
}

#[derive(Default)]
struct Seen {
    answers: u64,
    errors: u64,
    times: Histogram,
}

async fn load(options: &Options) -> Result<()> {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let asked = Rc::new(Asked::new(options)?);
    let config = options.target.http2_client()?;
    for _ in 0..options.conns {
        let sender = timeout(PATIENCE, connect(options, config.clone()))
            .await
            .map_err(|_| "no connection in time")??;
        for _ in 0..options.streams {
            tokio::task::spawn_local(ask_on(sender.clone(), Rc::clone(&asked), Rc::clone(&seen)));
        }
    }
    let mut window = Window::new(&options.window);
    loop {
        sleep(LOOK_UP).await;
        match window.turn(Instant::now()) {
            Some(Turn::Opened) => {
                // What was lost on the way here is missing from now on.
                let errors = seen.borrow().errors;
                seen.replace(Seen { errors, ..Seen::default() });
            }
            Some(Turn::Closed) => break,
            None => {}
        }
    }
    let seen = seen.borrow();
    let record = window.record("h2", seen.answers as f64).set("conns", options.conns);
    let record = record.set("streams", options.streams).set("err", seen.errors);
    seen.times.describe(record).print();
    Ok(())
}

async fn connect(options: &Options, config: Option<Arc<ClientConfig>>) -> Result<SendRequest<Bytes>> {
    let stream = TcpStream::connect(options.target.to).await?;
    stream.set_nodelay(true)?;
    match config {
        None => handshake(stream).await,
        Some(config) => {
            let name = ServerName::try_from(options.host.clone())?;
            let stream = TlsConnector::from(config).connect(name, stream).await?;
            if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                return Err("the proxy does not speak HTTP/2".into());
            }
            handshake(stream).await
        }
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Bytes>>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut builder = client::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).enable_push(false);
    let (sender, connection) = builder.handshake(stream).await?;
    // Whoever has a request under way is told of its end.
    tokio::task::spawn_local(connection);
    Ok(sender)
}

/// Asks again when it was answered, until the connection is gone.
async fn ask_on(mut sender: SendRequest<Bytes>, asked: Rc<Asked>, seen: Rc<RefCell<Seen>>) {
    loop {
        let began = Instant::now();
        let answer = timeout(PATIENCE, asked.ask(sender)).await;
        let mut seen = seen.borrow_mut();
        match answer {
            Ok(Ok((free, is_right))) => {
                sender = free;
                seen.answers += 1;
                seen.errors += u64::from(!is_right);
                seen.times.note(began.elapsed());
            }
            Ok(Err(_)) | Err(_) => {
                seen.errors += 1;
                return;
            }
        }
    }
}

/// What is asked, and what must come.
struct Asked {
    request: Request<()>,
    message: Option<Bytes>,
}

impl Asked {
    fn new(options: &Options) -> Result<Self> {
        let scheme = if options.target.http2_client()?.is_some() { "https" } else { "http" };
        let host = &options.host;
        let Some(size) = options.grpc else {
            let request =
                Request::get(format!("{scheme}://{host}/")).header("user-agent", "loadgen").body(())?;
            return Ok(Self { request, message: None });
        };
        let request = Request::post(format!("{scheme}://{host}/bench.Echo/Echo"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", "loadgen")
            .body(())?;
        let mut message = vec![0];
        message.extend_from_slice(&u32::try_from(size)?.to_be_bytes());
        message.resize(message.len() + size, b'q');
        Ok(Self { request, message: Some(message.into()) })
    }

    /// Whether the answer was right; an error where there was none.
    async fn ask(&self, sender: SendRequest<Bytes>) -> Result<(SendRequest<Bytes>, bool)> {
        let mut sender = sender.ready().await?;
        let (response, mut stream) = sender.send_request(self.request.clone(), self.message.is_none())?;
        if let Some(message) = &self.message {
            stream.send_data(message.clone(), true)?;
        }
        let is_right = self.is_right(response.await?).await?;
        Ok((sender, is_right))
    }

    async fn is_right(&self, response: Response<RecvStream>) -> Result<bool> {
        let is_ok = response.status() == StatusCode::OK;
        let mut body = response.into_body();
        let (mut length, mut is_same) = (0, true);
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            is_same &= match &self.message {
                Some(message) => message.get(length..length + data.len()) == Some(&data[..]),
                None => data.iter().all(|&byte| byte == BODY),
            };
            length += data.len();
        }
        let whole = self.message.as_ref().is_none_or(|message| message.len() == length);
        let trailers = body.trailers().await?;
        Ok(is_ok && is_same && whole && (self.message.is_none() || has_status(trailers.as_ref())))
    }
}

fn has_status(trailers: Option<&HeaderMap>) -> bool {
    trailers.and_then(|trailers| trailers.get("grpc-status")).is_some_and(|status| status == "0")
}
