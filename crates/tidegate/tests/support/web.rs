//! A web server for tests: it sends back what it gets, sends as many bytes as it is asked for, with trailers if asked,
//! and becomes an echo of bytes where it is asked to upgrade. HTTP/1.1, or HTTP/2 by prior knowledge.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::thread;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, UPGRADE};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

/// For as long as the test program runs, with the name that it puts into each answer.
pub(crate) fn web(name: &'static str, version: Version) -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        runtime.block_on(async {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, name, version));
            }
        });
    });
    address
}

async fn serve(stream: TcpStream, name: &'static str, version: Version) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(request, name));
    let io = TokioIo::new(stream);
    // A proxy that breaks a connection is noticed by the clients behind it.
    let _ = match version {
        Version::Http1 => http1::Builder::new().serve_connection(io, service).with_upgrades().await,
        Version::Http2 => http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await,
    };
}

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

/// `/…/bytes/COUNT` is so many bytes, `/…/trailers` is a little with trailers, whatever else is an echo with its own.
async fn answer(mut request: Request<Incoming>, name: &'static str) -> Result<Answer, Infallible> {
    let response = Response::builder().header("x-backend", name);
    if let Some(protocol) = request.headers().get(UPGRADE).cloned() {
        tokio::spawn(async move {
            if let Ok(upgraded) = hyper::upgrade::on(&mut request).await {
                let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded));
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = tokio::io::AsyncWriteExt::shutdown(&mut writer).await;
            }
        });
        let response = response.status(StatusCode::SWITCHING_PROTOCOLS);
        let response = response.header(CONNECTION, "upgrade").header(UPGRADE, protocol);
        return Ok(response.body(empty()).unwrap());
    }
    let wanted = request.uri().path().rsplit_once("/bytes/").and_then(|(_, count)| count.parse().ok());
    if let Some(count) = wanted {
        return Ok(response.body(full(pattern(count))).unwrap());
    }
    if request.uri().path().ends_with("/trailers") {
        let trailers =
            [("x-checksum", "seven")].map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let body = Full::new(Bytes::from_static(b"little"))
            .with_trailers(async move { Some(Ok(trailers.into_iter().collect())) });
        let response = response.header("trailer", "x-checksum");
        return Ok(response.body(body.map_err(|never: Infallible| match never {}).boxed()).unwrap());
    }
    let kind = request.headers().get(CONTENT_TYPE).cloned();
    let response = match kind {
        Some(kind) => response.header(CONTENT_TYPE, kind),
        None => response,
    };
    Ok(response.body(request.into_body().boxed()).unwrap())
}

/// Bytes that are the same for everybody.
pub(crate) fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

fn empty() -> BoxBody<Bytes, hyper::Error> {
    full(Vec::new())
}

fn full(bytes: Vec<u8>) -> BoxBody<Bytes, hyper::Error> {
    Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed()
}
