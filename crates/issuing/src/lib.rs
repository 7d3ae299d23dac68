//! Between what listeners want and what issuers of ours make: demands, the Secrets that come of them, and what is said
//! about it in statuses. The same for a folder and for a cluster.
//!
//! It asks nobody, stores nothing and looks at no clock.

mod conditions;
mod demand;
mod metrics;
mod secrets;

pub use conditions::{Issuing, secret_in_words, state_in_words};
pub use demand::{demand, issuer, owner};
pub use metrics::metrics;
pub use secrets::{StandIns, issuer_named, secret};
