//! The HTTP engine of the data plane: HTTPRoute and GRPCRoute.

pub mod filters;
pub mod forwarded;
pub mod hop;
pub mod host;
pub mod mirror;
pub mod networks;
pub mod request;

#[cfg(test)]
mod testing;
