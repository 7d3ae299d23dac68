//! Lists of networks: whose word about where a request came from is taken.

use std::net::IpAddr;
use std::str::FromStr;

/// Networks whose machines are believed what they say of the clients behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

/// An address with how many of its leading bits count: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// As an IPv6 address; those of IPv4 are mapped into it.
    bits: u128,
    mask: u128,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no network: write an address, or an address with its number of bits as in 10.0.0.0/8")]
pub struct NetworkError(String);

impl Networks {
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        let bits = mapped(address);
        self.0.iter().any(|network| bits & network.mask == network.bits)
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<T: IntoIterator<Item = Network>>(networks: T) -> Self {
        Self(networks.into_iter().collect())
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let own: u32 = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => own,
            Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().ok().filter(|length| *length <= own).ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        let mask = u128::MAX.checked_shl(own - length).unwrap_or(0);
        // An address with bits below the mask is meant as the network it is in.
        Ok(Self { bits: mapped(address) & mask, mask })
    }
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.0.0.1", "::10.0.0.1"),
            ("192.168.1.1", "192.168.1.1", "192.168.1.2"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("::1", "::1", "::2"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
        ] {
            let networks: Networks = [network.parse().unwrap()].into_iter().collect();
            assert!(networks.contain(inside.parse().unwrap()), "{network} {inside}");
            assert!(!networks.contain(outside.parse().unwrap()), "{network} {outside}");
        }
        let all: Networks = ["::/0".parse().unwrap()].into_iter().collect();
        assert!(all.contain("1.2.3.4".parse().unwrap()) && all.contain("::1".parse().unwrap()));
        assert!(!Networks::default().contain("1.2.3.4".parse().unwrap()));
    }

    #[test]
    fn what_is_no_network() {
        for text in
            ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/+8", "a/8", "10.0.0.0/8/8"]
        {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is no network")), "{error}");
        }
    }
}
