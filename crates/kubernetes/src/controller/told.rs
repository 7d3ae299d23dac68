//! What the data planes of a Gateway are told besides their plan: parameters that restart nothing, and their secret.

use tidegate_api::parameters::{BoundParameters, LogLevel as AskedLevel};
use tidegate_api::read::Whole;
use tidegate_api::scalar::Duration as Asked;
use tidegate_plan::{BoundSettings, DataPlaneSettings, LogLevel, SharedSecret};
use tidegate_translate::Infrastructure;

pub(super) fn settings(asked: &Infrastructure, secret: Option<SharedSecret>) -> DataPlaneSettings {
    DataPlaneSettings {
        log_level: asked.parameters.log.as_ref().and_then(|log| log.level).map(log_level),
        bounds: asked.parameters.bounds.as_ref().map(bounds).unwrap_or_default(),
        secret,
    }
}

fn log_level(asked: AskedLevel) -> LogLevel {
    match asked {
        AskedLevel::Info => LogLevel::Info,
        AskedLevel::Warning => LogLevel::Warning,
        AskedLevel::Error => LogLevel::Error,
    }
}

fn bounds(asked: &BoundParameters) -> BoundSettings {
    let time = |time: Option<Asked>| time.map(|time| time.0);
    let count = |count: Option<i64>| count.and_then(|count| usize::try_from(count).ok());
    BoundSettings {
        connections: count(asked.max_connections.map(Whole::get)),
        connections_per_listener: count(asked.max_connections_per_listener.map(Whole::get)),
        connections_per_source: count(asked.max_connections_per_source.map(Whole::get)),
        hello_time: time(asked.hello_time),
        hello_size: count(asked.hello_size.map(Whole::get)),
        handshake_time: time(asked.handshake_time),
        connect_time: time(asked.connect_time),
        idle_time: time(asked.idle_time),
        half_open_time: time(asked.half_open_time),
        lifetime: time(asked.lifetime),
        udp_flows: count(asked.max_udp_flows.map(Whole::get)),
        udp_idle_time: time(asked.udp_idle_time),
        header_time: time(asked.header_time),
        header_size: count(asked.header_size.map(Whole::get)),
        header_count: count(asked.max_headers.map(Whole::get)),
        uri_size: count(asked.uri_size.map(Whole::get)),
        keep_alive_time: time(asked.keep_alive_time),
        body_time: time(asked.body_time),
        streams: asked.max_streams.and_then(|count| u32::try_from(count.get()).ok()),
        resets: count(asked.max_resets.map(Whole::get)),
        idle_upstream: count(asked.max_idle_upstream.map(Whole::get)),
        idle_upstream_time: time(asked.idle_upstream_time),
        retry_size: count(asked.retry_size.map(Whole::get)),
        mirrors: count(asked.max_mirrors.map(Whole::get)),
        drain_time: time(asked.drain),
    }
}
