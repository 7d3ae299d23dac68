//! `sendmmsg`: many datagrams in one call, and neighbours of one size to one receiver as a single message that the
//! kernel, or the network card, cuts apart.

use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, zeroed};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::SendFlags;

use super::address::{RawAddress, in_addr, in6_addr};
use super::{BATCH, CONTROL, Control, INTEGER, PACKET_INFO_V4, PACKET_INFO_V6};

/// Segments of one message: what every kernel that has segmentation takes.
const SEGMENTS: usize = 64;
/// Bytes of one message, below what either family can carry.
const MESSAGE: usize = 65_000;

/// Datagrams about to be sent from one socket.
pub(crate) struct Outbox<'b> {
    messages: [Message; BATCH],
    count: usize,
    parts: [IoSlice<'b>; BATCH],
    part_count: usize,
    /// Whether runs of equal datagrams are put into one message.
    pub(crate) runs: bool,
}

#[derive(Clone, Copy)]
struct Message {
    to: Option<SocketAddr>,
    from: Option<IpAddr>,
    /// The size of each datagram in it but the last.
    segment: usize,
    len: usize,
    first_part: usize,
    parts: usize,
}

/// What became of an outbox.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
    /// Datagrams that the kernel did not take.
    pub(crate) failed: u64,
    /// Why the first of these was not taken.
    pub(crate) error: Option<io::Error>,
    /// The way there cannot carry runs, so they were sent one by one.
    pub(crate) runs_refused: bool,
}

impl Sent {
    fn took(&mut self, message: &Message) {
        self.datagrams += message.datagrams();
        self.bytes += message.len as u64;
    }
}

const NOTHING: Message = Message { to: None, from: None, segment: 0, len: 0, first_part: 0, parts: 0 };

impl Message {
    fn datagrams(&self) -> u64 {
        self.len.div_ceil(self.segment.max(1)).max(1) as u64
    }

    /// Only a run whose datagrams are all of one size so far can grow.
    fn takes(&self, to: Option<SocketAddr>, from: Option<IpAddr>, len: usize) -> bool {
        len > 0
            && len <= self.segment
            && self.parts < SEGMENTS
            && self.len == self.parts * self.segment
            && self.len + len <= MESSAGE
            && self.to == to
            && self.from == from
    }
}

impl<'b> Outbox<'b> {
    pub(crate) fn new(runs: bool) -> Self {
        Self { messages: [NOTHING; BATCH], count: 0, parts: [IoSlice::new(&[]); BATCH], part_count: 0, runs }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.part_count == BATCH
    }

    /// Adds a datagram, or several of size `segment` in a row. `to` is for sockets that are not connected, `from`
    /// the address it shall leave from where the binding of the socket does not say. A full outbox must be sent first.
    pub(crate) fn push(
        &mut self,
        to: Option<SocketAddr>,
        from: Option<IpAddr>,
        segment: Option<usize>,
        bytes: &'b [u8],
    ) {
        assert!(!self.is_full(), "a full outbox is sent before more is added");
        self.parts[self.part_count] = IoSlice::new(bytes);
        let grows = self.runs && segment.is_none();
        match self.messages[..self.count].last_mut() {
            Some(last) if grows && last.takes(to, from, bytes.len()) => {
                last.parts += 1;
                last.len += bytes.len();
            }
            _ => {
                let segment = segment.unwrap_or(bytes.len());
                let first_part = self.part_count;
                self.messages[self.count] =
                    Message { to, from, segment, len: bytes.len(), first_part, parts: 1 };
                self.count += 1;
            }
        }
        self.part_count += 1;
    }

    /// Sends everything and leaves the outbox empty. A datagram that cannot be sent does not hold up the others.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> Sent {
        let mut sent = Sent::default();
        let mut next = 0;
        while next < self.count {
            let rest = &self.messages[next..self.count];
            match transmit(socket, rest, &self.parts) {
                Ok(count) => {
                    for message in &rest[..count] {
                        sent.took(message);
                    }
                    next += count;
                }
                Err(error) => {
                    let message = rest[0];
                    if message.datagrams() > 1 && is_about_segments(&error) {
                        sent.runs_refused = true;
                        send_apart(socket, message, &self.parts, &mut sent);
                    } else {
                        sent.failed += message.datagrams();
                        sent.error.get_or_insert(error);
                    }
                    next += 1;
                }
            }
        }
        self.count = 0;
        self.part_count = 0;
        sent
    }
}

/// Larger than the path's datagrams, no checksum by the card, or a kernel without segmentation.
fn is_about_segments(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
    )
}

