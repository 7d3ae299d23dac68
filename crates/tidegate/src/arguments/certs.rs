//! What can be said about certificates: to `run`, and to `certs`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tidegate_certs::{Budgets, DEFAULT_ACCOUNT, Grouping, Issuer, LETS_ENCRYPT, Policies, Policy};
use tidegate_kubernetes::certmanager::Bounds;
use tidegate_plan::Hostname;

use crate::arguments::TextFormat;
use crate::arguments::account::Account;
use crate::arguments::run::time;

pub(crate) const CERTS_EXAMPLES: &str = "\
Examples:
  tidegate certs plan manifests/ --certs acme     what would be asked for, of whom, and what is left out and why
  tidegate certs plan --gateway web -n shop       the same of a Gateway in a cluster, as its controller would ask
  tidegate certs list --state state/              what there is, until when, and what failed last
  tidegate certs list --gateway web -n shop       the same of a Gateway in a cluster
  tidegate certs root --state state/ > root.crt   the root of the embedded CA, for clients to trust
  tidegate certs synth manifests/                 Gateways with a listener for each name, for other tools

Exit status: 0 it was told, 1 `plan` leaves a name without a certificate or `list` has a failure, 2 it could not be told.";

const PLAN_EXAMPLES: &str = "\
Examples:
  tidegate certs plan manifests/ --certs acme
  tidegate certs plan manifests/ --state state/ -o json
  tidegate certs plan --gateway web -n shop

Exit status: 0 every name gets a certificate, 1 some do not, 2 it could not be told.";

const SYNTH_EXAMPLES: &str = "\
Example:
  tidegate certs synth manifests/ > gateways.yaml";

const LIST_EXAMPLES: &str = "\
Examples:
  tidegate certs list --state state/
  tidegate certs list --gateway web -n shop -o json

Exit status: 0 all is well, 1 something failed last time, 2 it could not be told.";

const ROOT_EXAMPLES: &str = "\
Examples:
  tidegate certs root --state state/ > root.crt
  tidegate certs root --context staging > root.crt";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IssuerChoice {
    /// An authority of one's own, in the state
    Embedded,
    /// A CA that speaks ACME
    Acme,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// Refuse connections
    Refuse,
    /// Show a certificate that vouches for itself
    StandIn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Together {
    Listener,
    Namespace,
    Name,
}

impl Together {
    const fn grouping(self) -> Grouping {
        match self {
            Self::Listener => Grouping::Listener,
            Self::Namespace => Grouping::Namespace,
            Self::Name => Grouping::Name,
        }
    }
}

/// Certificates for the names on routes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Certificates")]
pub(crate) struct CertificateOptions {
    /// Who makes certificates for Gateways that do not say
    #[arg(long, value_name = "ISSUER", requires = "state")]
    pub(crate) certs: Option<IssuerChoice>,
    /// A folder of this process alone for keys, certificates and orders
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) issuers: IssuerOptions,
}

/// How issuers are asked, by whoever runs them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Certificates")]
pub(crate) struct IssuerOptions {
    #[command(flatten)]
    pub(crate) grouping: GroupingOptions,
    /// What clients are shown until there is a certificate
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    pub(crate) until_issued: Until,
    /// How long certificates of the embedded CA live [default: 3d]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) leaf_lifetime: Option<Duration>,
    /// The embedded CA vouches for names at or below this domain alone; may be repeated
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) root_domain: Vec<Hostname>,
    /// Where the CA's ACME directory is; to use it is to agree to its terms
    #[arg(long, value_name = "URL", default_value = LETS_ENCRYPT)]
    pub(crate) acme_directory: String,
    /// Certificates that vouch for the CA's server, instead of those the system trusts
    #[arg(long, value_name = "FILE")]
    pub(crate) acme_ca: Option<PathBuf>,
    /// An address for the CA to write to; may be repeated
    #[arg(long, value_name = "EMAIL")]
    pub(crate) acme_contact: Vec<String>,
    /// A profile of the CA, such as shortlived
    #[arg(long, value_name = "NAME")]
    pub(crate) acme_profile: Option<String>,
    /// The external account to which the ACME account is bound
    #[arg(long, value_name = "ID", requires = "acme_external_key")]
    pub(crate) acme_external_account: Option<String>,
    /// Its key, in base64url
    #[arg(long, value_name = "FILE", requires = "acme_external_account")]
    pub(crate) acme_external_key: Option<PathBuf>,
}

