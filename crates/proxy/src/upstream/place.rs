//! Where this process runs, as far as it decides which addresses may be endpoints. A manifest must not make the
//! data plane talk to its own admin port, nor, unless a folder of the machine's owner says so, to what listens
//! on the machine or its link alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use crate::Settings;
use crate::observe::Ledger;

#[derive(Clone, Debug)]
pub(crate) struct Place {
    forbidden: Vec<SocketAddr>,
    pub(super) zone: Option<Arc<str>>,
    /// Where backends are counted.
    pub(crate) ledger: Arc<Ledger>,
}

impl Place {
    pub(crate) fn new(settings: &Settings) -> Self {
        let forbidden = settings.forbidden.iter().copied().map(canonical).collect();
        Self { forbidden, zone: settings.zone.clone(), ledger: Ledger::new(settings.workers) }
    }

    /// Whether a backend may have this endpoint.
    pub(crate) fn permits(&self, address: SocketAddr, allow_loopback: bool) -> bool {
        let address = canonical(address);
        (allow_loopback || !is_of_the_machine(address.ip())) && !self.is_own(address)
    }

    /// Whether Tidegate itself would answer there.
    fn is_own(&self, address: SocketAddr) -> bool {
        let reached = SocketAddr::new(reached(address.ip()), address.port());
        self.forbidden.iter().any(|own| {
            own.port() == address.port()
                && (own.ip() == reached.ip() || own.ip().is_unspecified() && is_local(reached.ip()))
        })
    }
}

/// An IPv4 address that is written as an IPv6 one is still that address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Linux connects to loopback where it is asked for no address in particular.
fn reached(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

/// What the API server lets no EndpointSlice have either: loopback, the link (the metadata services of clouds
/// among it), no address in particular. A name may resolve to anything, so it is asked here for all.
fn is_of_the_machine(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let link_multicast = v4.octets()[..3] == [224, 0, 0];
            v4.octets()[0] == 0
                || v4.is_loopback()
                || v4.is_link_local()
                || link_multicast
                || v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            let link_multicast = matches!(v6.octets(), [0xff, scope, ..] if scope & 0x0f <= 2);
            // `::127.0.0.1` and its like: nobody routes them, and nobody needs them.
            let compatible = v6.segments()[..6] == [0; 6];
            compatible || v6.is_unicast_link_local() || link_multicast
        }
    }
}

/// Whether this machine has the address: it can be bound. A kernel that lets any address be bound
/// (`ip_nonlocal_bind`) makes this say yes too often, which is the safe side.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(forbidden: &[&str]) -> Place {
        let forbidden = forbidden.iter().map(|address| address.parse().unwrap()).collect();
        Place::new(&Settings { forbidden, ..Settings::default() })
    }

    fn permits(place: &Place, address: &str, allow_loopback: bool) -> bool {
        place.permits(address.parse().unwrap(), allow_loopback)
    }

    #[test]
    fn the_machine_and_its_link_are_for_folders() {
        let place = place(&[]);
        for address in [
            "127.0.0.1:80",
            "127.9.9.9:80",
            "0.0.0.0:80",
            "0.1.2.3:80",
            "169.254.169.254:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "[::]:80",
            "[::1]:80",
            "[::127.0.0.1]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:0.0.0.0]:80",
            "[::ffff:169.254.169.254]:80",
            "[fe80::1]:80",
            "[ff02::1]:80",
        ] {
            assert!(!permits(&place, address, false), "{address}");
            assert!(permits(&place, address, true), "{address}");
        }
        for address in ["10.0.0.1:80", "192.168.1.1:80", "[2001:db8::1]:80", "[fd00::1]:80", "1.1.1.1:53"] {
            assert!(permits(&place, address, false), "{address}");
        }
    }

    #[test]
    fn the_admin_port_is_for_nobody() {
        let v4 = place(&["127.0.0.1:9900"]);
        for address in ["127.0.0.1:9900", "0.0.0.0:9900", "[::ffff:127.0.0.1]:9900", "[::ffff:0.0.0.0]:9900"]
        {
            assert!(!permits(&v4, address, true), "{address}");
        }
        for address in ["127.0.0.1:9901", "127.0.0.2:9900", "[::1]:9900"] {
            assert!(permits(&v4, address, true), "{address}");
        }
        let v6 = place(&["[::1]:9900"]);
        assert!(!permits(&v6, "[::1]:9900", true));
        assert!(!permits(&v6, "[::]:9900", true));
        let mapped = place(&["[::ffff:10.1.2.3]:9900"]);
        assert!(!permits(&mapped, "10.1.2.3:9900", true));
        assert!(permits(&mapped, "10.1.2.4:9900", true));
    }

    #[test]
    fn an_admin_port_on_every_address_is_forbidden_on_those_of_the_machine() {
        for wildcard in ["0.0.0.0:9900", "[::]:9900"] {
            let place = place(&[wildcard]);
            for address in ["127.0.0.1:9900", "127.0.0.2:9900", "0.0.0.0:9900", "[::1]:9900", "[::]:9900"] {
                assert!(!permits(&place, address, true), "{wildcard} {address}");
            }
            // From the blocks for documentation: no machine has it.
            assert!(permits(&place, "192.0.2.1:9900", true), "{wildcard}");
            assert!(permits(&place, "127.0.0.1:9901", true), "{wildcard}");
        }
    }
}