fn send_apart(socket: BorrowedFd<'_>, message: Message, parts: &[IoSlice<'_>], sent: &mut Sent) {
    let parts = &parts[message.first_part..message.first_part + message.parts];
    for bytes in parts.iter().flat_map(|part| part.chunks(message.segment)) {
        let single = Message { segment: bytes.len(), len: bytes.len(), first_part: 0, parts: 1, ..message };
        match transmit(socket, &[single], &[IoSlice::new(bytes)]) {
            Ok(_) => sent.took(&single),
            Err(error) => {
                sent.failed += 1;
                sent.error.get_or_insert(error);
            }
        }
    }
}

/// One system call. An error is about the first message.
fn transmit(socket: BorrowedFd<'_>, messages: &[Message], parts: &[IoSlice<'_>]) -> io::Result<usize> {
    if let [message @ Message { to, from: None, first_part, parts: 1, .. }] = messages
        && message.datagrams() == 1
    {
        // The most frequent cases of all: one datagram of a flow to its endpoint, or one answer. This is the shortest
        // way.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let bytes = &parts[*first_part];
        rustix::io::retry_on_intr(|| match to {
            None => rustix::net::send(socket, bytes, flags),
            Some(to) => rustix::net::sendto(socket, bytes, flags, to),
        })?;
        return Ok(1);
    }
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
    let mut addresses = [const { MaybeUninit::<RawAddress>::uninit() }; BATCH];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; BATCH];
    let messages = &messages[..messages.len().min(BATCH)];
    for (index, message) in messages.iter().enumerate() {
        // SAFETY: zero is a value of every field.
        let mut header: libc::msghdr = unsafe { zeroed() };
        if let Some(to) = message.to {
            let (address, length) = RawAddress::new(to);
            header.msg_name = (&raw mut *addresses[index].write(address)).cast();
            header.msg_namelen = length;
        }
        let parts = &parts[message.first_part..message.first_part + message.parts];
        // An IoSlice is an iovec by the standard library's word, and sending does not write to it.
        header.msg_iov = parts.as_ptr().cast_mut().cast();
        header.msg_iovlen = parts.len() as _;
        let segmented = message.datagrams() > 1;
        if message.from.is_some() || segmented {
            header.msg_control = (&raw mut *controls[index].write(Control([0; CONTROL]))).cast();
            header.msg_controllen = CONTROL as _;
            // SAFETY: the control is zeroed, as long as was said, and large enough for both messages.
            header.msg_controllen =
                unsafe { write_control(&header, message.from, segmented.then_some(message.segment)) } as _;
        }
        headers[index].write(libc::mmsghdr { msg_hdr: header, msg_len: 0 });
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    loop {
        // SAFETY: as many headers as messages are written. They point to addresses, controls and parts that outlive
        // the call, with their true sizes.
        let count = unsafe {
            libc::syscall(
                libc::SYS_sendmmsg,
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                messages.len() as libc::c_uint,
                flags,
            )
        };
        match usize::try_from(count) {
            Ok(count) => return Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Writes the control messages and gives their length.
///
/// SAFETY: the header must point to a zeroed [`Control`].
unsafe fn write_control(header: &libc::msghdr, from: Option<IpAddr>, segment: Option<usize>) -> usize {
    let mut length = 0;
    // SAFETY: `Control` has room for the larger packet info and an integer, so CMSG_FIRSTHDR and CMSG_NXTHDR give
    // places inside of it; CMSG_NXTHDR reads the length of the message before, which is written by then.
    unsafe {
        let mut place = libc::CMSG_FIRSTHDR(header);
        let mut put = |level, kind, size: usize, space: usize, data: *const u8| {
            (*place).cmsg_level = level;
            (*place).cmsg_type = kind;
            (*place).cmsg_len = libc::CMSG_LEN(size as u32) as _;
            libc::CMSG_DATA(place).copy_from_nonoverlapping(data, size);
            place = libc::CMSG_NXTHDR(header, place);
            length += space;
        };
        match from {
            Some(IpAddr::V4(from)) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: in_addr(from),
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                let size = size_of_val(&info);
                put(libc::IPPROTO_IP, libc::IP_PKTINFO, size, PACKET_INFO_V4, (&raw const info).cast());
            }
            Some(IpAddr::V6(from)) => {
                let info = libc::in6_pktinfo { ipi6_addr: in6_addr(from), ipi6_ifindex: 0 };
                let size = size_of_val(&info);
                put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size, PACKET_INFO_V6, (&raw const info).cast());
            }
            None => {}
        }
        if let Some(segment) = segment {
            let segment = segment as u16;
            put(libc::SOL_UDP, libc::UDP_SEGMENT, size_of::<u16>(), INTEGER, (&raw const segment).cast());
        }
    }
    length
}
