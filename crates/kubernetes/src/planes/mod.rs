//! Data planes: for each Gateway the objects that it needs, kept as they shall be while this replica leads.

mod drift;
mod exposure;
mod keep;
mod kind;
mod names;
mod objects;
mod state;

pub(crate) use exposure::{Addresses, addresses, exposures};
pub(crate) use keep::Keeper;
pub(crate) use names::plane as plane_name;
pub(crate) use objects::Plane;
pub(crate) use state::{Planes, Wanted};
