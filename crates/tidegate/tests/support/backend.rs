//! Backends without a protocol, in threads of the test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

/// Calls `serve` for each connection, and gives the port.
pub(crate) fn each(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    port
}

/// Sends back what it gets, as it comes, and ends when the client has.
pub(crate) fn echo() -> u16 {
    each(|mut stream| {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}

/// Says nothing until the client has ended its half, then all of it backwards.
pub(crate) fn backwards() -> u16 {
    each(|mut stream| {
        let mut said = Vec::new();
        if stream.read_to_end(&mut said).is_ok() {
            said.reverse();
            let _ = stream.write_all(&said).and_then(|()| stream.shutdown(Shutdown::Write));
        }
    })
}

/// A web site: each answer has the head of its request for a body.
pub(crate) fn site() -> u16 {
    each(|mut stream| {
        let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            head.extend_from_slice(&buffer[..count]);
            if head.ends_with(b"\r\n\r\n") {
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", head.len());
                if stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(&head)).is_err() {
                    return;
                }
                head.clear();
            }
        }
    })
}
