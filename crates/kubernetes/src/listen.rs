//! Sockets on every address. `[::]` is IPv4 as well, but not where the kernel has no IPv6 or it is switched off.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Listens on an address; on `0.0.0.0` where `[::]` was asked for and there is no IPv6.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    with(address, TcpListener::bind)
}

fn with<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let error = match bind(address) {
        Ok(socket) => return Ok(socket),
        Err(error) => error,
    };
    let has_ipv6 = matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied);
    if has_ipv6 || address.ip() != IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        return Err(error);
    }
    bind((Ipv4Addr::UNSPECIFIED, address.port()).into()).map_err(|_| error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that refuses IPv6 with this error.
    fn bound(address: &str, error: i32) -> Result<String, Option<i32>> {
        let bind = |address: SocketAddr| {
            if address.is_ipv6() { Err(io::Error::from_raw_os_error(error)) } else { Ok(address.to_string()) }
        };
        with(address.parse().expect("an address"), bind).map_err(|error| error.raw_os_error())
    }

    #[test]
    fn without_ipv6_it_is_ipv4() {
        // Linux: EAFNOSUPPORT, EADDRNOTAVAIL, EADDRINUSE, EACCES.
        let [unknown, off, in_use, denied] = [97, 99, 98, 13];
        for error in [unknown, off] {
            assert_eq!(bound("[::]:9443", error).as_deref(), Ok("0.0.0.0:9443"));
            assert_eq!(bound("[fd00::1]:9443", error), Err(Some(error)), "that one was meant");
        }
        for error in [in_use, denied] {
            assert_eq!(bound("[::]:9443", error), Err(Some(error)));
        }
        assert_eq!(bound("10.0.0.1:1", unknown).as_deref(), Ok("10.0.0.1:1"));
    }

    #[test]
    fn a_socket_is_reached_by_ipv4() {
        let socket = listen("[::]:0".parse().expect("an address")).expect("a socket");
        let port = socket.local_addr().expect("an address").port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it is reached");
    }
}
