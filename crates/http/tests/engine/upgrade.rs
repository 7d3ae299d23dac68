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

#[test]
fn connect_is_refused() {
    let served = backend::echo("a");
    let gate = gate(&served);
    let answer =
        Connection::to(gate.address()).ask("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n");
    assert_eq!(answer.status, 405);
}