/// How issuers are asked, as far as a plan has to know it, too.
#[derive(Debug, Default, Args)]
pub(crate) struct GroupingOptions {
    /// A further ACME account, for Gateways that name it: its name, then `,FIELD=VALUE` for directory, contact, profile,
    /// ca (FILE), external-account, external-key (FILE) and namespace, whose Gateways alone may; may be repeated
    #[arg(long, value_name = "NAME[,FIELD=VALUE...]")]
    pub(crate) acme_account: Vec<Account>,
    /// Which names share a certificate [default: namespace]
    #[arg(long, value_name = "WHICH")]
    certificate_per: Option<Together>,
    /// Names in a certificate at most [default: 25 of ACME, else 100]
    #[arg(long, value_name = "N")]
    names_per_certificate: Option<usize>,
    /// How long new names wait for others [default: 10s of ACME, 0s of the embedded CA, 3s of cert-manager]
    #[arg(long, value_name = "TIME", value_parser = time)]
    gather_names: Option<Duration>,
    /// Orders for new names in a week, for each Gateway [default: 300]
    #[arg(long, value_name = "N")]
    orders_per_gateway: Option<usize>,
    /// Orders for new names in a week, for each namespace [default: 100]
    #[arg(long, value_name = "N")]
    orders_per_namespace: Option<usize>,
    /// Orders for new names in a week, for each registered domain [default: 50]
    #[arg(long, value_name = "N")]
    orders_per_domain: Option<usize>,
}

impl IssuerOptions {
    /// The account for Gateways that name none.
    pub(crate) fn default_account(&self) -> Account {
        Account {
            name: DEFAULT_ACCOUNT.into(),
            directory: self.acme_directory.clone(),
            contacts: self.acme_contact.clone(),
            profile: self.acme_profile.clone(),
            ca: self.acme_ca.clone(),
            external: self.acme_external_account.clone().zip(self.acme_external_key.clone()),
            namespaces: BTreeSet::new(),
        }
    }
}

impl GroupingOptions {
    /// What is said here, and for the rest what is said there.
    pub(crate) fn over(&self, other: &Self) -> Self {
        let own = Some(&self.acme_account).filter(|own| !own.is_empty());
        Self {
            acme_account: own.unwrap_or(&other.acme_account).clone(),
            certificate_per: self.certificate_per.or(other.certificate_per),
            names_per_certificate: self.names_per_certificate.or(other.names_per_certificate),
            gather_names: self.gather_names.or(other.gather_names),
            orders_per_gateway: self.orders_per_gateway.or(other.orders_per_gateway),
            orders_per_namespace: self.orders_per_namespace.or(other.orders_per_namespace),
            orders_per_domain: self.orders_per_domain.or(other.orders_per_domain),
        }
    }

    /// How cert-manager is asked.
    pub(crate) fn bounds(&self) -> Bounds {
        let Bounds { together, names, gather } = Bounds::default();
        Bounds {
            together: self.certificate_per.map_or(together, Together::grouping),
            names: self.names_per_certificate.unwrap_or(names).max(1),
            gather: self.gather_names.unwrap_or(gather),
        }
    }

