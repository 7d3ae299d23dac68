//! The reader from outside: hellos that are built here byte by byte, hellos that real clients sent, and rustls
//! as the oracle. One binary, so that rustls is linked once.

mod build;
mod captured;
mod differential;
mod errors;
mod meaning;
mod oracle;
mod splits;
