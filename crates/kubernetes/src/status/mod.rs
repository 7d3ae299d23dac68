//! Statuses, through one writer: what is there is remembered from the watch, what is to be written is one entry for
//! each object, and nothing is written that changes nothing.

mod queue;
mod writer;

pub(crate) use queue::{Observed, Statuses};
pub(crate) use tidegate_api::status::merge::has_entries_of;
pub(crate) use writer::{StatusWriter, code};
