//! Backends that do as the test says, byte by byte, and clients of HTTP/2 by frames.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use bytes::Bytes;
use http::Request;

use crate::gate::PATIENCE;

/// A connection of a backend's.
pub(crate) type Line = BufReader<TcpStream>;

/// Does this with each connection, on a thread of its own. Tells its port.
pub(crate) fn backend(serve: impl Fn(&mut Line) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.unwrap(), Arc::clone(&serve));
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            std::thread::spawn(move || serve(&mut BufReader::new(stream)));
        }
    });
    port
}

/// The head of the next request; `None` at the end.
pub(crate) fn head(line: &mut Line) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if line.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// Says it, unless nobody listens any more.
pub(crate) fn say(line: &mut Line, words: &str) {
    let _ = line.get_mut().write_all(words.as_bytes());
}

/// Reads until the other side ends or breaks off.
pub(crate) fn to_the_end(line: &mut Line) {
    let _ = std::io::copy(line, &mut std::io::sink());
}

/// Reads so much.
pub(crate) fn take(line: &mut Line, count: usize) {
    let _ = line.read_exact(&mut vec![0; count]);
}

/// Answers every request with these words.
pub(crate) fn always(words: &'static str) -> u16 {
    backend(move |line| {
        while head(line).is_some() {
            say(line, words);
        }
    })
}

pub(crate) const UPGRADE: &str =
    "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";

/// Takes every upgrade, and says nothing more.
pub(crate) fn tunnel() -> u16 {
    backend(|line| {
        head(line);
        say(line, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
        to_the_end(line);
    })
}

pub(crate) type Sender = h2::client::SendRequest<Bytes>;

/// A client of HTTP/2 that lets each stream have so much of an answer before it is asked again.
pub(crate) async fn http2(address: SocketAddr, window: u32) -> (Sender, h2::PingPong) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let (sender, mut connection) = builder.initial_window_size(window).handshake(stream).await.unwrap();
    let pings = connection.ping_pong().unwrap();
    tokio::spawn(connection);
    (sender.ready().await.unwrap(), pings)
}

pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(format!("http://a.test{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// All of a body, and whether its end was there.
pub(crate) async fn whole(mut body: h2::RecvStream) -> Result<String, h2::Error> {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len()).unwrap();
        all.extend_from_slice(&data);
    }
    Ok(String::from_utf8(all).unwrap())
}
