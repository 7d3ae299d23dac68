//! HTTP/2 by prior knowledge: a page for each request, and for gRPC the message back with its trailers.

use std::net::{SocketAddrV4, TcpListener};
use std::thread;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, server};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::TcpStream;

use crate::Result;
use crate::connection::BODY;

/// What a proxy may have on its way to one connection.
const WINDOW: u32 = 1 << 20;

pub(super) fn start(address: SocketAddrV4, body: usize) -> Result<()> {
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let page = Bytes::from(vec![BODY; body]);
    thread::spawn(move || {
        runtime.block_on(async {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, page.clone()));
            }
        });
    });
    Ok(())
}

/// A proxy that breaks a connection is noticed by the clients behind it.
async fn serve(stream: TcpStream, page: Bytes) {
    let _ = stream.set_nodelay(true);
    let mut builder = server::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).max_concurrent_streams(1000);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let page = page.clone();
        tokio::spawn(async move {
            let is_grpc = request
                .headers()
                .get(CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
            // An error is a stream that the client has given up.
            let _ = if is_grpc { echo(request, respond).await } else { answer(respond, page) };
        });
    }
}

fn answer(mut respond: SendResponse<Bytes>, page: Bytes) -> std::result::Result<(), h2::Error> {
    let response = Response::builder().header(CONTENT_TYPE, "text/plain").body(());
    let mut body = respond.send_response(response.unwrap_or_default(), false)?;
    body.send_data(page, true)
}

async fn echo(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> std::result::Result<(), h2::Error> {
    let mut body = request.into_body();
    let mut message = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        message.extend_from_slice(&data);
    }
    let response = Response::builder().header(CONTENT_TYPE, "application/grpc").body(());
    let mut stream = respond.send_response(response.unwrap_or_default(), false)?;
    stream.send_data(message.freeze(), false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}
