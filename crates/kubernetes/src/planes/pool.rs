//! Addresses out of a pool, for data planes in the host's network: addresses that a router, VRRP or the like brings to
//! the nodes. Each is one Gateway's alone, and stays that Gateway's for as long as it wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::{IpAddrRange, IpNet, Ipv4AddrRange, Ipv6AddrRange};
use tidegate_plan::ObjectName;
use tidegate_translate::Infrastructure;

/// What each Gateway with a pool has out of it.
pub(crate) type Allotment = BTreeMap<ObjectName, Vec<IpAddr>>;

/// What one Gateway may have, wants, and has.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) gateway: ObjectName,
    pub(crate) ranges: Vec<IpNet>,
    /// Without any, one of each family is given that the ranges have.
    pub(crate) asked: Vec<IpAddr>,
    pub(crate) had: Vec<IpAddr>,
}

/// The pool of a Gateway, where it is in the host's network and has one.
pub(crate) fn ranges(asked: &Infrastructure) -> Option<Vec<IpNet>> {
    let workload =
        asked.parameters.workload.as_ref().filter(|workload| workload.host_network == Some(true))?;
    let entries = workload.address_pool.as_ref()?;
    let range = |text: &String| text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok();
    Some(entries.iter().filter_map(range).collect())
}

/// Gives addresses out: first what Gateways have already, then what they ask for by name, then what is free. Among
/// equals the first claim goes first.
pub(crate) fn allot(claims: &[Claim]) -> Allotment {
    let mut taken = BTreeSet::new();
    let mut given: Vec<Vec<IpAddr>> = vec![Vec::new(); claims.len()];
    for (claim, given) in claims.iter().zip(&mut given) {
        let kept = claim.had.iter().filter(|ip| claim.asked.is_empty() || claim.asked.contains(ip));
        take(claim, kept, given, &mut taken);
    }
    for (claim, given) in claims.iter().zip(&mut given) {
        take(claim, claim.asked.iter(), given, &mut taken);
    }
    for (claim, given) in claims.iter().zip(&mut given).filter(|(claim, _)| claim.asked.is_empty()) {
        for is_v4 in [true, false] {
            if given.iter().any(|ip| ip.is_ipv4() == is_v4) {
                continue;
            }
            let of_family = claim.ranges.iter().filter(|range| range.network().is_ipv4() == is_v4);
            let free = of_family.flat_map(every).find(|ip| !taken.contains(ip));
            take(claim, free.iter(), given, &mut taken);
        }
    }
    claims.iter().map(|claim| claim.gateway.clone()).zip(given).collect()
}

fn take<'a>(
    claim: &Claim,
    wanted: impl Iterator<Item = &'a IpAddr>,
    given: &mut Vec<IpAddr>,
    taken: &mut BTreeSet<IpAddr>,
) {
    for ip in wanted.filter(|ip| claim.ranges.iter().any(|range| range.contains(*ip))) {
        if taken.insert(*ip) {
            given.push(*ip);
        }
    }
}

/// Every address of a range: the first and last of a network too, since these are addresses by themselves.
fn every(range: &IpNet) -> IpAddrRange {
    match range {
        IpNet::V4(range) => IpAddrRange::V4(Ipv4AddrRange::new(range.network(), range.broadcast())),
        IpNet::V6(range) => IpAddrRange::V6(Ipv6AddrRange::new(range.network(), range.broadcast())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(all: &[&str]) -> Vec<IpAddr> {
        all.iter().map(|ip| ip.parse().expect("an IP")).collect()
    }

    fn claim(name: &str, ranges: &[&str], asked: &[&str], had: &[&str]) -> Claim {
        Claim {
            gateway: ObjectName::new("infra", name),
            ranges: ranges.iter().map(|range| range.parse().expect("a range")).collect(),
            asked: ips(asked),
            had: ips(had),
        }
    }

    fn given(claims: &[Claim]) -> Vec<Vec<IpAddr>> {
        let allotment = allot(claims);
        claims.iter().map(|claim| allotment[&claim.gateway].clone()).collect()
    }

    const POOL: &[&str] = &["192.0.2.0/30"];

    #[test]
    fn each_gateway_gets_one_of_its_own() {
        let claims: Vec<Claim> = ["a", "b", "c", "d", "e"].map(|name| claim(name, POOL, &[], &[])).into();
        let given = given(&claims);
        let firsts: Vec<String> = given.iter().flatten().map(ToString::to_string).collect();
        assert_eq!(firsts, ["192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3"]);
        assert!(given[4].is_empty(), "there are four addresses");
    }

    #[test]
    fn one_of_each_family() {
        let both = claim("a", &["2001:db8::/120", "192.0.2.7/32"], &[], &[]);
        assert_eq!(given(&[both]), [ips(&["192.0.2.7", "2001:db8::"])]);
    }

    #[test]
    fn what_a_gateway_has_it_keeps() {
        let claims = [claim("a", POOL, &[], &[]), claim("b", POOL, &[], &["192.0.2.0"])];
        assert_eq!(given(&claims), [ips(&["192.0.2.1"]), ips(&["192.0.2.0"])]);
        let asked = [claim("a", POOL, &["192.0.2.0"], &[]), claim("b", POOL, &[], &["192.0.2.0"])];
        assert!(given(&asked)[0].is_empty(), "another has it");
    }

    #[test]
    fn who_asks_by_name_goes_before_who_takes_any() {
        let claims = [claim("a", POOL, &[], &[]), claim("b", POOL, &["192.0.2.0"], &["192.0.2.3"])];
        assert_eq!(given(&claims), [ips(&["192.0.2.1"]), ips(&["192.0.2.0"])]);
    }

    #[test]
    fn addresses_outside_the_pool_are_not_given() {
        let claims = [claim("a", POOL, &["198.51.100.1"], &[]), claim("b", POOL, &[], &["198.51.100.1"])];
        assert_eq!(given(&claims), [vec![], ips(&["192.0.2.0"])]);
    }
}
