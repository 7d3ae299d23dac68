//! The HTTP engine of the data plane: HTTPRoute and GRPCRoute.

pub mod answer;
pub mod auth;
mod body;
mod client;
mod clock;
mod cork;
mod engine;
mod exchange;
pub mod filters;
mod flush;
pub mod forwarded;
pub mod h1;
pub mod hop;
pub mod host;
pub mod limits;
pub mod mirror;
pub mod networks;
pub mod request;
pub mod retry;
mod rules;
pub mod session;
mod tunnel;
mod upstream;
mod wire;

#[cfg(test)]
mod testing;

/// What the tests of the engine are made with, for those of its inside.
#[cfg(test)]
extern crate self as tidegate_http;
#[cfg(test)]
#[path = "../tests/engine/gate.rs"]
#[allow(dead_code, reason = "used in part")]
mod gate;
#[cfg(test)]
#[path = "../tests/engine/backend.rs"]
#[allow(dead_code, reason = "used in part")]
mod served;
#[cfg(test)]
#[path = "../tests/engine/client.rs"]
#[allow(dead_code, reason = "used in part")]
mod visitor;

pub use engine::{Engine, Options};
