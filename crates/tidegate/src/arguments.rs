//! What can be written on the command line.

mod account;
mod certs;
mod cluster;
mod controller;
mod proxy;
mod run;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use crate::arguments::account::Account;
use crate::arguments::certs::CERTS_EXAMPLES;
pub(crate) use crate::arguments::certs::{
    CertificateOptions, Certs, CertsCommand, CertsList, CertsPlan, CertsRoot, CertsSynth, GroupingOptions,
    IssuerChoice, IssuerOptions, Until,
};
pub(crate) use crate::arguments::cluster::InCluster;
use crate::arguments::controller::CONTROLLER_EXAMPLES;
pub(crate) use crate::arguments::controller::{Controller, LogLevel};
use crate::arguments::proxy::PROXY_EXAMPLES;
pub(crate) use crate::arguments::proxy::Proxy;
pub(crate) use crate::arguments::run::{AccessLog, LogFormat, Refused, Run, Status};
use crate::arguments::run::{REFUSED_EXAMPLES, RUN_EXAMPLES, STATUS_EXAMPLES};

const EXAMPLES: &str = "\
Examples:
  tidegate check manifests/                                 what is wrong, what is accepted
  tidegate explain manifests/ --port 80 --host example.com  where a request would go
  tidegate run manifests/                                   served on this machine

Each command has more: tidegate help check";

const CHECK_EXAMPLES: &str = "\
Examples:
  tidegate check manifests/               a folder, with all folders below it
  tidegate check gateway.yaml routes.yaml
  kubectl get gateways,httproutes,services,secrets -A -o yaml | tidegate check -
  tidegate check manifests/ -o yaml       every object with its status filled in
  tidegate check manifests/ --cluster     before they are applied to a cluster
  tidegate check manifests/ --server      and what its API server says to them

Exit status: 0 everything is accepted, 1 something is invalid, refused or not resolved, 2 the manifests cannot be read.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  tidegate explain manifests/ --port 443 --sni db.example.com
  tidegate explain manifests/ --port 443 --host www.example.com --path /api --header x-canary=yes
  tidegate explain manifests/ --port 53 --udp
  tidegate explain manifests/ tlsroute/db            why is it attached here and not there?
  tidegate explain manifests/ gateway/edge.infra     NAME.NAMESPACE
  tidegate explain --gateway edge -n infra --port 443 --sni db.example.com    as it is served in a cluster

Exit status: 0 routed or attached, 1 refused, 2 wrong usage or the manifests cannot be read.";

const DIFF_EXAMPLES: &str = "\
Examples:
  tidegate diff old/ new/
  git worktree add /tmp/main main && tidegate diff /tmp/main/manifests manifests -o json

Exit status: 0 nothing changes for traffic, 1 something does, 2 the manifests cannot be read.";

const VERSION_EXAMPLES: &str = "\
Example:
  tidegate version -o json";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  tidegate completions bash > /etc/bash_completion.d/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate";

const MAN_EXAMPLES: &str = "\
Examples:
  tidegate man | man -l -
  tidegate man --out /usr/local/share/man/man1";

/// Gateway API without a cluster: read manifests, say what they mean, serve them.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true, subcommand_required = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Color {
    /// When to use colour; on a terminal only, unless NO_COLOR or this says otherwise
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true)]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ColorChoice {
    Auto,
    Always,
    Never,
}

