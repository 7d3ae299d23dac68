//! What can be said to `run`, and to `status` and `refused`, which ask one that runs.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tidegate_http::Options as HttpOptions;
use tidegate_http::networks::Network;
use tidegate_proxy::{Bounds, Settings};

use crate::arguments::{CertificateOptions, CheckFormat, InCluster, TextFormat};

pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  tidegate run manifests/                          serve a folder and follow its changes
  tidegate run manifests/ --dry-run                say what would be served, and end
  tidegate run manifests/ --port-offset 8000 --bind 127.0.0.1    try it without root: 443 is 8443
  tidegate run manifests/ --certs embedded --state state/        certificates for the names on routes
  tidegate run /etc/tidegate --health 0.0.0.0:9901 --access-log /var/log/tidegate.log

Signals: TERM and INT drain and end, a second one ends at once; HUP reads all files again and reopens the access log.

Exit status: 0 drained and ended, 1 --dry-run found something refused, 2 it could not start, 130 or 143 ended at once
by a second signal.";

pub(crate) const STATUS_EXAMPLES: &str = "\
Examples:
  tidegate status
  tidegate status -o yaml --admin 127.0.0.1:9900

Exit status: 0 everything is served, 1 something is not, 2 nobody answers.";

pub(crate) const REFUSED_EXAMPLES: &str = "\
Examples:
  tidegate refused                   why were the last connections cut off?
  tidegate refused --last 100 -o json
  tidegate refused --gateway edge -n infra       by the data planes of a Gateway in a cluster

Exit status: 0 it was told, 2 nobody answers.";

pub(super) const ADMIN: &str = "127.0.0.1:9900";

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Folders and files with manifests (*.yaml, *.yml, *.json); `-` is standard input
    #[arg(required = true, value_name = "DIR|FILE|-")]
    pub(crate) paths: Vec<PathBuf>,
    /// Follow changes of the files; this is the default
    #[arg(long, conflicts_with = "once")]
    watch: bool,
    /// Read the files once and serve that, without a look at later changes
    #[arg(long)]
    pub(crate) once: bool,
    /// Say what would be served, bind nothing, and end
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Threads that serve [default: one for each core]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// An address for listeners whose Gateway names none; may be repeated [default: 0.0.0.0 and ::]
    #[arg(long, value_name = "IP")]
    bind: Vec<IpAddr>,
    /// Added to the port of every listener
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port_offset: u16,
    /// Where health, metrics, status and refused connections are told
    #[arg(long, value_name = "ADDRESS", default_value = ADMIN)]
    pub(crate) admin: SocketAddr,
    /// A second place for health and metrics alone, which may be public
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) health: Option<SocketAddr>,
    /// Where a line for each connection, flow and request goes; `-` is standard output
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
    #[command(flatten)]
    pub(crate) certificates: CertificateOptions,
    #[command(flatten)]
    bounds: BoundOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessLog {
    Off,
    StandardOutput,
    File(PathBuf),
}

impl FromStr for AccessLog {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "off" => Self::Off,
            "-" => Self::StandardOutput,
            path => Self::File(path.into()),
        })
    }
}

/// How much is too much. Times are written as 500ms, 10s, 5m or 1h.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bounds")]
struct BoundOptions {
    /// Connections at a time, in all [default: 100000]
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Connections at a time for each listener [default: 100000]
    #[arg(long, value_name = "N")]
    max_connections_per_listener: Option<usize>,
    /// Connections at a time from one address [default: 20000]
    #[arg(long, value_name = "N")]
    max_connections_per_source: Option<usize>,
    /// From accept to the end of the ClientHello [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    hello_time: Option<Duration>,
    /// Bytes of a ClientHello [default: 65536]
    #[arg(long, value_name = "BYTES")]
    hello_size: Option<usize>,
    /// From the end of the ClientHello to the end of the handshake [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    handshake_time: Option<Duration>,
    /// All attempts to reach a backend together [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    connect_time: Option<Duration>,
    /// Without a byte in either direction [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = time)]
    idle_time: Option<Duration>,
    /// Without a byte after one side has ended its direction [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    half_open_time: Option<Duration>,
    /// How long a connection may live [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = time)]
    lifetime: Option<Duration>,
    /// UDP flows at a time, in all [default: 100000]
    #[arg(long, value_name = "N")]
    max_udp_flows: Option<usize>,
    /// A UDP flow without a datagram in either direction [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    udp_idle_time: Option<Duration>,
    /// From the first byte of a request to the end of its head [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    header_time: Option<Duration>,
    /// Bytes of the head of a request [default: 65536]
    #[arg(long, value_name = "BYTES")]
    header_size: Option<usize>,
    /// Header lines of a request [default: 100]
    #[arg(long, value_name = "N")]
    max_headers: Option<usize>,
    /// Bytes of a request's path and query [default: 16384]
    #[arg(long, value_name = "BYTES")]
    uri_size: Option<usize>,
    /// A client's connection without a request [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    keep_alive_time: Option<Duration>,
    /// Without a byte of a request's body [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    body_time: Option<Duration>,
    /// Requests at a time on one HTTP/2 connection [default: 100]
    #[arg(long, value_name = "N")]
    max_streams: Option<u32>,
    /// Reset streams of one HTTP/2 connection before it is ended [default: 100]
    #[arg(long, value_name = "N")]
    max_resets: Option<usize>,
    /// Idle connections to one endpoint, for each worker [default: 256]
    #[arg(long, value_name = "N")]
    max_idle_upstream: Option<usize>,
    /// How long one of them is kept [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    idle_upstream_time: Option<Duration>,
    /// Bytes of a request's body that are kept for another try [default: 65536]
    #[arg(long, value_name = "BYTES")]
    retry_size: Option<usize>,
    /// Copies of requests for mirrors at a time, for each worker [default: 256]
    #[arg(long, value_name = "N")]
    max_mirrors: Option<usize>,
    /// What connections are left when their route or listener is removed, or at the end [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    drain: Option<Duration>,
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a time such as 500ms, 10s, 5m or 1h".to_owned())
}

