//! A web server for tests: it sends back what it gets, sends as many bytes as it is asked for, with trailers if asked,
//! and becomes an echo of bytes where it is asked to upgrade. HTTP/1.1, or HTTP/2 by prior knowledge.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, UPGRADE};
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
    accepting(move |stream| serve(stream, name, version))
}

/// A server of connections on a thread of its own, for as long as the test program runs.
pub(crate) fn accepting<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        runtime.block_on(async {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
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

/// `/…/bytes/COUNT` is so many bytes, `/…/trailers` is a little with trailers, `/…/whole` is an echo once all of it has
/// come, whatever else is an echo as it comes.
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
        return Ok(response.header("trailer", "x-checksum").body(Trailing(0).boxed()).unwrap());
    }
    if request.uri().path().ends_with("/whole") {
        let body = request.into_body().collect().await.map(|body| body.to_bytes().to_vec());
        return Ok(response.body(full(body.unwrap_or_default())).unwrap());
    }
    let kind = request.headers().get(CONTENT_TYPE).cloned();
    let response = match kind {
        Some(kind) => response.header(CONTENT_TYPE, kind),
        None => response,
    };
    Ok(response.body(request.into_body().boxed()).unwrap())
}

/// A body of no known length, with a trailer.
struct Trailing(u8);

impl Body for Trailing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.0 += 1;
        Poll::Ready(match self.0 {
            1 => Some(Ok(Frame::data(Bytes::from_static(b"little")))),
            2 => {
                let trailers = [(HeaderName::from_static("x-checksum"), HeaderValue::from_static("seven"))];
                Some(Ok(Frame::trailers(trailers.into_iter().collect())))
            }
            _ => None,
        })
    }
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
