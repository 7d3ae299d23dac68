//! Clients and backends that wait for each other, with a thread where it takes one.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::support::PATIENCE;

pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    patient(stream)
}

/// A read that never ends fails the test instead of stopping it.
pub(crate) fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A backend that sends back what it gets, for as long as the test program runs.
pub(crate) fn echo() -> SocketAddr {
    serve(|mut stream| {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
    })
}

/// A backend that greets with its name and then sends back what it gets.
pub(crate) fn greeter(name: u8) -> SocketAddr {
    serve(move |mut stream| {
        let mut buffer = [0; 1024];
        let _ = stream.write_all(&[name]);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    })
}

/// A backend that treats each connection alike.
pub(crate) fn serve(treat: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let treat = treat.clone();
            thread::spawn(move || treat(stream));
        }
    });
    address
}

/// Where nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    (super::own_address(), 9).into()
}

/// Sends bytes and wants the same back.
pub(crate) fn round_trip(stream: &mut (impl Read + Write), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()?;
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back)?;
    assert_eq!(back, bytes, "not what was sent");
    Ok(())
}

/// Closes so that the peer sees a reset.
pub(crate) fn reset(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// How the peer ended it: `true` for a reset, `false` for an end in order.
pub(crate) fn wait_end(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return true,
            Err(error) => panic!("it was not ended: {error}"),
        }
    }
}
