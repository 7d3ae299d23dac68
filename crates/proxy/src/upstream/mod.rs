//! Where connections and flows go: which backend of a group, and which endpoint of that.

mod cycle;

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_plan::BackendHandle;

pub(crate) use self::cycle::{Cycle, deal};

/// A backend at run time.
pub(crate) struct Backend {
    pub(crate) plan: BackendHandle,
    endpoints: Vec<Arc<Endpoint>>,
}

/// One address of a backend, with what was seen of it.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
}
