//! What can be said to `controller`.

use std::net::SocketAddr;

use clap::{Args, Parser, ValueEnum};
use tidegate_kubernetes::{IssuingSettings, LinkAddress, Settings};
use tidegate_translate::CONTROLLER_NAME;

use crate::arguments::{Arguments, Command, IssuerChoice, IssuerOptions, LogFormat, Until};
use crate::certs::{default_issuer, issuers};
use crate::output::Error;

pub(crate) const CONTROLLER_EXAMPLES: &str = "\
Examples:
  tidegate controller --image registry.example.com/tidegate:1.0        in a Pod, as the chart starts it
  tidegate controller --image tidegate:dev --link-address 10.0.0.5:9443    outside, with the kubeconfig of KUBECONFIG

Signals: TERM and INT hand leadership over and end; data planes go on serving.

Exit status: 0 ended, 2 it could not start.";

#[derive(Debug, Args)]
pub(crate) struct Controller {
    /// GatewayClasses with this controllerName are ours
    #[arg(long, value_name = "NAME", default_value = CONTROLLER_NAME)]
    pub(crate) controller_name: String,
    /// Where data planes fetch what they serve
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:9443")]
    link: SocketAddr,
    /// The Service of the link in the controller's namespace, which selects the Pod with the leader's label
    #[arg(long, value_name = "NAME", default_value = "tidegate-link", conflicts_with = "link_address")]
    link_service: String,
    /// Where data planes find the link, instead of a Service
    #[arg(long, value_name = "ADDRESS")]
    link_address: Option<SocketAddr>,
    /// Health and metrics
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:9901")]
    pub(crate) health: SocketAddr,
    /// The Lease by which one of several replicas leads
    #[arg(long, value_name = "NAME", default_value = "tidegate")]
    lease: String,
    /// The image of data planes
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// When that image is pulled [default: as Kubernetes does]
    #[arg(long, value_name = "POLICY")]
    image_pull_policy: Option<PullPolicy>,
    /// A Secret in the namespace of each Gateway that the image is pulled with; may be repeated [default: none]
    #[arg(long, value_name = "NAME")]
    image_pull_secret: Vec<String>,
    /// Ask cert-manager for certificates of Gateways with its annotations
    #[arg(long)]
    pub(crate) cert_manager: bool,
    /// The namespace of Lease, Service and CA
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", default_value = "tidegate-system")]
    namespace: String,
    /// The name of this replica: in a cluster, of its Pod [default: the machine's name and the process]
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    name: Option<String>,
    /// An issuer that Gateways may ask for certificates; may be repeated [default: none]
    #[arg(long, value_name = "ISSUER", help_heading = "Certificates")]
    pub(crate) issuer: Vec<IssuerChoice>,
    /// Who makes certificates for Gateways that do not say
    #[arg(long, value_name = "ISSUER", requires = "issuer", help_heading = "Certificates")]
    pub(crate) certs: Option<IssuerChoice>,
    #[command(flatten)]
    pub(crate) issuers: IssuerOptions,
    /// The least important lines that are written
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: LogLevel,
    /// How lines are written
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub(crate) log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PullPolicy {
    #[value(name = "Always")]
    Always,
    #[value(name = "IfNotPresent")]
    IfNotPresent,
    #[value(name = "Never")]
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LogLevel {
    Info,
    #[value(name = "warn", alias = "warning")]
    Warning,
    Error,
}

impl Controller {
    /// As one was started with these arguments, if this version knows them all.
    pub(crate) fn started(arguments: &[String]) -> Option<Self> {
        let words = std::iter::once("tidegate").chain(arguments.iter().map(String::as_str));
        match Arguments::try_parse_from(words).ok()?.command {
            Command::Controller(controller) => Some(*controller),
            _ => None,
        }
    }

    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        let link = match self.link_address {
            Some(address) => LinkAddress::Address(address),
            None => LinkAddress::Service(self.link_service.clone()),
        };
        Ok(Settings {
            controller_name: self.controller_name.as_str().into(),
            namespace: self.namespace.clone(),
            identity: self.name.clone().unwrap_or_else(|| format!("{}-{}", host(), std::process::id())),
            is_pod: self.name.is_some(),
            lease: self.lease.clone(),
            image: self.image.clone(),
            image_pull_policy: self.image_pull_policy.map(|policy| format!("{policy:?}")),
            image_pull_secrets: self.image_pull_secret.clone(),
            cert_manager: self.cert_manager.then(|| self.issuers.grouping.bounds()),
            link,
            link_listen: self.link,
            issuing: self.issuing()?,
        })
    }

    fn issuing(&self) -> Result<Option<IssuingSettings>, Error> {
        let has = |choice: IssuerChoice| self.issuer.contains(&choice);
        if self.issuer.is_empty() {
            return Ok(None);
        }
        if self.certs.is_some_and(|default| !has(default)) {
            let message = "--certs names an issuer that no --issuer switches on";
            return Err(Error::Usage(message.to_owned()));
        }
        if !has(IssuerChoice::Acme) && !self.issuers.grouping.acme_account.is_empty() {
            return Err(Error::Usage("--acme-account: no --issuer acme switches ACME on".to_owned()));
        }
        let acme = if has(IssuerChoice::Acme) { issuers::accounts(&self.issuers, true)? } else { Vec::new() };
        Ok(Some(IssuingSettings {
            embedded: has(IssuerChoice::Embedded).then(|| issuers::embedded(&self.issuers)),
            acme,
            policies: self.issuers.grouping.policies(),
            default: default_issuer(self.certs),
            stand_in: self.issuers.until_issued == Until::StandIn,
        }))
    }
}