impl Arguments {
    /// Reads the command line; what it says of colour holds for help and for mistakes in it as well.
    pub(crate) fn of_process() -> Self {
        let matches = Self::command().color(color_of_help(std::env::args_os())).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// What is said of colour, before anybody knows whether the rest is right.
fn color_of_help(arguments: impl Iterator<Item = OsString>) -> clap::ColorChoice {
    let words = arguments.map(|word| word.to_string_lossy().into_owned());
    let mut words = words.take_while(|word| word != "--").peekable();
    let mut choice = clap::ColorChoice::Auto;
    while let Some(word) = words.next() {
        let when = word
            .strip_prefix("--color=")
            .or_else(|| words.peek().map(String::as_str).filter(|_| word == "--color"));
        choice = match when {
            Some("always") => clap::ColorChoice::Always,
            Some("never") => clap::ColorChoice::Never,
            _ => choice,
        };
    }
    choice
}

impl Color {
    pub(crate) fn write_global(&self) {
        let choice = match self.color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve manifests on this machine and follow their changes
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run>),
    /// Control the Gateways of a cluster, each with a data plane of its own
    #[command(after_help = CONTROLLER_EXAMPLES)]
    Controller(Box<Controller>),
    /// Serve one Gateway of a cluster, as its controller says
    #[command(after_help = PROXY_EXAMPLES)]
    Proxy(Box<Proxy>),
    /// Show the objects that a running Tidegate serves, with their status
    #[command(after_help = STATUS_EXAMPLES)]
    Status(Status),
    /// Show the connections that a running Tidegate refused last, and why
    #[command(after_help = REFUSED_EXAMPLES)]
    Refused(Refused),
    /// Read manifests, report what is wrong with them, and show what is accepted and why not
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Say where a connection or request would go and why, or why an object is attached where it is
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Box<Explain>),
    /// Say what changes for traffic between two sets of manifests
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Diff),
    /// Certificates for the names on routes: what would be asked for, what there is, and the root of the embedded CA
    #[command(after_help = CERTS_EXAMPLES)]
    Certs(Certs),
    /// Print the version and the version of Gateway API
    #[command(after_help = VERSION_EXAMPLES)]
    Version(Version),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(Completions),
    /// Print the manual page, or write one page for each command
    #[command(after_help = MAN_EXAMPLES)]
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Folders and files with manifests (*.yaml, *.yml, *.json); `-` is standard input
    #[arg(required = true, value_name = "DIR|FILE|-")]
    pub(crate) paths: Vec<PathBuf>,
    /// As a cluster would see them: every Gateway has addresses of its own, instead of sharing one machine's ports
    #[arg(long)]
    pub(crate) cluster: bool,
    /// Compare with a cluster besides: what its API server says to each object, and what would change; implies --cluster
    #[arg(long)]
    pub(crate) server: bool,
    /// A context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", requires = "server")]
    pub(crate) context: Option<String>,
    /// A table for people, or one `v1` List of all objects with their status; with --server, its verdicts instead
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: CheckFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    Table,
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A folder or file with manifests; `-` is standard input
    #[arg(value_name = "DIR|FILE|-", required_unless_present = "gateway", conflicts_with = "gateway")]
    pub(crate) path: Option<PathBuf>,
    /// A route, Gateway, ListenerSet, policy or XBackend, instead of a flow
    #[arg(value_name = "KIND/NAME[.NAMESPACE]", required_unless_present = "port", conflicts_with = "flow")]
    pub(crate) object: Option<String>,
    // Before what has a heading of its own.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,
    #[command(flatten)]
    pub(crate) flow: FlowOptions,
    #[command(flatten)]
    pub(crate) cluster: InCluster,
}

/// The flow to explain.
#[derive(Debug, Args)]
#[group(id = "flow", multiple = true)]
#[command(next_help_heading = "The flow to explain")]
pub(crate) struct FlowOptions {
    /// The port that the client connects to
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// The address that the client connects to [default: one that answers on the port]
    #[arg(long, requires = "port")]
    pub(crate) address: Option<IpAddr>,
    /// The server name in the ClientHello [default: the name in --host]
    #[arg(long, value_name = "NAME", requires = "port", conflicts_with = "no_sni")]
    pub(crate) sni: Option<String>,
    /// TLS without a server name
    #[arg(long, requires = "port")]
    pub(crate) no_sni: bool,
    /// A protocol that the client offers by ALPN; may be repeated
    #[arg(long, value_name = "PROTOCOL", requires = "port")]
    pub(crate) alpn: Vec<String>,
    /// The request's host [default: the server name]
    #[arg(long, requires = "port")]
    pub(crate) host: Option<String>,
    /// The request's path, with its query if there is one [default: /]
    #[arg(long = "path", value_name = "PATH", requires = "port", value_parser = path)]
    pub(crate) path_and_query: Option<String>,
    /// The request's method
    #[arg(long, default_value = "GET", requires = "port")]
    pub(crate) method: String,
    /// A header of the request; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "port", value_parser = pair)]
    pub(crate) header: Vec<(String, String)>,
    /// A query parameter of the request; may be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "port", value_parser = pair)]
    pub(crate) query: Vec<(String, String)>,
    /// A datagram instead of a TCP connection
    #[arg(long, requires = "port", conflicts_with_all = ["sni", "no_sni", "alpn", "host", "path_and_query", "header", "query"])]
    pub(crate) udp: bool,
    /// The client's address; a Service with `sessionAffinity: ClientIP` goes by it
    #[arg(long, value_name = "IP", requires = "port")]
    pub(crate) client_ip: Option<IpAddr>,
}

fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') { Ok(text.to_owned()) } else { Err("a path begins with `/`".to_owned()) }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A folder or file with the manifests as they are
    pub(crate) old: PathBuf,
    /// A folder or file with the manifests as they shall be
    pub(crate) new: PathBuf,
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Version {
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// A folder for the pages of all commands; without it, the main page is printed
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}