impl Run {
    /// What the data plane is told. `forbidden` is where Tidegate itself answers.
    pub(crate) fn settings(&self, forbidden: Vec<SocketAddr>) -> Settings {
        let default = Settings::default();
        Settings {
            workers: self.workers.map_or(default.workers, NonZeroUsize::get),
            bind: if self.bind.is_empty() { default.bind } else { self.bind.clone() },
            port_offset: self.port_offset,
            bounds: self.bounds.bounds(),
            forbidden,
            zone: self.zone.as_deref().map(Into::into),
        }
    }
}

impl Run {
    /// What the HTTP engine is told.
    pub(crate) fn http(&self) -> std::io::Result<HttpOptions> {
        HttpOptions::new(self.trust_proxy.iter().copied().collect(), self.error_reasons)
    }
}

impl BoundOptions {
    fn bounds(&self) -> Bounds {
        let default = Bounds::default();
        Bounds {
            connections: self.max_connections.unwrap_or(default.connections),
            connections_per_listener: self
                .max_connections_per_listener
                .unwrap_or(default.connections_per_listener),
            connections_per_source: self.max_connections_per_source.unwrap_or(default.connections_per_source),
            hello_time: self.hello_time.unwrap_or(default.hello_time),
            hello_size: self.hello_size.unwrap_or(default.hello_size),
            handshake_time: self.handshake_time.unwrap_or(default.handshake_time),
            connect_time: self.connect_time.unwrap_or(default.connect_time),
            idle_time: self.idle_time.unwrap_or(default.idle_time),
            half_open_time: self.half_open_time.unwrap_or(default.half_open_time),
            lifetime: self.lifetime.or(default.lifetime),
            udp_flows: self.max_udp_flows.unwrap_or(default.udp_flows),
            udp_idle_time: self.udp_idle_time.unwrap_or(default.udp_idle_time),
            header_time: self.header_time.unwrap_or(default.header_time),
            header_size: self.header_size.unwrap_or(default.header_size),
            header_count: self.max_headers.unwrap_or(default.header_count),
            uri_size: self.uri_size.unwrap_or(default.uri_size),
            keep_alive_time: self.keep_alive_time.unwrap_or(default.keep_alive_time),
            body_time: self.body_time.unwrap_or(default.body_time),
            streams: self.max_streams.unwrap_or(default.streams),
            resets: self.max_resets.unwrap_or(default.resets),
            idle_upstream: self.max_idle_upstream.unwrap_or(default.idle_upstream),
            idle_upstream_time: self.idle_upstream_time.unwrap_or(default.idle_upstream_time),
            retry_size: self.retry_size.unwrap_or(default.retry_size),
            mirrors: self.max_mirrors.unwrap_or(default.mirrors),
            drain_time: self.drain.unwrap_or(default.drain_time),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Where `tidegate run` tells it
    #[arg(long, value_name = "ADDRESS", default_value = ADMIN)]
    pub(crate) admin: SocketAddr,
    /// A table for people, or one `v1` List of all objects with their status
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: CheckFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Refused {
    /// Where `tidegate run` tells it
    #[arg(long, value_name = "ADDRESS", default_value = ADMIN, conflicts_with = "gateway")]
    pub(crate) admin: SocketAddr,
    #[command(flatten)]
    pub(crate) cluster: InCluster,
    /// How many, the newest ones
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) last: usize,
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::{CommandFactory, Parser};

    fn run(arguments: &[&str]) -> Run {
        let all = ["tidegate", "run", "folder"].iter().chain(arguments);
        match Arguments::parse_from(all).command {
            Command::Run(run) => *run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_said_is_the_default() {
        let settings = run(&[]).settings(Vec::new());
        assert_eq!(settings.bounds, Bounds::default());
        assert_eq!(settings.bind, Settings::default().bind);
    }

    #[test]
    fn every_bound_has_a_flag() {
        let settings = run(&[
            "--max-connections=1",
            "--max-connections-per-listener=2",
            "--max-connections-per-source=3",
            "--hello-time=4s",
            "--hello-size=5",
            "--handshake-time=6ms",
            "--connect-time=7m",
            "--idle-time=8h",
            "--half-open-time=1m 9s",
            "--lifetime=10d",
            "--max-udp-flows=11",
            "--udp-idle-time=12s",
            "--header-time=13s",
            "--header-size=14",
            "--max-headers=15",
            "--uri-size=16",
            "--keep-alive-time=17s",
            "--body-time=18s",
            "--max-streams=19",
            "--max-resets=20",
            "--max-idle-upstream=21",
            "--idle-upstream-time=22s",
            "--retry-size=23",
            "--max-mirrors=24",
            "--drain=0s",
        ])
        .settings(Vec::new());
        let seconds = Duration::from_secs;
        let expected = Bounds {
            connections: 1,
            connections_per_listener: 2,
            connections_per_source: 3,
            hello_time: seconds(4),
            hello_size: 5,
            handshake_time: Duration::from_millis(6),
            connect_time: seconds(7 * 60),
            idle_time: seconds(8 * 3600),
            half_open_time: seconds(69),
            lifetime: Some(seconds(10 * 86_400)),
            udp_flows: 11,
            udp_idle_time: seconds(12),
            header_time: seconds(13),
            header_size: 14,
            header_count: 15,
            uri_size: 16,
            keep_alive_time: seconds(17),
            body_time: seconds(18),
            streams: 19,
            resets: 20,
            idle_upstream: 21,
            idle_upstream_time: seconds(22),
            retry_size: 23,
            mirrors: 24,
            drain_time: seconds(0),
        };
        assert_eq!(settings.bounds, expected);
    }

    /// The help names the defaults in words of its own; they are those of the data plane.
    #[test]
    fn the_help_tells_the_defaults() {
        let bounds = Bounds::default();
        let shown = |time: Duration| humantime::format_duration(time).to_string();
        let mut command = Arguments::command();
        let run = command.find_subcommand_mut("run").unwrap();
        for (flag, default) in [
            ("max_connections", bounds.connections.to_string()),
            ("max_connections_per_listener", bounds.connections_per_listener.to_string()),
            ("max_connections_per_source", bounds.connections_per_source.to_string()),
            ("hello_time", shown(bounds.hello_time)),
            ("hello_size", bounds.hello_size.to_string()),
            ("handshake_time", shown(bounds.handshake_time)),
            ("connect_time", shown(bounds.connect_time)),
            ("idle_time", shown(bounds.idle_time)),
            ("half_open_time", shown(bounds.half_open_time)),
            ("max_udp_flows", bounds.udp_flows.to_string()),
            ("udp_idle_time", shown(bounds.udp_idle_time)),
            ("header_time", shown(bounds.header_time)),
            ("header_size", bounds.header_size.to_string()),
            ("max_headers", bounds.header_count.to_string()),
            ("uri_size", bounds.uri_size.to_string()),
            ("keep_alive_time", shown(bounds.keep_alive_time)),
            ("body_time", shown(bounds.body_time)),
            ("max_streams", bounds.streams.to_string()),
            ("max_resets", bounds.resets.to_string()),
            ("max_idle_upstream", bounds.idle_upstream.to_string()),
            ("idle_upstream_time", shown(bounds.idle_upstream_time)),
            ("retry_size", bounds.retry_size.to_string()),
            ("max_mirrors", bounds.mirrors.to_string()),
            ("drain", shown(bounds.drain_time)),
        ] {
            let argument = run.get_arguments().find(|argument| argument.get_id() == flag).unwrap();
            let help = argument.get_help().unwrap().to_string();
            assert!(help.ends_with(&format!("[default: {default}]")), "{flag}: {help}, {default}");
        }
    }

    #[test]
    fn times_without_a_unit_are_refused() {
        assert!(time("10").is_err());
        assert!(time("fast").is_err());
        assert_eq!(time("1m30s"), Ok(Duration::from_secs(90)));
    }
}
