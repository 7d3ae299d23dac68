//! `recvmmsg`: many datagrams into one block of memory that is there for good.

use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, ptr};

use rustix::net::RecvFlags;

use super::address::{RawAddress, SPACE, ipv4, ipv6};
use super::{BATCH, CONTROL, Control};

/// Places for datagrams, each large enough for a whole run of them. Pages that were never written cost nothing.
pub(crate) struct Batch {
    bytes: Box<[u8]>,
    size: usize,
    arrived: Box<[Datagram]>,
}

/// What came into one place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Datagram {
    pub(crate) len: usize,
    /// Not asked for on connected sockets.
    pub(crate) peer: Option<SocketAddr>,
    /// The address it was sent to, where the socket tells.
    pub(crate) local: Option<IpAddr>,
    /// Several datagrams of this size in a row, only the last of which may be shorter.
    pub(crate) segment: Option<usize>,
    /// It was larger than its place: the rest is lost.
    pub(crate) cut: bool,
}

impl Datagram {
    /// How many datagrams it is.
    pub(crate) fn count(&self) -> u64 {
        self.segment.map_or(1, |segment| self.len.div_ceil(segment) as u64)
    }
}

/// Whether senders are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    Wanted,
    /// A connected socket has one sender, who is known.
    Known,
}

/// Places that all started at the same offset in a page would fight for the same lines of the cache.
const SKEW: usize = 192;

impl Batch {
    /// At most [`BATCH`] places of `size` bytes.
    pub(crate) fn new(places: usize, size: usize) -> Self {
        assert!(places <= BATCH, "no system call takes more");
        let bytes = vec![0; places * (size + SKEW)].into_boxed_slice();
        Self { bytes, size, arrived: vec![Datagram::default(); places].into_boxed_slice() }
    }

    pub(crate) fn places(&self) -> usize {
        self.arrived.len()
    }

    /// Reads into the places from `first`, at most `most` messages; 0: nothing waits. Never blocks.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        first: usize,
        most: usize,
        names: Names,
    ) -> io::Result<usize> {
        let most = most.min(self.places().saturating_sub(first));
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        let mut addresses = [const { MaybeUninit::<RawAddress>::uninit() }; BATCH];
        let mut controls = [const { MaybeUninit::<Control>::uninit() }; BATCH];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; BATCH];
        let stride = self.size + SKEW;
        let places = self.bytes.chunks_exact_mut(stride).skip(first).take(most);
        for (index, place) in places.enumerate() {
            let vector = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: self.size };
            // SAFETY: zero is a value of every field.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            if names == Names::Wanted {
                header.msg_name = addresses[index].as_mut_ptr().cast();
                header.msg_namelen = SPACE;
            }
            header.msg_iov = vectors[index].write(vector);
            header.msg_iovlen = 1;
            header.msg_control = controls[index].as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
            headers[index].write(libc::mmsghdr { msg_hdr: header, msg_len: 0 });
        }
        let count = loop {
            // SAFETY: the first `most` headers are written. Each points to one place of `bytes`, to its own address
            // and control, which all outlive the call, with their true sizes.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_recvmmsg,
                    socket.as_raw_fd(),
                    headers.as_mut_ptr(),
                    most as libc::c_uint,
                    libc::MSG_DONTWAIT,
                    ptr::null_mut::<libc::timespec>(),
                )
            };
            match usize::try_from(count) {
                Ok(count) => break count,
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                    error => return Err(error),
                },
            }
        };
        for index in 0..count {
            // SAFETY: these headers were written above and filled in by the kernel.
            let header = unsafe { headers[index].assume_init_ref() };
            let peer = (names == Names::Wanted).then(|| {
                // SAFETY: the kernel has written `msg_namelen` bytes of the address.
                unsafe { (*addresses[index].as_ptr()).read(header.msg_hdr.msg_namelen) }
            });
            let mut datagram = Datagram {
                len: header.msg_len as usize,
                peer: peer.flatten(),
                cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                ..Datagram::default()
            };
            // SAFETY: the kernel has filled in the header and the control it points to.
            unsafe { read_control(&header.msg_hdr, &mut datagram) };
            self.arrived[first + index] = datagram;
        }
        Ok(count)
    }

    /// Reads one datagram from a connected socket that receives no runs; 0: nothing waits. Where no more than one is
    /// likely to wait this is the shorter way into the kernel.
    pub(crate) fn receive_one(&mut self, socket: BorrowedFd<'_>, place: usize) -> io::Result<usize> {
        let start = place * (self.size + SKEW);
        let bytes = &mut self.bytes[start..start + self.size];
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        match rustix::io::retry_on_intr(|| rustix::net::recv(socket, &mut *bytes, flags)) {
            Ok((len, whole)) => {
                self.arrived[place] = Datagram { len, cut: whole > len, ..Datagram::default() };
                Ok(1)
            }
            Err(rustix::io::Errno::AGAIN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// What is in a place, as of the last read into it.
    pub(crate) fn datagram(&self, place: usize) -> &Datagram {
        &self.arrived[place]
    }

    pub(crate) fn bytes(&self, place: usize) -> &[u8] {
        let start = place * (self.size + SKEW);
        &self.bytes[start..start + self.arrived[place].len]
    }
}

/// SAFETY: the header's control must be as `recvmmsg` left it.
unsafe fn read_control(header: &libc::msghdr, datagram: &mut Datagram) {
    // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR stay within what the header says was written, and the kernel writes
    // whole control messages. They may be unaligned, and are read as such.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = next.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (message.cmsg_level, message.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    // Of a broadcast this is the address of the machine, from which an answer can come.
                    datagram.local = Some(ipv4(info.ipi_spec_dst).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    datagram.local = Some(ipv6(info.ipi6_addr).into());
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = usize::try_from(data.cast::<libc::c_int>().read_unaligned());
                    datagram.segment = size.ok().filter(|size| (1..datagram.len).contains(size));
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(header, message);
        }
    }
}
