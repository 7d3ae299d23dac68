//! The HTTP engine of the data plane: HTTPRoute and GRPCRoute.

pub mod answer;
pub mod auth;
pub mod filters;
pub mod forwarded;
pub mod hop;
pub mod host;
pub mod limits;
pub mod mirror;
pub mod networks;
pub mod request;
pub mod retry;
pub mod session;

#[cfg(test)]
mod testing;
