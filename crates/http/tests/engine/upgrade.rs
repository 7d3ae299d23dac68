//! WebSocket, as far as a proxy has to do with it: a connection that goes on as bytes.

use bytes::Bytes;
use http::Response;
use http_body_util::Empty;
use hyper::ext::Protocol;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::backend::{self, Served, Speaks};
use crate::client::{Connection, http2, request, run};
use crate::gate::{Gate, rule};

/// Takes upgrades and sends back what it gets; anything else is refused.
fn web_socket() -> Served {
    backend::serving(Speaks::Http1, |mut request, _| async move {
        let asked = request.headers().get("upgrade").is_some_and(|protocol| protocol == "websocket");
        let has_key = request.headers().contains_key("sec-websocket-key");
        if !asked || !has_key || request.headers()["connection"] != "upgrade" {
            return Response::builder().status(400).body(Empty::<Bytes>::new()).unwrap();
        }
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgraded.await.unwrap());
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                stream.write_all(&buffer[..count]).await.unwrap();
            }
        });
        Response::builder()
            .status(101)
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-accept", "accepted")
            .body(Empty::new())
            .unwrap()
    })
}

fn gate(served: &Served) -> Gate {
    let mut gate = Gate::new();
    let id = gate.backend("a", &[served.port]);
    gate.route("web", vec![rule("/", &id)]);
    gate.serving()
}

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";

#[test]
fn http_route_backend_protocol_web_socket() {
    let served = web_socket();
    let gate = gate(&served);
    let mut connection = Connection::to(gate.address());
    let answer = connection.ask(ASK);
    assert_eq!((answer.status, answer.header("upgrade")), (101, Some("websocket")));
    assert_eq!(answer.header("sec-websocket-accept"), Some("accepted"));
    for word in ["hello", "there"] {
        connection.send(word);
        assert_eq!(connection.bytes(5), word.as_bytes());
    }
    drop(connection);
    gate.line(&["status=101", "bytes_up=10", "bytes_down=10", "ending=\"upgraded\""]);
}

/// What lives long ends with its route.
#[test]
fn a_tunnel_of_a_removed_route_is_drained() {
    let served = web_socket();
    let bounds = tidegate_proxy::Bounds {
        drain_time: std::time::Duration::from_millis(50),
        ..tidegate_proxy::Bounds::default()
    };
    let mut gate = Gate::with(bounds, 1);
    let id = gate.backend("a", &[served.port]);
    gate.route("web", vec![rule("/", &id)]);
    gate.apply();
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.ask(ASK).status, 101);
    connection.send("hello");
    assert_eq!(connection.bytes(5), b"hello");
    gate.remove_route("web");
    assert!(connection.rest().is_empty());
    gate.line(&["status=101", "ending=\"drained\""]);
}

/// One side that has ended and another that says nothing are no tunnel any more.
#[test]
fn a_tunnel_that_is_half_open_ends() {
    let patient = backend::serving(Speaks::Http1, |mut request, _| async move {
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgraded.await.unwrap());
            let mut said = Vec::new();
            stream.read_to_end(&mut said).await.unwrap();
            stream.write_all(&said).await.unwrap();
            std::future::pending::<()>().await;
        });
        let response = Response::builder().status(101).header("connection", "upgrade");
        response.header("upgrade", "websocket").body(Empty::<Bytes>::new()).unwrap()
    });
    let bounds = tidegate_proxy::Bounds {
        half_open_time: std::time::Duration::from_millis(200),
        ..tidegate_proxy::Bounds::default()
    };
    let mut gate = Gate::with(bounds, 1);
    let id = gate.backend("a", &[patient.port]);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.ask(ASK).status, 101);
    connection.send("hello");
    connection.end();
    assert_eq!(connection.rest(), b"hello", "until then it is carried");
    gate.line(&["status=101", "bytes_up=5", "bytes_down=5", "ending=\"half_open_timeout\""]);
}

