//! How much a controller lets data planes ask of it.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time of data planes that have shown their certificate.
    pub connections: usize,
    /// Connections at a time of those that have none yet.
    pub strangers: usize,
    /// What those have to enrol.
    pub stranger_time: Duration,
    /// Data planes of one Gateway that follow at a time.
    pub streams_per_gateway: usize,
    /// Enrolments in a second, over all data planes, and how many may come at once after a quiet time.
    pub enrolments_per_second: u32,
    pub enrolments_at_once: u32,
    /// From accept to the end of the handshake, and from the beginning of a stream to all that a data plane says first.
    pub hello_time: Duration,
    /// A data plane that has not answered a batch for so long is reported.
    pub answer_time: Duration,
    /// Items that a data plane may say it has from before.
    pub held_items: usize,
    /// How long the certificate of a data plane is good. It renews it after two thirds.
    pub proxy_certificate: Duration,
    /// One that has run out is let pass for so long on a stream that lives, for clocks that differ and renewals that
    /// take a second try.
    pub grace: Duration,
    /// How long the controller's own is good, which renews itself.
    pub server_certificate: Duration,
    /// Between two pings, and how long an answer to one may take.
    pub ping_interval: Duration,
    pub ping_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            strangers: 256,
            stranger_time: Duration::from_secs(30),
            streams_per_gateway: 512,
            enrolments_per_second: 20,
            enrolments_at_once: 200,
            hello_time: Duration::from_secs(10),
            answer_time: Duration::from_secs(30),
            held_items: 1_000_000,
            proxy_certificate: Duration::from_secs(3600),
            grace: Duration::from_secs(60),
            server_certificate: Duration::from_secs(24 * 3600),
            ping_interval: Duration::from_secs(10),
            ping_time: Duration::from_secs(10),
        }
    }
}
