//! gRPC as it is on the wire: HTTP/2 both ways, messages as they come, trailers.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Empty};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_plan::Rules;

use crate::backend::{self, Speaks};
use crate::client::{http2, request, run};
use crate::gate::{Gate, grpc_rule};

/// Sends each message back as it comes, and says in a trailer how it went.
fn echo_stream() -> backend::Served {
    backend::serving(Speaks::Http2, |request, _| async move {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(4);
        tokio::spawn(async move {
            let mut incoming = request.into_body();
            while let Some(Ok(frame)) = incoming.frame().await {
                if let Ok(data) = frame.into_data() {
                    sender.send_data(data).await.unwrap();
                }
            }
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            sender.send(Frame::trailers(trailers)).await.unwrap();
        });
        Response::builder().header("content-type", "application/grpc").body(body).unwrap()
    })
}

#[test]
fn a_stream_goes_both_ways_with_trailers() {
    let served = echo_stream();
    let mut gate = Gate::new();
    let id = gate.backend("orders", &[served.port]);
    gate.route_for("orders", &[], &["http"], Rules::Grpc(vec![grpc_rule(&id)]));
    let gate = gate.serving();
    run(async {
        let stream = tokio::net::TcpStream::connect(gate.address()).await.unwrap();
        let (mut client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(4);
        let asked = Request::builder()
            .method("POST")
            .uri("http://a.test/orders.Orders/Talk")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(body)
            .unwrap();
        let response = client.send_request(asked).await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/grpc");
        let mut answer = response.into_body();
        // Each is answered before the next is said.
        for number in 0..10 {
            let message = Bytes::from(format!("message {number}"));
            sender.send_data(message.clone()).await.unwrap();
            assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), message);
        }
        drop(sender);
        let trailers = answer.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        assert!(answer.frame().await.is_none());
    });
    gate.line(&["route=\"GRPCRoute default/orders\"", "bytes_up=90", "bytes_down=90", "ending=\"done\""]);
}

/// Everything is in the head where a call fails at once.
#[test]
fn trailers_only() {
    let served = backend::serving(Speaks::Http2, |_, _| async {
        Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "5")
            .body(Empty::<Bytes>::new())
            .unwrap()
    });
    let mut gate = Gate::new();
    let id = gate.backend("orders", &[served.port]);
    gate.route_for("orders", &[], &["http"], Rules::Grpc(vec![grpc_rule(&id)]));
    let gate = gate.serving();
    run(async {
        let mut client = http2(gate.address()).await;
        let mut asked = request("POST", "http://a.test/orders.Orders/Get", "");
        asked.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        let response = client.send_request(asked).await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "5");
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
    });
}
