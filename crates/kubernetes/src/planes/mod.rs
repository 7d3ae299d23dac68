//! Data planes: for each Gateway the objects that it needs, kept as they shall be while this replica leads.

mod drift;
mod exposure;
mod keep;
mod kind;
mod names;
mod objects;
mod pool;
mod scale;
mod service;
mod state;

pub(crate) use exposure::{Addresses, MAX_ADDRESSES, Reached, Way, addresses, exposures};
pub(crate) use keep::Keeper;
pub(crate) use names::plane as plane_name;
pub(crate) use objects::{NAME_LABEL, Plane, ROLE, ROLE_LABEL};
pub(crate) use pool::{Allotment, Claim, allot, ranges};
pub(crate) use state::{Planes, Wanted};
