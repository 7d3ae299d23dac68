//! WebSocket as its users have it: clients and servers of tungstenite's, over HTTP/1.1 and, by RFC 8441, HTTP/2, each
//! with each.

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::Response;
use http_body_util::Empty;
use hyper::ext::Protocol;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use crate::backend::{self, Speaks};
use crate::client::{http2, request, run};
use crate::gate::{Gate, rule};

/// Sends messages back until one side closes; who says `bye` is closed.
async fn echo<S>(mut socket: WebSocketStream<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Text(word) if word.as_str() == "bye" => {
                socket.close(Some(close(4001, "as you like"))).await.unwrap();
            }
            Message::Text(_) | Message::Binary(_) => socket.send(message).await.unwrap(),
            _ => {}
        }
    }
}

fn close(code: u16, reason: &'static str) -> CloseFrame {
    CloseFrame { code: CloseCode::from(code), reason: reason.into() }
}

/// With a handshake over HTTP/1.1.
fn old_server() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async { echo(tokio_tungstenite::accept_async(stream).await.unwrap()).await });
            }
        });
    });
    port
}

/// By extended CONNECT, which has no handshake of WebSocket's own.
fn new_server() -> u16 {
    let served = backend::serving(Speaks::Tunnels, |mut request, _| async move {
        let protocol = request.extensions().get::<Protocol>();
        let status = if protocol.is_some_and(|name| name.as_str() == "websocket") { 200 } else { 404 };
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async {
            let Ok(stream) = upgraded.await else { return };
            echo(WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Server, None).await).await;
        });
        Response::builder().status(status).body(Empty::<Bytes>::new()).unwrap()
    });
    served.port
}

fn gate() -> Gate {
    let mut gate = Gate::with(tidegate_proxy::Bounds::default(), 1);
    let old = gate.backend("old", &[old_server()]);
    let new = gate.backend_with("new", &[new_server()], |backend| {
        backend.protocol = tidegate_plan::Protocol::Http2;
    });
    gate.route("web", vec![rule("/old", &old), rule("/new", &new)]);
    gate.serving()
}

/// All that a client does with a connection, to its end.
async fn converse<S>(mut socket: WebSocketStream<S>, closes: bool)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let said = Message::text("gr\u{fc}\u{df} dich");
    socket.send(said.clone()).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), said);
    socket.send(Message::Ping(Bytes::from_static(b"are you there"))).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"are you there")));
    // Either side of what a length takes, and more than any buffer has room for.
    for size in [0, 125, 126, 65_535, 65_536, 3_000_000] {
        let bytes: Vec<u8> = (0..size).map(|at: u32| (at % 251) as u8).collect();
        socket.send(Message::binary(bytes.clone())).await.unwrap();
        let back = socket.next().await.unwrap().unwrap();
        assert!(back.is_binary() && back.into_data() == bytes, "{size}");
    }
    let end = if closes { close(4000, "enough") } else { close(4001, "as you like") };
    if closes {
        socket.close(Some(end.clone())).await.unwrap();
    } else {
        socket.send(Message::text("bye")).await.unwrap();
    }
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Close(Some(end)));
    assert!(socket.next().await.is_none(), "the end of the connection");
}

#[test]
fn from_http1() {
    let gate = gate();
    for path in ["/old", "/new"] {
        for closes in [true, false] {
            run(async {
                let stream = tokio::net::TcpStream::connect(gate.address()).await.unwrap();
                let asked = tokio_tungstenite::client_async(format!("ws://a.test{path}"), stream).await;
                let (socket, answer) = asked.unwrap();
                assert_eq!(answer.status(), 101);
                converse(socket, closes).await;
            });
        }
        gate.line(&[&format!("path={path:?}"), "version=\"HTTP/1.1\"", "status=101", "ending=\"upgraded\""]);
    }
}

/// Several at a time on one connection.
#[test]
fn from_http2() {
    let gate = gate();
    run(async {
        let mut client = http2(gate.address()).await;
        // The first answer brings the settings that allow it.
        let elsewhere = client.send_request(request("GET", "http://a.test/", "")).await.unwrap();
        assert_eq!(elsewhere.status(), 404);
        let mut conversations = Vec::new();
        for path in ["/old", "/new"] {
            for closes in [true, false] {
                let mut asked = request("CONNECT", &format!("http://a.test{path}"), "");
                asked.headers_mut().insert("sec-websocket-version", "13".parse().unwrap());
                asked.extensions_mut().insert(Protocol::from_static("websocket"));
                let mut answer = client.send_request(asked).await.unwrap();
                assert_eq!(answer.status(), 200, "{path}");
                let stream = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
                let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
                conversations.push(tokio::spawn(converse(socket, closes)));
            }
        }
        for conversation in conversations {
            conversation.await.unwrap();
        }
    });
    for path in ["/old", "/new"] {
        gate.line(&[&format!("path={path:?}"), "version=\"HTTP/2\"", "ending=\"upgraded\""]);
    }
}
