//! What holds for a whole data plane and is not in its plan.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Threads that serve, each with sockets of its own.
    pub workers: usize,
    /// Where listeners without addresses of their own are bound.
    pub bind: Vec<IpAddr>,
    /// Added to the port of every listener.
    pub port_offset: u16,
    pub bounds: Bounds,
    /// Where Tidegate itself answers: never a backend, whatever a manifest says.
    pub forbidden: Vec<SocketAddr>,
    /// The zone of this machine; endpoints in it are taken first where a backend prefers close ones.
    pub zone: Option<Arc<str>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            bind: vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            port_offset: 0,
            bounds: Bounds::default(),
            forbidden: Vec::new(),
            zone: None,
        }
    }
}

/// How much is too much. Each has a metric and an [`Ending`](crate::Ending) that show when it bites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at a time, in all.
    pub connections: usize,
    pub connections_per_listener: usize,
    /// From one address, counted over all listeners.
    pub connections_per_source: usize,
    /// From accept to the end of the ClientHello.
    pub hello_time: Duration,
    /// Bytes of a ClientHello.
    pub hello_size: usize,
    /// From the end of the ClientHello to the end of the handshake with the client.
    pub handshake_time: Duration,
    /// All attempts together, the handshake with the backend included.
    pub connect_time: Duration,
    /// Without a byte in either direction.
    pub idle_time: Duration,
    /// Without a byte after one side has ended its direction.
    pub half_open_time: Duration,
    /// `None`: a connection may live for ever.
    pub lifetime: Option<Duration>,
    /// Datagram flows at a time, in all.
    pub udp_flows: usize,
    /// Without a datagram in either direction.
    pub udp_idle_time: Duration,
    /// From the first byte of a request to the end of its head, and for the first request from the handshake on.
    pub header_time: Duration,
    /// Bytes of the head of a request.
    pub header_size: usize,
    /// Header lines of a request.
    pub header_count: usize,
    /// Bytes of a request's path and query.
    pub uri_size: usize,
    /// Without a request on a connection.
    pub keep_alive_time: Duration,
    /// Without a byte of a request's body that the backend waits for.
    pub body_time: Duration,
    /// Requests at a time on one HTTP/2 connection of a client.
    pub streams: u32,
    /// Streams of one HTTP/2 connection that were reset, by the client or because of its mistakes, before the
    /// connection is ended.
    pub resets: usize,
    /// Connections to one endpoint that a worker keeps without using them.
    pub idle_upstream: usize,
    /// How long it keeps one.
    pub idle_upstream_time: Duration,
    /// Bytes of a request's body that are kept for another try.
    pub retry_size: usize,
    /// Copies of requests under way at a time, for each worker.
    pub mirrors: usize,
    /// What a removed route or listener, or the end of the process, leaves to connections.
    pub drain_time: Duration,
}

impl Bounds {
    /// The same for a process that may have so many descriptors. A flow takes one, and anybody can begin flows: those
    /// have a quarter, so that there are always some for connections and for whoever asks what goes on.
    #[must_use]
    pub fn within(mut self, descriptors: usize) -> Self {
        self.udp_flows = self.udp_flows.min(descriptors / 4).max(1);
        self
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 100_000,
            connections_per_listener: 100_000,
            connections_per_source: 20_000,
            hello_time: Duration::from_secs(10),
            hello_size: 64 * 1024,
            handshake_time: Duration::from_secs(10),
            connect_time: Duration::from_secs(5),
            idle_time: Duration::from_secs(3600),
            half_open_time: Duration::from_secs(300),
            lifetime: None,
            udp_flows: 100_000,
            udp_idle_time: Duration::from_secs(60),
            header_time: Duration::from_secs(10),
            header_size: 64 * 1024,
            header_count: 100,
            uri_size: 16 * 1024,
            keep_alive_time: Duration::from_secs(120),
            body_time: Duration::from_secs(60),
            streams: 100,
            resets: 100,
            idle_upstream: 256,
            idle_upstream_time: Duration::from_secs(60),
            retry_size: 64 * 1024,
            mirrors: 256,
            drain_time: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_leave_descriptors_for_others() {
        assert_eq!(Bounds::default().within(1024).udp_flows, 256);
        assert_eq!(Bounds::default().within(10_000_000), Bounds::default());
        assert_eq!(Bounds::default().within(0).udp_flows, 1);
    }
}
