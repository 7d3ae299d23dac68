//! A cluster seen from outside, as kubectl sees it: for what people ask, never for the controller. It changes nothing.

mod around;
mod certificates;
mod compare;
mod controllers;
mod objects;
mod planes;

use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use tidegate_api::ObjectKey;
use tidegate_plan::ObjectName;

pub use around::Around;
pub use certificates::{certificates, ledgers, root};
pub use compare::{Difference, Verdict, compare};
pub use controllers::{Leader, leaders};
pub use objects::Objects;
pub use planes::{Answer, ask};

#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("there is no cluster to ask: {0}")]
    NoCluster(String),
    #[error("Pods of namespace {0} cannot be listed: {why}", why = said(.1))]
    NoPods(String, #[source] kube::Error),
    #[error("{0} cannot be listed: {why}", why = said(.1))]
    NoList(String, #[source] kube::Error),
    #[error("Secrets cannot be listed: {why}", why = said(.0))]
    NoSecrets(#[source] kube::Error),
    #[error("{0} cannot be read: {why}", why = said(.1))]
    NoObject(ObjectKey, #[source] kube::Error),
    #[error("Gateway {0} has no data plane that runs (is it a Gateway of Tidegate's?)")]
    NoDataPlane(ObjectName),
}

/// What the API server said, in its own words where it answered.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// A client and the namespace that is meant where none is said: as the kubeconfig has them, or the Pod that this runs
/// in.
pub async fn connect(context: Option<&str>) -> Result<(Client, String), RemoteError> {
    let no_cluster = |error: &dyn std::fmt::Display| RemoteError::NoCluster(error.to_string());
    let config = match context {
        None => Config::infer().await.map_err(|error| no_cluster(&error))?,
        Some(context) => {
            let options = KubeConfigOptions { context: Some(context.to_owned()), ..Default::default() };
            Config::from_kubeconfig(&options).await.map_err(|error| no_cluster(&error))?
        }
    };
    let namespace = config.default_namespace.clone();
    Ok((Client::try_from(config).map_err(|error| no_cluster(&error))?, namespace))
}
