//! Who has a port: read from /proc, as far as this user may see.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use tidegate_plan::Transport;

/// Another process that listens for connections at this address, as far as it can be seen.
#[must_use]
pub fn owner(address: SocketAddr) -> Option<String> {
    of(address, Transport::Tcp)
}

/// Another process that listens where `address` would, if there is one and it can be seen.
pub(crate) fn of(address: SocketAddr, transport: Transport) -> Option<String> {
    let tables = match transport {
        Transport::Tcp => ["tcp", "tcp6"],
        Transport::Udp => ["udp", "udp6"],
    };
    let own = inodes(Path::new("/proc/self"));
    for table in tables {
        let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        for socket in text.lines().skip(1).filter_map(Socket::parse) {
            let listens = transport == Transport::Udp || socket.state == LISTEN;
            if listens && !own.contains(&socket.inode) && overlap(socket.local, address) {
                return Some(process(socket.inode).unwrap_or_else(|| "another process".to_owned()));
            }
        }
    }
    None
}

const LISTEN: u8 = 0x0a;

/// One line of a table of sockets.
struct Socket {
    local: SocketAddr,
    state: u8,
    inode: u64,
}

impl Socket {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let local = address(fields.nth(1)?)?;
        let state = u8::from_str_radix(fields.nth(1)?, 16).ok()?;
        let inode = fields.nth(5)?.parse().ok()?;
        Some(Self { local, state, inode })
    }
}

/// `0100007F:1F90`: words in the byte order of the machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word =
        |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let bytes = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Whether two sockets would get in each other's way. A wildcard of IPv6 may take IPv4 as well.
fn overlap(there: SocketAddr, wanted: SocketAddr) -> bool {
    let any = |ip: IpAddr| ip.is_unspecified();
    let same_family = there.is_ipv4() == wanted.is_ipv4();
    let takes_all = |ip: IpAddr| any(ip) && ip.is_ipv6();
    there.port() == wanted.port()
        && (there.ip() == wanted.ip()
            || (same_family && (any(there.ip()) || any(wanted.ip())))
            || takes_all(there.ip()))
}

/// `nginx (process 4711)`.
fn process(inode: u64) -> Option<String> {
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let path = entry.path();
        let id = entry.file_name().into_string().ok().and_then(|name| name.parse::<u32>().ok());
        if let Some(id) = id
            && inodes(&path).contains(&inode)
        {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            return Some(format!("{} (process {id})", name.trim()));
        }
    }
    None
}

/// The sockets that a process has open.
fn inodes(process: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(process.join("fd")) else { return Vec::new() };
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table() {
        let line = "   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0";
        let socket = Socket::parse(line).unwrap();
        assert_eq!(socket.local, "127.0.0.1:8080".parse().unwrap());
        assert_eq!((socket.state, socket.inode), (LISTEN, 12345));
        let six = address("00000000000000000000000001000000:0050").unwrap();
        assert_eq!(six, "[::1]:80".parse().unwrap());
    }

    #[test]
    fn who_gets_in_whose_way() {
        for (there, wanted, overlapping) in [
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("[::]:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "[::]:80", false),
            ("[::1]:80", "[::]:80", true),
        ] {
            let found = overlap(there.parse().unwrap(), wanted.parse().unwrap());
            assert_eq!(found, overlapping, "{there} and {wanted}");
        }
    }

    #[test]
    fn a_socket_of_this_process_is_no_other() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(of(socket.local_addr().unwrap(), Transport::Tcp), None);
        let link =
            fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&socket))).unwrap();
        let inode = link.to_str().unwrap().trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        assert!(process(inode).unwrap().contains(&format!("(process {})", std::process::id())));
    }
}
