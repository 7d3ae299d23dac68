//! The data plane for TLS, TCP and UDP: sockets, ClientHello, relay, upstream, drain, bounds, and what is to be
//! seen of them. It is told by a [`Plan`](tidegate_plan::Plan) what to do and knows nothing of where that came from.

mod control;
mod ending;
mod engine;
mod http;
mod net;
mod observe;
mod ports;
mod proxy;
mod serving;
mod settings;
mod shared;
mod snapshot;
mod sources;
mod stream_route;
mod sys;
mod tls;
mod udp;
mod upstream;
mod worker;

pub use ending::Ending;
pub use http::{ConnectionPlace, HttpConnection, HttpEngine, HttpKit, HttpWorker, Https, Rewound};
pub use net::{PipePool, Piped, owner, raise_descriptor_limit};
pub use observe::{
    AccessLog, Format as LogFormat, Recent, Refused, RequestRecord, RequestStats, Target as LogTarget,
};
pub use ports::SocketState;
pub use proxy::Proxy;
pub use settings::{Bounds, Settings};
pub use snapshot::{Chosen, Snapshot, TlsTo};
pub use tls::{Challenges, KeptCertificate, tls_words};
pub use upstream::{Backend, Endpoint, EndpointSeen, Lease};
