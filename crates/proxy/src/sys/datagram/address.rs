//! Socket addresses in the kernel's form and back.

use std::mem::zeroed;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for an address of either family.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union RawAddress {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

pub(super) const SPACE: libc::socklen_t = size_of::<RawAddress>() as libc::socklen_t;

impl RawAddress {
    /// The address with its length.
    pub(super) fn new(address: SocketAddr) -> (Self, libc::socklen_t) {
        match address {
            SocketAddr::V4(address) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: in_addr(*address.ip()),
                    sin_zero: [0; 8],
                };
                // SAFETY: zero is a value of every field. The rest of the union is never read uninitialised.
                let mut raw: Self = unsafe { zeroed() };
                raw.v4 = v4;
                (raw, size_of::<libc::sockaddr_in>() as libc::socklen_t)
            }
            SocketAddr::V6(address) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: in6_addr(*address.ip()),
                    sin6_scope_id: address.scope_id(),
                };
                (Self { v6 }, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
            }
        }
    }

    /// `None` for another family, or none. The flow label is left out: it does not say who the sender is.
    ///
    /// SAFETY: the kernel, or `new`, has written `length` bytes.
    pub(super) unsafe fn read(&self, length: libc::socklen_t) -> Option<SocketAddr> {
        let length = length as usize;
        if length < size_of::<libc::sa_family_t>() {
            return None;
        }
        // SAFETY: so many bytes are written, and every field is plain integers.
        match libc::c_int::from(unsafe { self.family }) {
            libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
                // SAFETY: the family and the length say that this is what was written.
                let v4 = unsafe { &self.v4 };
                let port = u16::from_be(v4.sin_port);
                Some(SocketAddrV4::new(ipv4(v4.sin_addr), port).into())
            }
            libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
                // SAFETY: the family and the length say that this is what was written.
                let v6 = unsafe { &self.v6 };
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ipv6(v6.sin6_addr), port, 0, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

pub(super) fn in_addr(address: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) }
}

pub(super) fn in6_addr(address: Ipv6Addr) -> libc::in6_addr {
    libc::in6_addr { s6_addr: address.octets() }
}

pub(super) fn ipv4(address: libc::in_addr) -> Ipv4Addr {
    Ipv4Addr::from(address.s_addr.to_ne_bytes())
}

pub(super) fn ipv6(address: libc::in6_addr) -> Ipv6Addr {
    Ipv6Addr::from(address.s6_addr)
}