/// HTTP/2 is not gone on with, wherever it stands among the offers.
#[test]
fn http2_is_no_upgrade() {
    let served = backend::echo("plain");
    let gate = gate(&served);
    for offer in ["h2c", "H2C", "h2c, x", "x, h2c", "x,h2c ,y", "h2"] {
        let answer = Connection::to(gate.address()).ask(&format!(
            "GET /chat HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {offer}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        ));
        assert!(answer.body.starts_with("plain GET /chat HTTP/1.1\n"), "{offer}: {}", answer.body);
        assert!(
            !answer.body.contains("upgrade") && !answer.body.contains("http2"),
            "{offer}: {}",
            answer.body
        );
    }
    run(async {
        let mut client = http2(gate.address()).await;
        // The first answer brings the settings that allow it.
        let _ = client.send_request(request("GET", "http://a.test/", "")).await.unwrap();
        for offer in ["h2c", "h2c, x"] {
            let mut asked = request("CONNECT", "http://a.test/chat", "");
            asked.extensions_mut().insert(Protocol::from_static(offer));
            assert_eq!(client.send_request(asked).await.unwrap().status(), 405, "{offer}");
        }
    });
    assert_eq!(served.requests(), 7);
}

/// A backend that does not want to is an ordinary answer.
#[test]
fn an_upgrade_that_is_refused() {
    let served = backend::echo("plain");
    let gate = gate(&served);
    let answer = Connection::to(gate.address()).ask(ASK);
    assert_eq!(answer.status, 200);
    assert!(answer.body.starts_with("plain GET /chat HTTP/1.1\n"), "{}", answer.body);
}

/// Over HTTP/2 to a backend that knows HTTP/1.1 only.
#[test]
fn web_socket_by_extended_connect() {
    let served = web_socket();
    let gate = gate(&served);
    run(async {
        let mut client = http2(gate.address()).await;
        // The first answer brings the settings that allow it.
        let _ = client.send_request(request("GET", "http://a.test/", "")).await.unwrap();
        let mut asked = request("CONNECT", "http://a.test/chat", "");
        *asked.body_mut() = http_body_util::Full::default();
        asked.extensions_mut().insert(Protocol::from_static("websocket"));
        let mut response = client.send_request(asked).await.unwrap();
        assert_eq!(response.status(), 200);
        let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
        stream.write_all(b"over two").await.unwrap();
        let mut buffer = [0; 8];
        stream.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"over two");
    });
}

/// Takes tunnels over HTTP/2, where that has them, and sends back what it gets.
fn h2_web_socket(speaks: Speaks) -> Served {
    backend::serving(speaks, |mut request, _| async move {
        let protocol = request.extensions().get::<Protocol>().cloned();
        let plain = ["sec-websocket-key", "upgrade", "connection", "host"];
        if plain.iter().any(|name| request.headers().contains_key(*name)) {
            return Response::builder().status(400).body(Empty::<Bytes>::new()).unwrap();
        }
        let asked = protocol.is_some_and(|protocol| protocol.as_str() == "websocket");
        let at = *request.uri() == "http://a.test/chat?room=1";
        let version = request.headers().get("sec-websocket-version").is_some_and(|version| version == "13");
        if request.method() != http::Method::CONNECT || !asked || !at || !version {
            return Response::builder().status(404).body(Empty::new()).unwrap();
        }
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgraded.await.unwrap());
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                stream.write_all(&buffer[..count]).await.unwrap();
            }
        });
        Response::builder().header("sec-websocket-protocol", "chat").body(Empty::new()).unwrap()
    })
}

fn h2_gate(served: &Served) -> Gate {
    let mut gate = Gate::with(tidegate_proxy::Bounds::default(), 1);
    let id =
        gate.backend_with("a", &[served.port], |backend| backend.protocol = tidegate_plan::Protocol::Http2);
    gate.route("web", vec![rule("/", &id)]);
    gate.serving()
}

/// The key is RFC 6455's, and so is the proof that it was read.
const ASK_WITH_KEY: &str = "GET /chat?room=1 HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// From HTTP/1.1 to a backend over HTTP/2, on one connection with all else.
#[test]
fn web_socket_to_a_backend_over_http2() {
    let served = h2_web_socket(Speaks::Tunnels);
    let gate = h2_gate(&served);
    for _ in 0..2 {
        let mut connection = Connection::to(gate.address());
        let answer = connection.ask(ASK_WITH_KEY);
        assert_eq!((answer.status, answer.header("upgrade")), (101, Some("websocket")), "{answer:?}");
        assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(answer.header("sec-websocket-protocol"), Some("chat"));
        for word in ["hello", "there"] {
            connection.send(word);
            assert_eq!(connection.bytes(5), word.as_bytes());
        }
    }
    gate.line(&["status=101", "bytes_up=10", "bytes_down=10", "ending=\"upgraded\""]);
    // What the backend says of anything else is an answer like any other.
    let elsewhere = Connection::to(gate.address()).ask(&ASK_WITH_KEY.replace("/chat", "/other"));
    assert_eq!(elsewhere.status, 404);
    assert_eq!((served.requests(), served.connections()), (3, 1));
}

/// From HTTP/2 to HTTP/2.
#[test]
fn web_socket_over_http2_on_both_sides() {
    let served = h2_web_socket(Speaks::Tunnels);
    let gate = h2_gate(&served);
    run(async {
        let mut client = http2(gate.address()).await;
        // The first answer brings the settings that allow it.
        let _ = client.send_request(request("GET", "http://a.test/", "")).await.unwrap();
        let mut asked = request("CONNECT", "http://a.test/chat?room=1", "");
        asked.headers_mut().insert("sec-websocket-version", "13".parse().unwrap());
        asked.extensions_mut().insert(Protocol::from_static("websocket"));
        let mut response = client.send_request(asked).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("sec-websocket-accept"));
        let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
        stream.write_all(b"over two").await.unwrap();
        let mut buffer = [0; 8];
        stream.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"over two");
    });
}

/// A backend that speaks HTTP/2 and takes no tunnels there is asked over HTTP/1.1.
#[test]
fn web_socket_where_http2_takes_none() {
    let served = backend::serving(Speaks::Either, |mut request, _| async move {
        let is_http1 = request.version() == http::Version::HTTP_11;
        if !is_http1 || !request.headers().contains_key("upgrade") {
            return Response::builder().status(404).body(Empty::<Bytes>::new()).unwrap();
        }
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgraded.await.unwrap());
            stream.write_all(b"welcome").await.unwrap();
        });
        let response = Response::builder().status(101).header("connection", "upgrade");
        response.header("upgrade", "websocket").body(Empty::new()).unwrap()
    });
    let gate = h2_gate(&served);
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.ask(ASK_WITH_KEY).status, 101);
    assert_eq!(connection.bytes(7), b"welcome");
    // One that speaks HTTP/2 alone cannot be asked at all.
    let served = h2_web_socket(Speaks::Http2);
    let gate = h2_gate(&served);
    assert_eq!(Connection::to(gate.address()).ask(ASK_WITH_KEY).status, 502);
    assert_eq!(served.requests(), 0);
}

#[test]
fn connect_is_refused() {
    let served = backend::echo("a");
    let gate = gate(&served);
    let answer =
        Connection::to(gate.address()).ask("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n");
    assert_eq!(answer.status, 405);
}
