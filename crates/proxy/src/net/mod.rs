//! Sockets: how they are opened, who else has them, and how the engine reads and writes them.

mod descriptors;
mod listen;
mod owner;
mod pipes;
mod tcp;

pub(crate) use self::descriptors::descriptor_limit;
pub use self::descriptors::raise_descriptor_limit;
pub(crate) use self::listen::{has_ipv6, open_tcp, open_udp};
pub use self::owner::owner;
pub use self::pipes::{PipePool, Piped};
pub(crate) use self::tcp::{Dialer, TcpStream, accept};
