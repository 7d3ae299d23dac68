//! The kinds of Gateway API v1.7.0, both channels, and the core kinds they refer to: how they are written,
//! what they mean when something is left out, and what makes them invalid.
//!
//! After reading, a value is right; nobody behind this crate checks it again. It does no I/O.

pub mod bounded;
pub mod core;
pub mod filter;
pub mod gateway;
pub mod grpc_route;
pub mod http_route;
mod kind;
pub mod listener;
mod meta;
pub mod policy;
mod problem;
pub mod read;
pub mod refs;
pub mod route;
mod rules;
pub mod scalar;
pub mod selector;
pub mod session;
pub mod status;
mod tree;
pub mod write;
pub mod yaml;

pub use kind::{Kind, Object, ObjectKey, Reading, Resource, Spec, read_object};
pub use meta::Meta;
pub use problem::{Problem, Severity};
pub use tree::{Key, Node, Span, Value};
