//! Why traffic is not carried: one closed set for the log, the metrics, the journal and `explain`.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $text:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason { $($(#[$doc])* #[serde(rename = $name)] $variant,)+ }

        impl Reason {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name for machines: metric labels, JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The same for people.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

reasons! {
    NoListener = "no_listener", "no listener on this address and port";
    NotTls = "not_tls", "the listener expects TLS and the client does not speak it";
    NoSni = "no_sni", "the client named no server and no listener takes connections without a name";
    NoListenerForSni = "no_listener_for_sni", "no listener of this port takes this server name";
    NoListenerForHost = "no_listener_for_host", "no listener of this port takes this host";
    NoRoute = "no_route", "no route of the listener takes this name";
    NoMatchingRule = "no_matching_rule", "no rule of the routes for this host matches the request";
    Misdirected = "misdirected", "the request's host belongs to another listener than the connection's server name";
    NoBackends = "no_backends", "the rule has no backends";
    NoWeight = "no_weight", "every backend of the rule has weight 0";
    BackendNotFound = "backend_not_found", "the backend does not exist or lacks this port";
    BackendNotPermitted = "backend_not_permitted", "no ReferenceGrant permits the reference to the backend";
    BackendKindUnknown = "backend_kind_unknown", "the backend is of a kind that is not supported";
    BackendProtocolUnsupported = "backend_protocol_unsupported", "the backend's appProtocol is not supported";
    NoEndpoints = "no_endpoints", "the backend has no endpoints";
    PolicyInvalid = "policy_invalid", "the backend's TLS policy cannot be followed";
    NoCertificate = "no_certificate", "the listener has no usable certificate";
    NoCommonProtocol = "no_common_protocol", "the client offers only protocols that the listener does not speak";
    NoClientCa = "no_client_ca", "the listener has no usable CA to check client certificates with";
    FilterUnsupported = "filter_unsupported", "the rule has a filter that is not supported";
    FilterInvalid = "filter_invalid", "the rule has a filter that cannot be carried out";
    ListenerInvalid = "listener_invalid", "the listener is not valid as written";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
