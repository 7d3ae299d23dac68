//! How a data plane serves: what it writes down, how it answers, how much is too much.

use super::{LONGEST, is_network};
use crate::read::{List, Place, Whole, record, words};
use crate::scalar::{Duration, quote};

record! {
    pub struct LogParameters {
        /// The least important lines that are written.
        pub level: Option<LogLevel> = "level",
        pub format: Option<LogForm> = "format",
        /// A line for every connection and request.
        pub access: Option<bool> = "access",
    }
}

words! {
    pub enum LogLevel {
        Info = "Info",
        Warning = "Warning",
        Error = "Error",
    }
}

words! {
    pub enum LogForm {
        Text = "Text",
        Json = "JSON",
    }
}

record! {
    /// How requests are answered.
    pub struct HttpParameters {
        /// Networks of proxies in front, which are believed when they say who a client is.
        pub trusted_proxies: Option<List<String, 0, 64>> = "trustedProxies",
        /// Whether an answer of our own says why.
        pub error_reasons: Option<bool> = "errorReasons",
    }
    rules: [trusted_proxies_are_networks("trustedProxies[*]")]
}

record! {
    /// The bounds of `tidegate run`, under the names that its flags have there.
    pub struct BoundParameters {
        pub max_connections: Option<Count> = "maxConnections",
        pub max_connections_per_listener: Option<Count> = "maxConnectionsPerListener",
        pub max_connections_per_source: Option<Count> = "maxConnectionsPerSource",
        pub hello_time: Option<Duration> = "helloTime",
        pub hello_size: Option<Whole<512, 1_048_576>> = "helloSize",
        pub handshake_time: Option<Duration> = "handshakeTime",
        pub connect_time: Option<Duration> = "connectTime",
        pub idle_time: Option<Duration> = "idleTime",
        pub half_open_time: Option<Duration> = "halfOpenTime",
        pub lifetime: Option<Duration> = "lifetime",
        pub max_udp_flows: Option<Count> = "maxUDPFlows",
        pub udp_idle_time: Option<Duration> = "udpIdleTime",
        pub header_time: Option<Duration> = "headerTime",
        pub header_size: Option<Whole<1024, 1_048_576>> = "headerSize",
        pub max_headers: Option<Whole<1, 10_000>> = "maxHeaders",
        pub uri_size: Option<Whole<64, 1_048_576>> = "uriSize",
        pub keep_alive_time: Option<Duration> = "keepAliveTime",
        pub body_time: Option<Duration> = "bodyTime",
        pub max_streams: Option<Whole<1, 100_000>> = "maxStreams",
        pub max_resets: Option<Whole<1, 1_000_000>> = "maxResets",
        pub max_idle_upstream: Option<Whole<0, 100_000>> = "maxIdleUpstream",
        pub idle_upstream_time: Option<Duration> = "idleUpstreamTime",
        pub retry_size: Option<Whole<0, 16_777_216>> = "retrySize",
        pub max_mirrors: Option<Whole<0, 1_000_000>> = "maxMirrors",
        pub drain: Option<Duration> = "drain",
    }
    rules: [drain_is_bounded("drain")]
}

pub type Count = Whole<1, 100_000_000>;

fn trusted_proxies_are_networks(http: &HttpParameters, place: &mut Place<'_>) {
    for (index, range) in http.trusted_proxies.iter().flatten().enumerate() {
        if !is_network(range) {
            place.wrong(
                &format!("trustedProxies[{index}]"),
                format!("{} is not a range of addresses", quote(range)),
                "write one such as 192.0.2.0/24 or 2001:db8::/32",
            );
        }
    }
}

fn drain_is_bounded(bounds: &BoundParameters, place: &mut Place<'_>) {
    if bounds.drain.is_some_and(|drain| drain.0 > LONGEST) {
        place.wrong(
            "drain",
            "no Pod waits longer than an hour before it ends",
            "write a shorter time, such as 30s",
        );
    }
}
