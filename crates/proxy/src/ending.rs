//! Why a connection, flow or request ended: one closed set for the log, the metrics and the journal.

use std::fmt;

use tidegate_plan::Reason;

macro_rules! endings {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $text:literal;)+) => {
        /// Why a connection, flow or request ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Ending {
            /// The plan says no.
            Refused(Reason),
            $($(#[$doc])* $variant,)+
        }

        impl Ending {
            /// Every ending that is not a reason of the plan.
            pub const OWN: &[Self] = &[$(Self::$variant,)+];

            /// How many endings there are, those of the plan included.
            pub const COUNT: usize = Reason::ALL.len() + Self::OWN.len();

            /// Every ending, each at its [`index`](Self::index).
            pub fn all() -> impl Iterator<Item = Self> {
                Reason::ALL.iter().copied().map(Self::Refused).chain(Self::OWN.iter().copied())
            }

            /// Its place among all, below [`COUNT`](Self::COUNT).
            #[must_use]
            pub const fn index(self) -> usize {
                enum Own { $($variant,)+ }
                match self {
                    Self::Refused(reason) => reason as usize,
                    $(Self::$variant => Reason::ALL.len() + Own::$variant as usize,)+
                }
            }

            /// The name for machines: metric labels, JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::Refused(reason) => reason.as_str(),
                    $(Self::$variant => $name,)+
                }
            }

            /// The same for people.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    Self::Refused(reason) => reason.text(),
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

endings! {
    /// Both directions ended in order.
    Done = "done", "both sides had ended";
    ClientReset = "client_reset", "the client reset the connection";
    BackendReset = "backend_reset", "the backend reset the connection";
    ClientGone = "client_gone", "the client went away before a backend was asked";
    HelloInvalid = "hello_invalid", "the client's first bytes are no ClientHello that can be routed by";
    HelloTimeout = "hello_timeout", "the ClientHello was not complete in time";
    HandshakeFailed = "handshake_failed", "the TLS handshake with the client failed";
    HandshakeTimeout = "handshake_timeout", "the TLS handshake with the client was not complete in time";
    ClientTls = "client_tls", "the client broke the rules of TLS";
    ConnectFailed = "connect_failed", "no endpoint of the backend accepted the connection";
    ConnectTimeout = "connect_timeout", "no endpoint of the backend answered in time";
    BackendHandshakeFailed = "backend_handshake_failed", "the TLS handshake with the backend failed";
    BackendTls = "backend_tls", "the backend broke the rules of TLS";
    IdleTimeout = "idle_timeout", "no bytes in either direction for too long";
    HalfOpenTimeout = "half_open_timeout", "one side had ended and the other sent nothing for too long";
    LifetimeOver = "lifetime_over", "the connection lived for as long as any may";
    TooManyConnections = "too_many_connections", "as many connections as there may be in all";
    TooManyForListener = "too_many_for_listener", "as many connections as the listener may have";
    TooManyForSource = "too_many_for_source", "as many connections as one address may have";
    TooManyFlows = "too_many_flows", "as many datagram flows as there may be, none of them idle";
    FlowIdle = "flow_idle", "no datagrams in either direction for a while";
    FlowEvicted = "flow_evicted", "the idlest flow made way for a new one";
    OutOfResources = "out_of_resources", "the machine had no socket, port or memory left for it";
    Drained = "drained", "its listener or route was removed and its time to end was over";
    Shutdown = "shutdown", "Tidegate was told to stop and its time to end was over";
    HeaderTimeout = "header_timeout", "the head of a request was not complete in time";
    RequestInvalid = "request_invalid", "the request is not HTTP that can be served";
    RequestTooLarge = "request_too_large", "the head of the request is larger than any may be";
    BodyTimeout = "body_timeout", "the client sent nothing of its body for too long";
    RequestTimeout = "request_timeout", "the time that the rule gives the request was over";
    BackendTimeout = "backend_timeout", "the backend did not answer in the time that the rule gives it";
    BackendInvalid = "backend_invalid", "the backend's answer is not HTTP that can be passed on";
    Answered = "answered", "answered without a backend, as the rule says";
    Denied = "denied", "the server that is asked for permission said no";
    AuthFailed = "auth_failed", "the server that is asked for permission could not be asked";
    Upgraded = "upgraded", "the connection went on as another protocol and ended";
    TooManyMirrors = "too_many_mirrors", "as many copies of requests under way as there may be";
    TooManyRetries = "too_many_retries", "the retry budget of the backend was used up";
    Panicked = "panicked", "a mistake in Tidegate ended it";
}

impl Ending {
    /// Why the plan says no, where it does.
    #[must_use]
    pub const fn reason(self) -> Option<Reason> {
        match self {
            Self::Refused(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether nothing was carried because somebody said no: the plan, a bound, or the client's own first bytes.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::HelloInvalid
                | Self::HelloTimeout
                | Self::HandshakeFailed
                | Self::HandshakeTimeout
                | Self::ConnectFailed
                | Self::ConnectTimeout
                | Self::BackendHandshakeFailed
                | Self::TooManyConnections
                | Self::TooManyForListener
                | Self::TooManyForSource
                | Self::TooManyFlows
                | Self::HeaderTimeout
                | Self::RequestInvalid
                | Self::RequestTooLarge
                | Self::BodyTimeout
                | Self::RequestTimeout
                | Self::BackendTimeout
                | Self::BackendInvalid
                | Self::Denied
                | Self::AuthFailed
                | Self::OutOfResources
        )
    }
}

impl From<Reason> for Ending {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_is_at_its_index_and_has_a_name_of_its_own() {
        let all: Vec<_> = Ending::all().collect();
        assert_eq!(all.len(), Ending::COUNT);
        assert!(all.iter().enumerate().all(|(index, ending)| ending.index() == index));
        let names: std::collections::HashSet<_> = all.iter().map(|ending| ending.as_str()).collect();
        assert_eq!(names.len(), Ending::COUNT);
    }
}
