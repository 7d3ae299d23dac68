//! Certificates that cert-manager makes for the names on routes: for each Secret that a listener of ours names, the
//! Certificate objects that there shall be, kept as they shall be while this replica leads.
//!
//! What shall be there is a pure function (`targets`, then `plan`), which `tidegate certs plan` calls as well. Issuing,
//! renewing and the Secrets themselves are cert-manager's.

mod annotations;
mod keep;
mod pace;
mod patch;
mod plan;
mod state;
mod targets;
mod text;
mod there;
mod told;

pub use annotations::IssuerRef;
pub(crate) use keep::{Keeper, resource};
pub use plan::{Plan, Planned, plan};
pub use state::Bounds;
pub(crate) use state::Certificates;
pub use targets::{Target, Targets, taken, targets};
pub(crate) use there::BY_CERT_MANAGER;
pub use there::{Listed, There};
pub use told::NOT_ASKED;
