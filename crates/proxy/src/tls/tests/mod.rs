//! Two ends of TLS in one process and no socket between them.

mod certificates;
mod codec;
mod kept;
mod keys;
mod resumption;
mod server;
mod splits;
pub(crate) mod support;
mod upstream;
