//! What backends say before they answer: early hints, and whatever else has a status below 200.

use std::future::poll_fn;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tidegate_plan::{Filter, HeaderChange, Protocol};
use tidegate_proxy::Bounds;
use tokio::sync::Semaphore;

use crate::backend;
use crate::client::{Connection, run};
use crate::gate::{Gate, rule};

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Secret: 1\r\n\
    Connection: x-private\r\nX-Private: 1\r\nContent-Length: 0\r\n\r\n";

/// Says something first, and answers when it is told to.
struct Backend {
    port: u16,
    go: Arc<Semaphore>,
}

fn saying(first: &'static str) -> Backend {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let go = Arc::new(Semaphore::new(0));
    let told = Arc::clone(&go);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, told) = (stream.unwrap(), Arc::clone(&told));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                loop {
                    let mut length = 0;
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line).unwrap_or(0) == 0 {
                            return;
                        }
                        let line = line.trim_end().to_ascii_lowercase();
                        if let Some(value) = line.strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap();
                        }
                        if line.is_empty() {
                            break;
                        }
                    }
                    reader.get_mut().write_all(first.as_bytes()).unwrap();
                    std::io::Read::read_exact(&mut reader, &mut vec![0; length]).unwrap();
                    run(async { told.acquire().await.unwrap().forget() });
                    reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").unwrap();
                }
            });
        }
    });
    Backend { port, go }
}

fn gate(backend: &Backend, filters: Vec<Filter>) -> Gate {
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend("a", &[backend.port]);
    let mut rule = rule("/", &id);
    rule.filters = filters;
    gate.route("web", vec![rule]);
    gate.serving()
}

fn without_the_secret() -> Filter {
    let change = HeaderChange { remove: vec!["x-secret".into()], ..HeaderChange::default() };
    Filter::ResponseHeaders(change)
}

#[test]
fn hints_are_there_before_the_answer() {
    let backend = saying(HINTS);
    let gate = gate(&backend, vec![without_the_secret()]);
    let mut connection = Connection::to(gate.address());
    for _ in 0..3 {
        let hints = connection.get("/");
        assert_eq!(hints.status, 103);
        assert_eq!(hints.head, "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n");
        backend.go.add_permits(1);
        let answer = connection.answer().unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "done"));
    }
}

/// The same over HTTP/2, which tells hints by their stream.
fn hinting_over_http2() -> Backend {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let go = Arc::new(Semaphore::new(0));
    let told = Arc::clone(&go);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let told = Arc::clone(&told);
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    while let Some(Ok((_, mut respond))) = connection.accept().await {
                        let told = Arc::clone(&told);
                        tokio::spawn(async move {
                            let hints =
                                Response::builder().status(103).header("link", "</a.css>; rel=preload");
                            respond.send_informational(hints.body(()).unwrap()).unwrap();
                            told.acquire().await.unwrap().forget();
                            let mut body = respond.send_response(Response::new(()), false).unwrap();
                            body.send_data(Bytes::from_static(b"done"), true).unwrap();
                        });
                    }
                });
            }
        });
    });
    Backend { port, go }
}

/// A client of HTTP/2 with one connection that has three requests at a time.
async fn three_at_once(gate: &Gate, backend: &Backend) {
    let stream = tokio::net::TcpStream::connect(gate.address()).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..3 {
        let mut sender = sender.clone().ready().await.unwrap();
        let request = Request::get("http://a.test/").body(()).unwrap();
        answers.push(sender.send_request(request, true).unwrap().0);
    }
    for answer in &mut answers {
        let hints = poll_fn(|context| answer.poll_informational(context)).await.unwrap().unwrap();
        assert_eq!((hints.status().as_u16(), hints.headers().len()), (103, 1));
        assert_eq!(hints.headers()["link"], "</a.css>; rel=preload");
    }
    backend.go.add_permits(3);
    for answer in answers {
        let (head, mut body) = answer.await.unwrap().into_parts();
        assert_eq!(head.status, 200);
        assert_eq!(body.data().await.unwrap().unwrap(), "done");
    }
}

#[test]
fn hints_belong_to_their_stream() {
    let backend = saying(HINTS);
    let gate = gate(&backend, vec![without_the_secret()]);
    run(three_at_once(&gate, &backend));
}

#[test]
fn hints_of_backends_over_http2() {
    let backend = hinting_over_http2();
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend_with("a", &[backend.port], |backend| backend.protocol = Protocol::Http2);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    run(three_at_once(&gate, &backend));
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.get("/").header("link"), Some("</a.css>; rel=preload"));
    backend.go.add_permits(1);
    let answer = connection.answer().unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "done"));
}

#[test]
fn hints_and_answer_may_come_at_once() {
    let backend = saying(HINTS);
    let gate = gate(&backend, Vec::new());
    backend.go.add_permits(20);
    let mut connection = Connection::to(gate.address());
    let twenty = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(20);
    connection.send(&twenty);
    for _ in 0..20 {
        let (first, second) = (connection.answer().unwrap(), connection.answer().unwrap());
        assert_eq!((first.status, second.status), (103, 200));
        assert_eq!(first.header("x-secret"), Some("1"));
        assert_eq!((first.header("x-private"), first.header("content-length")), (None, None));
    }
}

#[test]
fn several_are_passed_on_in_their_order() {
    let backend = saying(
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n",
    );
    let gate = gate(&backend, Vec::new());
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.get("/").status, 102);
    assert_eq!(connection.answer().unwrap().header("link"), Some("<a>"));
    backend.go.add_permits(1);
    assert_eq!(connection.answer().unwrap().status, 200);
}

#[test]
fn no_more_than_a_few_are_passed_on() {
    let backend = saying(Box::leak("HTTP/1.1 102 Processing\r\n\r\n".repeat(100).into_boxed_str()));
    let gate = gate(&backend, Vec::new());
    backend.go.add_permits(1);
    let mut connection = Connection::to(gate.address());
    connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let early = std::iter::from_fn(|| connection.answer()).take_while(|answer| answer.status == 102).count();
    assert!((1..=16).contains(&early), "{early}");
}

/// That the client may send its body we say ourselves, whatever else comes in between.
#[test]
fn beside_a_body_that_waits_to_be_asked_for() {
    let backend = saying(HINTS);
    let gate = gate(&backend, Vec::new());
    let mut connection = Connection::to(gate.address());
    connection.send("POST / HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    let mut first = [connection.answer().unwrap().status, connection.answer().unwrap().status];
    first.sort_unstable();
    assert_eq!(first, [100, 103]);
    connection.send("body");
    backend.go.add_permits(1);
    assert_eq!(connection.answer().unwrap().status, 200);
}

/// It is no answer to who has not asked for it, and what comes behind it is none of the client's either.
#[test]
fn an_upgrade_that_nobody_asked_for() {
    let backend = backend::raw(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    );
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend("a", &[backend.port]);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    for nth in 1..3 {
        let answer = connection.get("/");
        let told = (answer.status, answer.header("x-tidegate-reason"), answer.header("upgrade"));
        assert_eq!(told, (502, Some("backend_invalid"), None));
        assert_eq!(backend.heads().len(), nth, "on a connection of its own");
    }
    gate.line(&["status=502", "ending=\"backend_invalid\"", "an upgrade that nobody asked for"]);
}

#[test]
fn clients_of_http_1_0_get_the_answer_alone() {
    let backend = saying(HINTS);
    let gate = gate(&backend, Vec::new());
    backend.go.add_permits(1);
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.ask("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n").status, 200);
}
