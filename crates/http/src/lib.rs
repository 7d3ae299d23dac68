//! The HTTP engine of the data plane: HTTPRoute and GRPCRoute.

pub mod answer;
pub mod auth;
mod body;
mod client;
mod engine;
mod exchange;
pub mod filters;
pub mod forwarded;
pub mod hop;
pub mod host;
pub mod limits;
mod local;
pub mod mirror;
pub mod networks;
pub mod request;
pub mod retry;
mod rules;
pub mod session;
mod upstream;

#[cfg(test)]
mod testing;

pub use engine::{Engine, Options};
