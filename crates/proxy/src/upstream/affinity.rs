//! Which endpoint is a client's own (Service `sessionAffinity: ClientIP`), without remembering clients.
//!
//! The endpoint with the highest hash of both addresses is it: a client keeps its endpoint while that is there,
//! on every worker and replica, and across restarts. The Service's timeout says for how long a client that stays
//! away may count on that; nothing is promised to change after it, so it asks nothing of a choice that never
//! forgets.

use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;

use foldhash::quality::FixedState;

/// An IPv4 client is the same client on a socket for both families.
pub(super) fn client(address: IpAddr) -> u64 {
    hash(&address.to_canonical())
}

pub(super) fn hash(address: &impl Hash) -> u64 {
    FixedState::with_seed(0x7469_6465_6761_7465).hash_one(address)
}
