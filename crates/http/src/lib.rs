//! The HTTP engine of the data plane: HTTPRoute and GRPCRoute.

mod body;
mod client;
mod engine;
mod exchange;
pub mod filters;
pub mod forwarded;
pub mod hop;
pub mod host;
mod local;
pub mod mirror;
pub mod networks;
pub mod request;
mod rules;
mod upstream;

#[cfg(test)]
mod testing;

pub use engine::{Engine, Options};
