//! The TLS ClientHello as a state machine over bytes: what a proxy may know about a connection before it
//! decides where the connection goes. It knows no sockets, no clock and no keys, and it never answers: the
//! caller keeps the bytes, shows them again when there are more of them, and forwards or drops them itself.
//!
//! The one rule behind every choice here: two parties read these bytes, this crate and the server behind the
//! proxy, and a routing decision is only safe if both read the same name. Whatever two strict parsers could
//! read differently is therefore refused, and a hello that is not complete is never read as one without a name.
//!
//! ```
//! use tidegate_hello::{Limits, Progress, Reader};
//!
//! let mut reader = Reader::new(Limits::default());
//! let seen = [0x16, 0x03, 0x01]; // a peek buffer, so far
//! match reader.advance(&seen) {
//!     Ok(Progress::Hello(hello)) => println!("for {:?}", hello.server_name),
//!     Ok(Progress::NeedMore) => println!("wait, then show the longer buffer"),
//!     Err(error) => println!("refused: {error}"),
//! }
//! ```

mod cursor;
mod error;
mod extensions;
mod foreign;
mod hello;
mod lists;
mod name;
mod reader;
mod record;

pub use error::{HelloError, Part};
pub use hello::Hello;
pub use lists::{Alpn, Version, Versions};
pub use name::SniName;
pub use reader::{Limits, Progress, Reader};
