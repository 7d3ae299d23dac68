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
        drain_time: told.drain_time.unwrap_or(own.drain_time),
        ..own.clone()
    }
}
