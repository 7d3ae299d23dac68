//! The small HTTP server for people, probes and Prometheus. It reads nothing but a request line and headers, and
//! everything about it is bounded: connections, header bytes, time.

mod answers;

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

pub(crate) use crate::run::admin::answers::{Answer, Answers, Question, Shown, unknown_output};

/// Says of `/status`, in whatever form, whether everything is served as written.
pub(crate) const WELL: &str = "tidegate-well";

const CONNECTIONS: usize = 64;
/// The smallest that hyper allows.
const HEADER_BYTES: usize = 8 * 1024;
const HEADER_TIME: Duration = Duration::from_secs(5);
/// From accept to the last byte of the answer.
const TIME: Duration = Duration::from_secs(30);

/// Answers on a socket for as long as the runtime lives.
pub(crate) fn serve<S: Shown>(socket: TcpListener, answers: Answers, shown: &Arc<S>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    tokio::spawn(accept(socket, answers, Arc::clone(shown)));
    Ok(())
}

async fn accept<S: Shown>(socket: tokio::net::TcpListener, answers: Answers, shown: Arc<S>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = socket.accept().await else {
            // Out of file descriptors: accepting again at once would only spin.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let shown = Arc::clone(&shown);
        tokio::spawn(async move {
            let service = service_fn(|request| respond(request, answers, &shown));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                .max_buf_size(HEADER_BYTES)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // A client that breaks off or takes too long is its own concern.
            let _ = tokio::time::timeout(TIME, connection).await;
            drop(place);
        });
    }
}

async fn respond<S: Shown>(
    request: Request<Incoming>,
    answers: Answers,
    shown: &Arc<S>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = response(Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n"));
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    let uri = request.uri();
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let question = Question::new(uri.path(), uri.query(), accept);
    let shown = Arc::clone(shown);
    // Writing out ten thousand objects takes a while, in which changes are to be followed.
    let answer = tokio::task::spawn_blocking(move || answers.to(&question, &*shown)).await;
    Ok(response(answer.unwrap_or_else(|_| Answer::text(StatusCode::INTERNAL_SERVER_ERROR, "this failed\n"))))
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(answer.body));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(well) = answer.well {
        headers.insert(WELL, HeaderValue::from_static(if well { "true" } else { "false" }));
    }
    response
}
