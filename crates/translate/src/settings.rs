//! What holds for a whole installation and cannot be read from objects.

use std::sync::Arc;

use crate::translation::Issuer;

pub const CONTROLLER_NAME: &str = "gateway.tidegate.io/controller";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub controller_name: Arc<str>,
    pub source: Source,
    pub channel: Channel,
    /// The Gateway API CRDs that are installed; `None` where there are none to ask, as in a folder.
    pub bundle: Option<Vec<BundleVersion>>,
    /// Who makes certificates for Gateways that do not say.
    pub issuer: Option<Issuer>,
    /// Ports that listeners cannot have because Tidegate itself answers there.
    pub reserved_ports: Vec<u16>,
}

impl Settings {
    /// For manifests in a folder.
    #[must_use]
    pub fn folder() -> Self {
        Self {
            controller_name: CONTROLLER_NAME.into(),
            source: Source::Folder,
            channel: Channel::Experimental,
            bundle: None,
            issuer: None,
            reserved_ports: Vec::new(),
        }
    }

    /// For manifests that a cluster has or will have.
    #[must_use]
    pub fn cluster() -> Self {
        Self { source: Source::Cluster, ..Self::folder() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Backends may be on loopback, and all Gateways share one machine's ports.
    Folder,
    /// Every Gateway has a data plane and addresses of its own.
    Cluster,
}

/// Which of our features we may claim: those that the installed CRDs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    Standard,
    Experimental,
}

/// One Gateway API CRD and the version its annotation names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleVersion {
    pub crd: String,
    /// `v1.7.0`; `None` where the annotation is missing.
    pub version: Option<String>,
}
