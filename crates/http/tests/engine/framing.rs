//! Where bodies end, as HTTP/1.1 and HTTP/2 tell it to each other.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tidegate_plan::Protocol;
use tidegate_proxy::Bounds;

use crate::backend::{self, Served};
use crate::client::{Connection, run};
use crate::gate::{Gate, rule};
use crate::raw;

fn gate(port: u16) -> Gate {
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend("a", &[port]);
    gate.route("web", vec![rule("/", &id)]);
    gate.serving()
}

/// Answers of our own have no body for HEAD either.
#[test]
fn head_over_http2() {
    let gate = Gate::with(Bounds::default(), 1).serving();
    run(async {
        let (mut client, _) = raw::http2(gate.address(), 65_535).await;
        for (method, is_told) in [("HEAD", false), ("GET", true), ("HEAD", false)] {
            let (answer, _) = client.send_request(raw::request(method, "/", &[]), true).unwrap();
            let answer = answer.await.unwrap();
            assert_eq!(answer.status(), 404);
            assert_eq!(!raw::whole(answer.into_body()).await.unwrap().is_empty(), is_told, "{method}");
        }
    });
}

/// A length that does not count, or counts twice, is an error to readers of HTTP/2.
#[test]
fn one_length_at_most_over_http2() {
    for (answer, lengths) in [
        ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 0),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 0),
        ("Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 1),
    ] {
        let words: &'static str = format!("HTTP/1.1 200 OK\r\n{answer}").leak();
        let gate = gate(raw::always(words));
        run(async {
            let (mut client, _) = raw::http2(gate.address(), 65_535).await;
            let (answer, _) = client.send_request(raw::request("GET", "/", &[]), true).unwrap();
            let answer = answer.await.unwrap();
            assert_eq!(answer.headers().get_all("content-length").iter().count(), lengths, "{words}");
            assert_eq!(raw::whole(answer.into_body()).await.unwrap(), "hello", "{words}");
        });
        let mut connection = Connection::to(gate.address());
        for _ in 0..2 {
            assert_eq!(connection.get("/").body, "hello", "{words}");
        }
    }
}

/// A backend over HTTP/2 that says the end of its answer in a frame of its own, after a while, and counts how often
/// that was too late.
fn slow_to_end() -> (u16, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let resets = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&resets);
    std::thread::spawn(move || {
        run_for_ever(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let counted = Arc::clone(&counted);
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    while let Some(Ok((request, mut respond))) = connection.accept().await {
                        let counted = Arc::clone(&counted);
                        tokio::spawn(async move {
                            let status: u16 = request.uri().path()[1..].parse().unwrap();
                            let has_body = status == 200 && request.method() != http::Method::HEAD;
                            let mut answer = Response::builder().status(status);
                            if status == 200 {
                                answer = answer.header("content-length", "5");
                            }
                            let mut body = respond.send_response(answer.body(()).unwrap(), false).unwrap();
                            if has_body {
                                body.send_data(Bytes::from_static(b"hello"), false).unwrap();
                            }
                            let pause = tokio::time::sleep(Duration::from_millis(200));
                            tokio::select! {
                                _ = poll_fn(|context| body.poll_reset(context)) => {
                                    counted.fetch_add(1, SeqCst);
                                }
                                () = pause => body.send_data(Bytes::new(), true).unwrap(),
                            }
                        });
                    }
                });
            }
        });
    });
    (port, resets)
}

fn run_for_ever(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future);
}

/// The client has its answer when its last byte is there, and nobody has broken anything off.
#[test]
fn an_end_that_comes_by_itself() {
    let (port, resets) = slow_to_end();
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend_with("a", &[port], |backend| backend.protocol = Protocol::Http2);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    for (method, status, body) in
        [("GET", 200, "hello"), ("HEAD", 200, ""), ("GET", 304, ""), ("GET", 204, "")]
    {
        connection.send(&format!("{method} /{status} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let answer = match body {
            "" => connection.bare_answer(),
            _ => connection.answer(),
        };
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{method}");
        gate.line(&[&format!("method=\"{method}\""), &format!("status={status}"), "ending=\"done\""]);
    }
    run(async {
        let (mut client, _) = raw::http2(gate.address(), 65_535).await;
        for (method, path, body) in [("HEAD", "/200", ""), ("GET", "/200", "hello"), ("GET", "/204", "")] {
            let (answer, _) = client.send_request(raw::request(method, path, &[]), true).unwrap();
            assert_eq!(raw::whole(answer.await.unwrap().into_body()).await.unwrap(), body, "{method}");
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(resets.load(SeqCst), 0);
    assert_eq!(gate.metric("tidegate_requests_ended_total{reason=\"client_reset\"}"), 0.0);
}

async fn post_in_two_frames(client: &mut raw::Sender, path: &str) -> String {
    let asked = raw::request("POST", path, &[("content-length", "5")]);
    let (answer, mut body) = client.send_request(asked, false).unwrap();
    body.send_data(Bytes::from_static(b"hello"), false).unwrap();
    let answer = answer.await.unwrap();
    // It may be too late for that.
    let _ = body.send_data(Bytes::new(), true);
    raw::whole(answer.into_body()).await.unwrap()
}

/// The same for requests: a backend that has all of one can have the next.
#[test]
fn a_request_whose_end_comes_by_itself_frees_its_connection() {
    let served: Served = backend::echo("a");
    let gate = gate(served.port);
    run(async {
        let (mut client, _) = raw::http2(gate.address(), 65_535).await;
        for _ in 0..5 {
            let told = post_in_two_frames(&mut client, "/").await;
            assert!(told.ends_with("\n\nhello"), "{told}");
        }
    });
    assert_eq!((served.requests(), served.connections()), (5, 1));
}

/// Clients of HTTP/2 may wait to be told that their body is wanted, as those of HTTP/1.1 may.
#[test]
fn expect_continue_over_http2() {
    let served = backend::echo("a");
    let gate = gate(served.port);
    run(async {
        let (mut client, _) = raw::http2(gate.address(), 65_535).await;
        let asked = raw::request("POST", "/", &[("expect", "100-continue"), ("content-length", "5")]);
        let (mut answer, mut body) = client.send_request(asked, false).unwrap();
        let told = poll_fn(|context| answer.poll_informational(context)).await.unwrap().unwrap();
        assert_eq!(told.status(), 100);
        body.send_data(Bytes::from_static(b"hello"), true).unwrap();
        let told = raw::whole(answer.await.unwrap().into_body()).await.unwrap();
        assert!(told.ends_with("\n\nhello") && !told.contains("expect"), "{told}");
    });
}
