//! The kinds of Gateway API v1.7.0, both channels, and the core kinds they refer to: how they are written,
//! what they mean when something is left out, and what makes them invalid.
//!
//! After reading, a value is right; nobody behind this crate checks it again. It does no I/O.

pub mod bounded;
pub mod catalogue;
pub mod core;
pub mod filter;
pub mod folder;
mod form;
pub mod gateway;
pub mod grpc_route;
pub mod http_route;
mod json;
mod kind;
mod list;
pub mod listener;
mod meta;
pub mod parameters;
mod plain;
pub mod policy;
mod problem;
pub mod read;
pub mod refs;
mod render;
pub mod route;
mod rules;
pub mod scalar;
pub mod selector;
pub mod session;
pub mod status;
mod tree;
mod write;
pub mod yaml;

pub use kind::{Kind, Object, ObjectKey, Reading, Resource, Spec, read_object};
pub use list::objects;
pub use meta::Meta;
pub use problem::{Problem, Severity};
pub use render::{position, render};
pub use tree::{Key, Node, Span, Value};
pub use write::to_yaml;
