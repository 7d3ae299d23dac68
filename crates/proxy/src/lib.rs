//! The data plane for TLS, TCP and UDP: sockets, ClientHello, relay, upstream, drain, bounds, and what is to be
//! seen of them. It is told by a [`Plan`](tidegate_plan::Plan) what to do and knows nothing of where that came from.

mod ending;
mod observe;
mod serving;
mod settings;
mod snapshot;
mod sys;
mod udp;
mod upstream;

pub use ending::Ending;
pub use settings::{Bounds, Settings};
