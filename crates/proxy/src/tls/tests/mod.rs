//! Two ends of TLS in one process and no socket between them.

mod certificates;
mod codec;
mod keys;
mod resumption;
mod server;
mod splits;
mod support;
mod upstream;
