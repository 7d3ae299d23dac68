//! Between what listeners want and what issuers of ours make: demands, the Secrets that come of them, and what is said
//! about it in statuses. The same for a folder and for a cluster.
//!
//! It asks nobody, stores nothing and looks at no clock.

mod conditions;
mod demand;
mod metrics;
mod secrets;
mod words;

pub use conditions::{Issuing, Told, refusal, tell};
pub use demand::{demand, issuer, owner};
pub use metrics::metrics;
pub use secrets::{StandIns, issuer_named, secret};
pub use words::{late_in_words, left_out_in_words, not_asked_for, secret_in_words, some_of, state_in_words};
