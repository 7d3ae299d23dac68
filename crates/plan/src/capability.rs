//! What a data plane must be able to do to carry out a fragment.
//!
//! A proxy of another version refuses a fragment that needs what it does not have, instead of ignoring a
//! field: an unknown client-certificate rule must not fail open.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! capabilities {
    ($($variant:ident = $name:literal,)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Capability { $(#[serde(rename = $name)] $variant,)+ }

        impl Capability {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name by which controllers and data planes of all versions know it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

capabilities! {
    Http = "http",
    Grpc = "grpc",
    TlsPassthrough = "tls-passthrough",
    TlsTerminate = "tls-terminate",
    Tcp = "tcp",
    Udp = "udp",
    ClientCertificates = "client-certificates",
    BackendTls = "backend-tls",
    BackendClientCertificate = "backend-client-certificate",
    Mirror = "mirror",
    Cors = "cors",
    ExternalAuth = "external-auth",
    Retry = "retry",
    SessionPersistence = "session-persistence",
    RetryBudget = "retry-budget",
    AcmeChallenges = "acme-challenges",
    Alpn = "alpn",
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
