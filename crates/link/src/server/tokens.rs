//! Whoever can tell by a token which data plane presents it.

use std::future::Future;

use crate::ProxyIdentity;

/// In a cluster, a token is that of the data plane's ServiceAccount, and a TokenReview tells whose it is.
pub trait Tokens: Send + Sync + 'static {
    fn review(&self, token: &str) -> impl Future<Output = Result<ProxyIdentity, Denied>> + Send;
}

/// The words of both are sent to the data plane, which logs them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The token is no good, or says nothing about a data plane.
    #[error("{0}")]
    Refused(String),
    /// Nobody could say for now; the data plane comes back.
    #[error("{0}")]
    Unavailable(String),
}
