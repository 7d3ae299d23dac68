//! What Gateways, routes and policies mean: resources in; plan, statuses and certificate requests out.
//!
//! A pure function: no I/O, no clock. One bad object spoils only itself and what refers to it. Conditions are
//! values that are returned; who writes them, and when they changed, is the caller's business.

mod authority;
mod backend;
mod certificate;
mod class;
mod conditions;
mod credentials;
mod features;
mod gateway;
mod issuer;
mod lookup;
mod options;
mod parameters;
mod resources;
mod route;
mod settings;
mod translation;
mod translator;
mod wants;

pub use gateway::{AskedAddress, Infrastructure, short_hash, shortened};
pub use resources::{CERTIFICATE_OF, ISSUED_BY, Objects, Resources, STAND_IN};
pub use settings::{BundleVersion, CONTROLLER_NAME, Channel, Settings, Source};
pub use translation::{
    Attachment, Delta, Issuer, LeftOut, Note, RouteAttachments, Translation, Verdict, Wanted, Wants,
    WhyLeftOut,
};
pub use translator::{Change, Translator};

/// Translates everything at once.
#[must_use]
pub fn translate(resources: &Resources, settings: &Settings) -> Translation {
    let mut translator = Translator::new(settings.clone());
    translator.apply(resources.iter().map(Change::Upsert));
    translator.into_translation()
}
