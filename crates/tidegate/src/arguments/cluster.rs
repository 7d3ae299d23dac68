//! Which cluster is meant, and which Gateway of it.

use clap::Args;

#[derive(Debug, Args)]
#[command(next_help_heading = "A cluster")]
pub(crate) struct InCluster {
    /// Ask the data planes of this Gateway of a cluster, through its API server
    #[arg(long, value_name = "NAME")]
    pub(crate) gateway: Option<String>,
    /// The namespace of the Gateway [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE", requires = "gateway")]
    pub(crate) namespace: Option<String>,
    /// A context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", requires = "gateway")]
    pub(crate) context: Option<String>,
}
