//! What can be said to `proxy`.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidegate_http::Options as HttpOptions;
use tidegate_http::networks::Network;
use tidegate_proxy::{Bounds, Settings};

use crate::arguments::run::{ADMIN, time};
use crate::arguments::{AccessLog, LogFormat};

pub(crate) const PROXY_EXAMPLES: &str = "\
Examples:
  tidegate proxy --controller 10.96.0.7:9443 --ca /etc/tidegate/ca.crt --token /run/secrets/token --name edge-7d4-x2

The controller writes this command into the Pods of a Gateway; docs/link.md tells how the two talk.

Signals: TERM and INT take readiness away, wait for --pre-stop-delay, drain and end; a second one ends at once. HUP
reopens the access log.

Exit status: 0 drained and ended, 2 it could not start, 130 or 143 ended at once by a second signal.";

#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// Where the controller is; an address, so that no DNS is needed
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) controller: SocketAddr,
    /// CAs that the controller is verified with, PEM; read again for each connection
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: PathBuf,
    /// The token that says whose data plane this is; read again for each certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) token: PathBuf,
    /// The name of this data plane: its Pod's
    #[arg(long, value_name = "POD")]
    pub(crate) name: String,
    /// Where health and metrics are told to everybody
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:9901")]
    pub(crate) health: SocketAddr,
    /// Where all the rest is told, and the same
    #[arg(long, value_name = "ADDRESS", default_value = ADMIN)]
    pub(crate) admin: SocketAddr,
    /// A folder that keeps the last plan, without keys, for a start without a controller [default: none]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// How long to go on accepting after SIGTERM, while others learn that this is not ready any more
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub(crate) pre_stop_delay: Duration,
    /// What connections are left when their route or listener is removed, or at the end, unless the controller says
    /// otherwise [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    drain: Option<Duration>,
    /// Threads that serve [default: one for each core]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// An address for listeners whose Gateway names none; may be repeated [default: 0.0.0.0 and ::]
    #[arg(long, value_name = "IP")]
    bind: Vec<IpAddr>,
    /// Where a line for each connection and flow goes; `-` is standard output
    #[arg(long, value_name = "FILE|-|off", default_value = "-")]
    pub(crate) access_log: AccessLog,
    /// How lines of the access log and of Tidegate's own log are written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// The zone of this machine; backends that prefer close endpoints take those in it first
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// A network of proxies whose word about their clients counts (X-Forwarded-For and its like); may be repeated
    #[arg(long, value_name = "NETWORK")]
    trust_proxy: Vec<Network>,
    /// Name the reason in a header of every error answer
    #[arg(long)]
    error_reasons: bool,
}

impl Proxy {
    /// What the HTTP engine is told.
    pub(crate) fn http(&self) -> std::io::Result<HttpOptions> {
        HttpOptions::new(self.trust_proxy.iter().copied().collect(), self.error_reasons)
    }

    /// What the data plane is told at first. `forbidden` is where Tidegate itself answers.
    pub(crate) fn settings(&self, forbidden: Vec<SocketAddr>) -> Settings {
        let default = Settings::default();
        let bounds = Bounds::default();
        Settings {
            workers: self.workers.map_or(default.workers, NonZeroUsize::get),
            bind: if self.bind.is_empty() { default.bind } else { self.bind.clone() },
            bounds: Bounds { drain_time: self.drain.unwrap_or(bounds.drain_time), ..bounds },
            forbidden,
            zone: self.zone.as_deref().map(Into::into),
            ..default
        }
    }
}
