//! What can be measured, one module each.

pub(crate) mod bulk;
pub(crate) mod conn;
pub(crate) mod crypto;
pub(crate) mod http2;
pub(crate) mod idle;
pub(crate) mod mem;
mod opening;
pub(crate) mod ping_pong;
pub(crate) mod probe;
pub(crate) mod reload;
pub(crate) mod udp;

use std::time::Duration;

/// Size of the buffer that clients read into.
const BUFFER: usize = 64 << 10;
/// How long to wait for events before looking at the clock.
const LOOK_UP: Duration = Duration::from_millis(20);
