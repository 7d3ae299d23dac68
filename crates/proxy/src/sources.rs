//! How many connections each address has, in memory that does not grow with the number of addresses.
//!
//! An address is counted in two rows of cells, in each at the place that its hash names; it has at most as many as the
//! smaller of the two says. Two addresses are taken for one only if they meet in both rows, and with a seed that
//! nobody knows no address can be made to meet another.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use foldhash::quality::RandomState;

pub(crate) struct Sources {
    rows: [Box<[AtomicU32]>; 2],
    seed: RandomState,
}

const CELLS: usize = 1 << 16;

impl Default for Sources {
    fn default() -> Self {
        let row = || (0..CELLS).map(|_| AtomicU32::new(0)).collect();
        Self { rows: [row(), row()], seed: RandomState::default() }
    }
}

impl Sources {
    /// Counts a connection, unless the address has as many as it may.
    pub(crate) fn enter(&self, address: IpAddr, limit: usize) -> bool {
        let cells = self.cells(address);
        let before = cells.map(|cell| cell.fetch_add(1, Relaxed));
        let within = before.iter().any(|count| (*count as usize) < limit);
        if !within {
            self.leave(address);
        }
        within
    }

    pub(crate) fn leave(&self, address: IpAddr) {
        for cell in self.cells(address) {
            cell.fetch_sub(1, Relaxed);
        }
    }

    fn cells(&self, address: IpAddr) -> [&AtomicU32; 2] {
        let hash = self.seed.hash_one(source(address)) as usize;
        [&self.rows[0][hash % CELLS], &self.rows[1][(hash >> 32) % CELLS]]
    }
}

/// One customer of a provider has one IPv4 address, but at least 2^64 of IPv6.
fn source(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        // Of no IPv4 address: these have 32 bits.
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 | 1 << 63,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn an_address_has_as_many_as_it_may() {
        let sources = Sources::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let one = address("192.0.2.1");
        assert!((0..3).all(|_| sources.enter(one, 3)));
        assert!(!sources.enter(one, 3));
        assert!(!sources.enter(address("::ffff:192.0.2.1"), 3));
        assert!(sources.enter(address("192.0.2.2"), 3));
        sources.leave(one);
        assert!(sources.enter(one, 3));
        assert!((0..3).all(|_| sources.enter(address("2001:db8::1"), 3)));
        assert!(!sources.enter(address("2001:db8::2"), 3));
        assert!(sources.enter(address("2001:db8:0:1::1"), 3));
    }

    #[test]
    fn many_addresses_do_not_get_in_each_others_way() {
        let sources = Sources::default();
        let addresses = || (0..10_000_u32).map(|number| IpAddr::V4(Ipv4Addr::from_bits(number)));
        let refused = addresses().filter(|address| !sources.enter(*address, 1)).count();
        // Two in both rows: 10,000 addresses of which each meets 0.15 of another's cells in each.
        assert!(refused < 500, "{refused}");
        addresses().for_each(|address| sources.leave(address));
    }
}
