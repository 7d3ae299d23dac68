//! Clients: HTTP/1.1 as text over a socket, HTTP/2 by hyper.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::gate::PATIENCE;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header, as it stands there.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// A connection that can be used again.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn ask(&mut self, text: &str) -> Answer {
        self.send(text);
        self.answer().unwrap()
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"))
    }

    /// `None` at the end of the connection.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let mut answer = self.bare_answer()?;
        if answer.status == 101 {
            return Some(answer);
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = self.chunks();
        } else if let Some(length) = answer.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            self.0.read_exact(&mut body).unwrap();
            answer.body = String::from_utf8(body).unwrap();
        }
        Some(answer)
    }

    /// One that has no body, whatever its head says.
    pub(crate) fn bare_answer(&mut self) -> Option<Answer> {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some(Answer { status, head, body: String::new() })
    }

    fn chunks(&mut self) -> String {
        let mut body = String::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim(), 16).unwrap_or_else(|_| panic!("{line:?}"));
            let mut chunk = vec![0; size + 2];
            self.0.read_exact(&mut chunk).unwrap();
            body.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
            if size == 0 {
                return body;
            }
        }
    }

    /// The same connection, for who reads or writes beside.
    pub(crate) fn stream(&self) -> TcpStream {
        self.0.get_ref().try_clone().unwrap()
    }

    /// Sends nothing more, and goes on to read.
    pub(crate) fn end(&mut self) {
        self.0.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Exactly so many bytes, whatever they are.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Waits for the end of the connection and gives what came before.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end, too.
        let _ = self.0.read_to_end(&mut rest);
        rest
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    Connection::to(address).get(path)
}

pub(crate) fn get_with(address: SocketAddr, path: &str, headers: &str) -> Answer {
    Connection::to(address).ask(&format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{headers}\r\n"))
}

/// Runs a client of hyper's to its end.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("an answer in time") })
}

pub(crate) type Http2 = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

/// HTTP/2 by prior knowledge.
pub(crate) async fn http2(address: SocketAddr) -> Http2 {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    http2_over(stream).await
}

pub(crate) async fn http2_over<S>(stream: S) -> Http2
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) async fn whole(response: Response<hyper::body::Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let lines: Vec<String> =
        head.headers.iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap())).collect();
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        status: head.status.as_u16(),
        head: lines.concat(),
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

pub(crate) fn request(method: &str, uri: &str, body: &str) -> Request<Full<Bytes>> {
    let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
    Request::builder().method(method).uri(uri).body(body).unwrap()
}
