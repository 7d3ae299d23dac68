//! Which certificate, when, from whom.
//!
//! What to ask for is decided by [`Book`], which is pure: it is told the time, what is wanted and what became of
//! orders. The issuers, the store and the loop that connects them are around it. Nothing here knows Kubernetes or a
//! socket of the data plane.

mod backoff;
mod book;
mod decide;
mod demand;
mod domain;
mod hash;
mod held;
mod ledger;
mod policy;

pub use book::{Book, Failure, Order, Why};
pub use decide::{Decision, State};
pub use demand::{Claim, Conflict, Demand, Issuer, Target, Want, WantedName};
pub use domain::registered_domain;
pub use held::{Held, Suggestion};
pub use ledger::{Ledger, Pool};
pub use policy::{Budgets, Grouping, Policies, Policy};

/// A time, or a stretch of it, in seconds; times count from the epoch.
pub type Seconds = i64;

pub const HOUR: Seconds = 3_600;
pub const DAY: Seconds = 24 * HOUR;
