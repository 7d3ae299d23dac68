//! Tidegate in a cluster: it follows the API server, has `translate` say what there is to do, writes statuses, and runs
//! a data plane for each Gateway, which it tells over the link.
//!
//! What objects mean is decided in `translate`; how bytes travel is none of its business.

mod authority;
pub mod certmanager;
mod controller;
mod crds;
mod data;
mod events;
mod issuing;
mod kinds;
mod lease;
mod listen;
mod log;
mod metrics;
mod nodes;
mod patience;
mod planes;
mod programmed;
pub mod remote;
mod settings;
mod status;
mod tokens;
mod watch;

pub use controller::{Health, run};
pub use issuing::IssuingSettings;
pub use kube::{Client, Config};
pub use lease::LEADER_LABEL;
pub use listen::listen;
pub use log::{Level, Log};
pub use metrics::Metrics;
pub use settings::{ADMIN_PORT, HEALTH_PORT, LinkAddress, Settings};

/// Under this name the API server remembers which fields are ours.
const FIELD_MANAGER: &str = "tidegate";