    /// For each issuer of ours, how it is asked.
    pub(crate) fn policies(&self) -> Policies {
        let mut all =
            Policies::from([(Issuer::Embedded, Policy::embedded()), (Issuer::acme(), Policy::acme())]);
        for account in &self.acme_account {
            let namespaces = Some(account.namespaces.clone()).filter(|only| !only.is_empty());
            let policy = Policy { namespaces, ..Policy::acme() };
            all.insert(Issuer::Acme(Arc::clone(&account.name)), policy);
        }
        let public = Budgets::public();
        for policy in all.values_mut() {
            policy.grouping = self.certificate_per.map_or(policy.grouping, Together::grouping);
            policy.names_per_certificate = self.names_per_certificate.unwrap_or(policy.names_per_certificate);
            let gather = self.gather_names.map(|time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
            policy.gather = gather.unwrap_or(policy.gather);
            if let Some(budgets) = &mut policy.budgets {
                budgets.per_gateway = self.orders_per_gateway.unwrap_or(public.per_gateway);
                budgets.per_namespace = self.orders_per_namespace.unwrap_or(public.per_namespace);
                budgets.per_domain = self.orders_per_domain.unwrap_or(public.per_domain);
            }
        }
        all
    }
}

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Certs {
    #[command(subcommand)]
    pub(crate) command: CertsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Say what would be asked for, of whom and how put together, and which names are left out and why
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(CertsPlan),
    /// Print Gateways with a listener written out for each name that routes bring
    #[command(after_help = SYNTH_EXAMPLES)]
    Synth(CertsSynth),
    /// Show the certificates in a state folder or a cluster, and what failed last
    #[command(after_help = LIST_EXAMPLES)]
    List(CertsList),
    /// Print the root certificate of the embedded CA
    #[command(after_help = ROOT_EXAMPLES)]
    Root(CertsRoot),
}

#[derive(Debug, Args)]
pub(crate) struct CertsPlan {
    /// Folders and files with manifests; `-` is standard input; without any, a cluster is asked
    #[arg(value_name = "DIR|FILE|-", required_unless_present = "gateway")]
    pub(crate) paths: Vec<PathBuf>,
    /// This Gateway alone
    #[arg(long, value_name = "NAME")]
    pub(crate) gateway: Option<String>,
    /// Its namespace [default: that of the context; in manifests, default]
    #[arg(short, long, value_name = "NAMESPACE", requires = "gateway")]
    pub(crate) namespace: Option<String>,
    /// A context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", conflicts_with = "paths")]
    pub(crate) context: Option<String>,
    /// Who makes certificates for Gateways that do not say [default: nobody; in a cluster, as its controller has it]
    #[arg(long, value_name = "ISSUER")]
    pub(crate) certs: Option<IssuerChoice>,
    /// Where the CA's ACME directory is [default: Let's Encrypt's; in a cluster, as its controller has it]
    #[arg(long, value_name = "URL", requires = "paths")]
    pub(crate) acme_directory: Option<String>,
    /// What there is already
    #[arg(long, value_name = "DIR", requires = "paths")]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) grouping: GroupingOptions,
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,
}

#[derive(Debug, Args)]
pub(crate) struct CertsSynth {
    /// Folders and files with manifests; `-` is standard input
    #[arg(required = true, value_name = "DIR|FILE|-")]
    pub(crate) paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CertsList {
    /// The folder that `tidegate run --state` has, instead of a cluster
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Those of this Gateway
    #[arg(long, value_name = "NAME", conflicts_with = "state")]
    pub(crate) gateway: Option<String>,
    /// The namespace [default: all; with --gateway, that of the context]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "state")]
    pub(crate) namespace: Option<String>,
    /// A context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", conflicts_with = "state")]
    pub(crate) context: Option<String>,
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,
}

#[derive(Debug, Args)]
pub(crate) struct CertsRoot {
    /// The folder that `tidegate run --state` has, instead of a cluster
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// The namespace of the cluster's controller
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        default_value = "tidegate-system",
        conflicts_with = "state"
    )]
    pub(crate) namespace: String,
    /// A context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", conflicts_with = "state")]
    pub(crate) context: Option<String>,
}
