//! What a data plane must be able to do to carry out a fragment.
//!
//! A proxy of another version refuses a fragment that needs what it does not have, instead of ignoring a
//! field: an unknown client-certificate rule must not fail open.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    Http,
    Grpc,
    TlsPassthrough,
    TlsTerminate,
    Tcp,
    Udp,
    ClientCertificates,
    BackendTls,
    BackendClientCertificate,
    Mirror,
    Cors,
    ExternalAuth,
    Retry,
    SessionPersistence,
    RetryBudget,
}
