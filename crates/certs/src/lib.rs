//! Which certificate, when, from whom.
//!
//! What to ask for is decided by [`Book`], which is pure: it is told the time, what is wanted and what became of
//! orders. The issuers, the store and the loop that connects them are around it. Nothing here knows Kubernetes or a
//! socket of the data plane.

mod acme;
mod backoff;
mod book;
mod decide;
mod demand;
mod domain;
mod embedded;
mod hash;
mod held;
mod issuance;
mod ledger;
mod policy;
mod record;
mod store;

pub use acme::{
    Acme, AcmeError, AcmeSettings, Answer, ChallengeKind, Challenges, ExternalAccount, LETS_ENCRYPT,
};
pub use backoff::Setback;
pub use book::{Book, Failure, Order, Why};
pub use decide::{Decision, Late, State};
pub use demand::{Claim, Conflict, DEFAULT_ACCOUNT, Demand, Issuer, Target, Want, WantedName};
pub use domain::registered_domain;
pub use embedded::{Authority, AuthorityError, EmbeddedSettings, stand_in};
pub use held::{Held, Suggestion, Timing};
pub use issuance::{Issuance, Issuers, Picture};
pub use ledger::{Ledger, Pool};
pub use policy::{Budgets, Grouping, Policies, Policy};
pub use record::{Certificate, Intent, Unusable};
pub use store::{Boxed, Document, FolderStore, Shelf, Store, StoreError};

/// A time, or a stretch of it, in seconds; times count from the epoch.
pub type Seconds = i64;

pub const HOUR: Seconds = 3_600;
pub const DAY: Seconds = 24 * HOUR;
