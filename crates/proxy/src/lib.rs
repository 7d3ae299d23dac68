//! The data plane for TLS, TCP and UDP: sockets, ClientHello, relay, upstream, drain, bounds, and what is to be
//! seen of them. It is told by a [`Plan`](tidegate_plan::Plan) what to do and knows nothing of where that came from.

mod ending;
mod observe;
mod serving;
mod settings;
mod snapshot;
mod upstream;

pub use ending::Ending;
pub use observe::{Format as LogFormat, Recent, Refused, Target as LogTarget};
pub use settings::{Bounds, Settings};
pub use upstream::EndpointSeen;
