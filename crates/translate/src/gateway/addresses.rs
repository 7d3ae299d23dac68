//! The addresses that a Gateway asks for.

use std::net::IpAddr;

use tidegate_api::gateway::Gateway;
use tidegate_api::status::Reason;

use crate::conditions::Fault;
use crate::settings::Source;

/// An address that a Gateway asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskedAddress {
    /// `None`: any.
    pub ip: Option<IpAddr>,
    /// Reached from inside the cluster only.
    pub in_cluster: bool,
}

/// The addresses that were asked for, and what is wrong with the list.
pub(super) fn requested(gateway: &Gateway, source: Source) -> (Vec<AskedAddress>, Option<Fault>) {
    let mut addresses = Vec::new();
    let mut faults = Vec::new();
    for (index, address) in gateway.spec.addresses.iter().enumerate() {
        let mut refuse = |message: String| {
            faults
                .push(Fault::new(Reason::UnsupportedAddress, format!("spec.addresses[{index}]: {message}")));
        };
        if address.kind != "IPAddress" {
            refuse(format!("addresses of type {} are not supported; use IPAddress", address.kind));
        } else if !matches!(address.routability.as_str(), "" | "Cluster") {
            refuse(format!(
                "routability {} is not supported; use Cluster or leave it out",
                address.routability
            ));
        } else if address.routability == "Cluster" && source == Source::Folder {
            refuse("routability Cluster has no meaning without a cluster; leave it out".to_owned());
        } else if address.value.is_empty() {
            addresses.push(AskedAddress { ip: None, in_cluster: address.routability == "Cluster" });
        } else {
            match address.value.parse() {
                Ok(ip) => {
                    addresses
                        .push(AskedAddress { ip: Some(ip), in_cluster: address.routability == "Cluster" });
                }
                Err(_) => refuse(format!(
                    "`{}` is not an IP address; write one like 192.0.2.1 or 2001:db8::1",
                    address.value
                )),
            }
        }
    }
    (addresses, Fault::joined(&faults))
}
