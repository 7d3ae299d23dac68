//! What Gateways, routes and policies mean: resources in; plan, statuses and certificate requests out.
//!
//! A pure function: no I/O, no clock. One bad object spoils only itself and what refers to it. Conditions are
//! values that are returned; who writes them, and when they changed, is the caller's business.

mod resources;
mod settings;
mod translation;

pub use resources::Resources;
pub use settings::{BundleVersion, Channel, Settings, Source};
pub use translation::{
    Attachment, Delta, Issuer, LeftOut, Note, RouteAttachments, Translation, Verdict, Wanted, Wants,
    WhyLeftOut,
};
