//! Health and metrics of a controller, for probes and Prometheus. Bounded as all that strangers can reach.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_kubernetes::{Health, Metrics};
use tokio::sync::Semaphore;

const CONNECTIONS: usize = 32;
const HEADER_BYTES: usize = 8 * 1024;
const TIME: Duration = Duration::from_secs(10);

/// Answers on a socket for as long as the runtime lives.
pub(super) fn serve(socket: TcpListener, metrics: Arc<Metrics>, health: Arc<Health>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let socket = tokio::net::TcpListener::from_std(socket)?;
    tokio::spawn(accept(socket, metrics, health));
    Ok(())
}

async fn accept(socket: tokio::net::TcpListener, metrics: Arc<Metrics>, health: Arc<Health>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = socket.accept().await else {
            // Out of file descriptors: accepting again at once would only spin.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (metrics, health) = (Arc::clone(&metrics), Arc::clone(&health));
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let answer = answer(request.uri().path(), &metrics, &health);
                async { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(TIME)
                .max_buf_size(HEADER_BYTES)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(TIME, connection).await;
            drop(place);
        });
    }
}

fn answer(path: &str, metrics: &Metrics, health: &Health) -> Response<Full<Bytes>> {
    let (status, kind, body) = match path {
        "/healthz" => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" if health.is_ready() => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "text/plain",
            format!("the cluster has not been looked at yet; missing: {}\n", health.waits_for()),
        ),
        "/metrics" => (
            StatusCode::OK,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            format!("{}# EOF\n", metrics.render()),
        ),
        _ => (StatusCode::NOT_FOUND, "text/plain", "there are /healthz, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_alive_before_it_is_ready() {
        let (metrics, health) = (Metrics::default(), Health::default());
        let status = |path| answer(path, &metrics, &health).status().as_u16();
        assert_eq!(
            [status("/healthz"), status("/readyz"), status("/metrics"), status("/")],
            [200, 503, 200, 404]
        );
    }
}
