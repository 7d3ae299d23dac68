//! Clients that take their time with a request: the head, the body, or the next one.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::loopback::Tidegate;
use crate::loopback::h2::{Answer, Client, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, block, request};
use crate::loopback::manifests::{gateway, http, http_route, service};
use crate::loopback::traffic::wait_end;
use crate::support::wait_for;
use crate::support::web::{Version, web};

const PORT: u16 = 20_080;
const CLIENTS: usize = 200;
/// Far below what a test waits in vain, far above what is set.
const SOON: Duration = Duration::from_secs(20);

fn start(flags: &[&str]) -> Tidegate {
    let text = gateway(&[http("web", PORT)])
        + &http_route("all", "web", &[], "/", &[("backend", 1)])
        + &service("backend", &[web("a", Version::Http1)]);
    Tidegate::start(&[("all.yaml", &text)], flags)
}

fn assert_served(tidegate: &Tidegate) {
    let mut stream = tidegate.connect(PORT);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// Sends a byte of `bytes` to each in turn, the last one never, until all were ended, with others served in between.
/// Gives what each got and its address.
fn drip(tidegate: &Tidegate, streams: Vec<TcpStream>, bytes: &[u8]) -> Vec<(SocketAddr, String)> {
    let began = Instant::now();
    let mut live: Vec<(TcpStream, String)> =
        streams.into_iter().map(|stream| (stream, String::new())).collect();
    let (mut ended, mut next) = (Vec::new(), 0);
    for (stream, _) in &live {
        stream.set_nonblocking(true).unwrap();
    }
    while !live.is_empty() {
        assert!(began.elapsed() < SOON, "{} still there", live.len());
        live.retain_mut(|(stream, got)| {
            let _ = stream.write(&bytes[next..=next]);
            let mut buffer = [0; 1024];
            let is_over = loop {
                match stream.read(&mut buffer) {
                    Ok(0) => break true,
                    Ok(count) => got.push_str(&String::from_utf8_lossy(&buffer[..count])),
                    Err(error) => break error.kind() != ErrorKind::WouldBlock,
                }
            };
            if is_over {
                ended.push((stream.local_addr().unwrap(), std::mem::take(got)));
            }
            !is_over
        });
        next = (next + 1).min(bytes.len() - 2);
        assert_served(tidegate);
        std::thread::sleep(Duration::from_millis(50));
    }
    ended
}

#[test]
fn heads_that_drip() {
    let tidegate = start(&["--header-time=2s"]);
    assert_served(&tidegate);
    let before = tidegate.memory();
    let clients = (0..CLIENTS).map(|_| tidegate.connect(PORT)).collect();
    let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n", "X-Slow: y\r\n".repeat(100));
    let ended = drip(&tidegate, clients, head.as_bytes());
    let each = tidegate.memory().saturating_sub(before) / CLIENTS as u64;
    assert!(each < 64 * 1024, "{each} bytes for each");
    for (client, _) in &ended[..5] {
        assert_eq!(tidegate.ending_of(*client), "header_timeout");
    }
    assert_eq!(tidegate.limit_reached("header_time"), CLIENTS as u64);
    tidegate.wait_active(0);
}

#[test]
fn silence_instead_of_a_request() {
    let tidegate = start(&["--header-time=2s"]);
    let mut silent = tidegate.connect(PORT);
    let mut half = tidegate.connect(PORT);
    half.write_all(b"PRI * HTTP/2.0\r\n\r\nSM").unwrap();
    for stream in [&mut silent, &mut half] {
        wait_end(stream);
        assert_eq!(tidegate.ending_of(stream.local_addr().unwrap()), "header_timeout");
    }
    assert_served(&tidegate);
}

/// A head in several frames, the last of which does not come; and a connection that never has a request.
#[test]
fn heads_that_do_not_end_in_http2() {
    let tidegate = start(&["--header-time=2s"]);
    let mut half = Client::start(tidegate.connect(PORT), &[]);
    half.send(&Frame::new(HEADERS, END_STREAM, 1, block(&request("GET", "/", "a.test")))).unwrap();
    let mut silent = Client::start(tidegate.connect(PORT), &[]);
    for client in [&mut half, &mut silent] {
        let began = Instant::now();
        while client.next().unwrap().is_some() {}
        assert!(began.elapsed() < SOON);
        assert_eq!(tidegate.ending_of(client.socket().local_addr().unwrap()), "header_timeout");
    }
    assert_served(&tidegate);
}

/// The same on a connection that has had a request: over HTTP/2, where bytes belong to no one request, it has as long
/// as an idle one.
#[test]
fn heads_that_do_not_end_after_a_good_request() {
    let tidegate = start(&["--header-time=2s", "--keep-alive-time=4s"]);
    let mut client = Client::start(tidegate.connect(PORT), &[]);
    client.ask(1, &request("GET", "/", "a.test"), END_STREAM).unwrap();
    assert_eq!(client.answer(1).unwrap(), Answer::Status(200));
    client.send(&Frame::new(HEADERS, END_STREAM, 3, block(&request("GET", "/", "a.test")))).unwrap();
    let began = Instant::now();
    while client.next().unwrap().is_some() {}
    assert!(began.elapsed() < SOON, "ended after {:?}", began.elapsed());

    let mut stream = tidegate.connect(PORT);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    stream.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
    wait_end(&mut stream);
    assert!(began.elapsed() < 2 * SOON);
    assert_served(&tidegate);
}

#[test]
fn bodies_that_stop() {
    let tidegate = start(&["--body-time=2s"]);
    let mut stream = tidegate.connect(PORT);
    stream.write_all(b"POST /whole HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100\r\n\r\nhello").unwrap();
    let mut client = Client::start(tidegate.connect(PORT), &[]);
    client.ask(1, &request("POST", "/whole", "a.test"), 0).unwrap();
    client.send(&Frame::new(DATA, 0, 1, *b"hello")).unwrap();
    let began = Instant::now();
    wait_end(&mut stream);
    assert_eq!(client.answer(1).unwrap(), Answer::Status(408));
    assert!(began.elapsed() < SOON, "ended after {:?}", began.elapsed());
    wait_for("two lines of the log", || {
        let lines = tidegate.lines();
        (lines.iter().filter(|line| line["ending"] == "body_timeout").count() == 2).then_some(())
    });
    assert_served(&tidegate);
}

#[test]
fn connections_without_another_request() {
    let tidegate = start(&["--keep-alive-time=2s"]);
    let mut stream = tidegate.connect(PORT);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    let mut client = Client::start(tidegate.connect(PORT), &[]);
    client.ask(1, &request("GET", "/", "a.test"), END_STREAM | END_HEADERS).unwrap();
    assert_eq!(client.answer(1).unwrap(), Answer::Status(200));
    let began = Instant::now();
    assert!(!wait_end(&mut stream), "an end in order");
    while client.next().unwrap().is_some() {}
    assert!(began.elapsed() > Duration::from_secs(1), "ended after {:?}", began.elapsed());
    assert!(began.elapsed() < SOON, "ended after {:?}", began.elapsed());
    assert_served(&tidegate);
}
