//! Backends: hyper on a thread of its own, which says what it was asked.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

/// A backend on a port of loopback, with how many requests and connections it had.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) port: u16,
    pub(crate) requests: Arc<AtomicUsize>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Served {
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    Http2,
    /// HTTP/2, with tunnels by extended CONNECT.
    Tunnels,
    /// What the client begins with, without such tunnels.
    Either,
}

/// Tells in its body who it is and what it was asked, a line for each thing.
pub(crate) fn echo(name: &'static str) -> Served {
    answering(Speaks::Http1, move |request, _| Response::new(Full::new(told(name, &request))))
}

pub(crate) fn told(name: &str, request: &Request<Bytes>) -> Bytes {
    let version = if request.version() == Version::HTTP_2 { "HTTP/2" } else { "HTTP/1.1" };
    let mut text = format!("{name} {} {} {version}\n", request.method(), request.uri());
    for (header, value) in request.headers() {
        text.push_str(&format!("{header}: {}\n", value.to_str().unwrap()));
    }
    text.push_str(&format!("\n{}", String::from_utf8_lossy(request.body())));
    text.into()
}

/// Answers by a function of the request and how many came before it.
pub(crate) fn answering(
    speaks: Speaks,
    answer: impl Fn(Request<Bytes>, usize) -> Response<Full<Bytes>> + Send + Sync + 'static,
) -> Served {
    let answer = Arc::new(answer);
    serving(speaks, move |request, nth| {
        let answer = Arc::clone(&answer);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
            answer(Request::from_parts(head, body), nth)
        }
    })
}

/// The same with a body of any kind, in its own time.
pub(crate) fn serving<B, F>(
    speaks: Speaks,
    answer: impl Fn(Request<Incoming>, usize) -> F + Send + Sync + 'static,
) -> Served
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::error::Error + Send + Sync,
    F: Future<Output = Response<B>> + Send + 'static,
{
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = Served { port, requests: Arc::default(), connections: Arc::default() };
    let (counted, answer) = (served.clone(), Arc::new(answer));
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                counted.connections.fetch_add(1, SeqCst);
                let (requests, answer) = (Arc::clone(&counted.requests), Arc::clone(&answer));
                let service = service_fn(move |request| {
                    let answered = answer(request, requests.fetch_add(1, SeqCst));
                    async move { Ok::<_, Infallible>(answered.await) }
                });
                tokio::spawn(async move {
                    let mut first = [0];
                    let is_http2 = match speaks {
                        Speaks::Http1 => false,
                        Speaks::Http2 | Speaks::Tunnels => true,
                        Speaks::Either => stream.peek(&mut first).await.is_ok() && first == *b"P",
                    };
                    let io = TokioIo::new(stream);
                    if is_http2 {
                        let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        if speaks == Speaks::Tunnels {
                            server.enable_connect_protocol();
                        }
                        let _ = server.serve_connection(io, service).await;
                    } else {
                        let server = hyper::server::conn::http1::Builder::new();
                        let _ = server.serve_connection(io, service).with_upgrades().await;
                    }
                });
            }
        });
    });
    served
}

/// A backend that takes one request on each connection and says the same to all, whatever it is.
pub(crate) struct Raw {
    pub(crate) port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Raw {
    /// The heads of the requests so far, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

pub(crate) fn raw(answer: &'static str) -> Raw {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let raw = Raw { port: listener.local_addr().unwrap().port(), heads: Arc::default() };
    let heads = Arc::clone(&raw.heads);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heads = Arc::clone(&heads);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if reader.read_line(&mut head).unwrap_or(0) == 0 {
                        return;
                    }
                }
                heads.lock().unwrap().push(head.to_ascii_lowercase());
                let _ = reader.get_mut().write_all(answer.as_bytes());
                // What follows is nobody's concern, but that it may be sent.
                let _ = std::io::copy(&mut reader, &mut std::io::sink());
            });
        }
    });
    raw
}

/// A port at which nobody listens.
pub(crate) fn nobody() -> u16 {
    crate::gate::free_port()
}
