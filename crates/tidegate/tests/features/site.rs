//! A web site that tells who it is and what it was asked, over HTTP/1.1 and HTTP/2, and clients for it.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::support::web::accepting;

/// For as long as the test program runs.
pub(crate) fn start(name: &'static str) -> SocketAddr {
    accepting(move |stream| serve(stream, name))
}

async fn serve(stream: TcpStream, name: &'static str) {
    let service = service_fn(move |request| async move { Ok::<_, Infallible>(told(&request, name)) });
    let mut first = [0; 3];
    let is_http2 = stream.peek(&mut first).await.is_ok() && first == *b"PRI";
    let io = TokioIo::new(stream);
    // Who breaks a connection is noticed at its other end.
    let _ = if is_http2 {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
    } else {
        hyper::server::conn::http1::Builder::new().serve_connection(io, service).await
    };
}

/// `a GET /path?query`, and a line for each header.
fn told(request: &Request<Incoming>, name: &str) -> Response<Full<Bytes>> {
    let target = request.uri().path_and_query().unwrap();
    let mut text = format!("{name} {} {target}\n", request.method());
    for (header, value) in request.headers() {
        text.push_str(&format!("{header}: {}\n", value.to_str().unwrap()));
    }
    if let Some(authority) = request.uri().authority() {
        text.push_str(&format!("host: {authority}\n"));
    }
    Response::builder().header("x-of-backend", name).body(Full::from(text)).unwrap()
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// What the backend was asked: its name, the method and the target.
    pub(crate) fn asked(&self) -> &str {
        self.body.lines().next().unwrap_or_default()
    }

    /// The values of a header that the backend got.
    pub(crate) fn told(&self, name: &str) -> Vec<&str> {
        let lines = self.body.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| *key == name).map(|(_, value)| value).collect()
    }
}

/// One request over HTTP/1.1, of the form `GET http://host/path`.
pub(crate) fn ask(to: SocketAddr, request: &str, headers: &[(&str, &str)]) -> Answer {
    exchange(to, false, request, headers)
}

/// One over HTTP/2.
pub(crate) fn ask_http2(to: SocketAddr, request: &str, headers: &[(&str, &str)]) -> Answer {
    exchange(to, true, request, headers)
}

fn exchange(to: SocketAddr, is_http2: bool, request: &str, headers: &[(&str, &str)]) -> Answer {
    let (method, url) = request.split_once(' ').unwrap();
    let mut asked = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        asked = asked.header(*name, *value);
    }
    let mut asked = asked.body(Empty::<Bytes>::new()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let io = TokioIo::new(TcpStream::connect(to).await.unwrap());
        let response = if is_http2 {
            let shaken = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await;
            let (mut sender, connection) = shaken.unwrap();
            tokio::spawn(connection);
            sender.send_request(asked).await.unwrap()
        } else {
            let host = asked.uri().authority().unwrap().as_str().parse().unwrap();
            asked.headers_mut().insert("host", host);
            let path = asked.uri().path_and_query().unwrap().as_str().parse().unwrap();
            *asked.uri_mut() = path;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(asked).await.unwrap()
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    })
}
