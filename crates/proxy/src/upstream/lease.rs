//! A connection with an endpoint, counted for as long as it is held.

use std::ops::Deref;
use std::sync::Arc;

use super::Endpoint;

#[derive(Debug)]
pub struct Lease(Arc<Endpoint>);

impl Lease {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Self {
        endpoint.opened();
        Self(endpoint)
    }
}

impl Lease {
    #[must_use]
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.closed();
    }
}

impl Deref for Lease {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.0
    }
}
