//! Bounds as a controller sets them, over those that the command line left.

use tidegate_plan::BoundSettings;
use tidegate_proxy::Bounds;

pub(super) fn bounds(own: &Bounds, told: &BoundSettings) -> Bounds {
    Bounds {
        connections: told.connections.unwrap_or(own.connections),
        connections_per_listener: told.connections_per_listener.unwrap_or(own.connections_per_listener),
        connections_per_source: told.connections_per_source.unwrap_or(own.connections_per_source),
        hello_time: told.hello_time.unwrap_or(own.hello_time),
        hello_size: told.hello_size.unwrap_or(own.hello_size),
        handshake_time: told.handshake_time.unwrap_or(own.handshake_time),
        connect_time: told.connect_time.unwrap_or(own.connect_time),
        idle_time: told.idle_time.unwrap_or(own.idle_time),
        half_open_time: told.half_open_time.unwrap_or(own.half_open_time),
        lifetime: told.lifetime.or(own.lifetime),
        udp_flows: told.udp_flows.unwrap_or(own.udp_flows),
        udp_idle_time: told.udp_idle_time.unwrap_or(own.udp_idle_time),
        header_time: told.header_time.unwrap_or(own.header_time),
        header_size: told.header_size.unwrap_or(own.header_size),
        header_count: told.header_count.unwrap_or(own.header_count),
        uri_size: told.uri_size.unwrap_or(own.uri_size),
        keep_alive_time: told.keep_alive_time.unwrap_or(own.keep_alive_time),
        body_time: told.body_time.unwrap_or(own.body_time),
        streams: told.streams.unwrap_or(own.streams),
        resets: told.resets.unwrap_or(own.resets),
        idle_upstream: told.idle_upstream.unwrap_or(own.idle_upstream),
        idle_upstream_time: told.idle_upstream_time.unwrap_or(own.idle_upstream_time),
        retry_size: told.retry_size.unwrap_or(own.retry_size),
        mirrors: told.mirrors.unwrap_or(own.mirrors),
        drain_time: told.drain_time.unwrap_or(own.drain_time),
    }
}
