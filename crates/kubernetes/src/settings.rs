//! What a controller is told when it is started.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::certmanager::Bounds;
use crate::issuing::IssuingSettings;

/// Ports of a data plane that are no listener's: everything about it on loopback, health and metrics on its address.
pub const ADMIN_PORT: u16 = 9900;
pub const HEALTH_PORT: u16 = 9901;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Which GatewayClasses are ours.
    pub controller_name: Arc<str>,
    /// The namespace that the controller is in, with its Lease, its Service and its Secret.
    pub namespace: String,
    /// What tells this replica from the others: in a cluster, the name of its Pod.
    pub identity: String,
    /// Whether `identity` is a Pod in `namespace`, whose label says who leads.
    pub is_pod: bool,
    pub lease: String,
    /// The image of data planes.
    pub image: String,
    /// `imagePullPolicy` of data planes.
    pub image_pull_policy: Option<String>,
    /// The Secrets that data planes are pulled with, in the namespace of each Gateway.
    pub image_pull_secrets: Vec<String>,
    /// How cert-manager is asked for certificates; `None`: it is not.
    pub cert_manager: Option<Bounds>,
    pub link: LinkAddress,
    /// Where the link's server listens.
    pub link_listen: SocketAddr,
    /// Who makes certificates; `None`: nobody here.
    pub issuing: Option<IssuingSettings>,
}

/// Where data planes find the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkAddress {
    /// A Service in the controller's namespace: its cluster IP and first port.
    Service(String),
    Address(SocketAddr),
}
