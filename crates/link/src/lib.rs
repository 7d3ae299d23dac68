//! The way of plans, endpoints and keys from a controller to its data planes.
//!
//! A [`Server`] belongs to a controller and knows nothing of Kubernetes: who a data plane is it asks of [`Tokens`], and
//! its [`Authority`] is kept by the caller. A [`Client`] belongs to a data plane, which it knows as a [`DataPlane`].

mod authority;
mod client;
mod identity;
mod limits;
mod server;
mod wire;

#[cfg(test)]
mod tests;

pub use authority::{Authority, AuthorityError, SERVER_NAME, Trust};
pub use client::{Changed, Client, ClientOptions, DataPlane, Note};
pub use identity::{IdentityError, NamePart, ProxyIdentity};
pub use limits::Limits;
pub use server::{Denied, Event, Publisher, Reports, Server, ServerError, Tokens};
