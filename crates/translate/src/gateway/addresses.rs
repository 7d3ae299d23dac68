//! The addresses that a Gateway asks for.

use std::net::IpAddr;

use tidegate_api::gateway::Gateway;
use tidegate_api::status::Reason;

use crate::conditions::Fault;
use crate::settings::Source;

/// The IP addresses that were named, and what is wrong with the list. An address without a value is for the
/// implementation to choose.
pub(super) fn requested(gateway: &Gateway, source: Source) -> (Vec<IpAddr>, Option<Fault>) {
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
        } else if !address.value.is_empty() {
            match address.value.parse() {
                Ok(ip) => addresses.push(ip),
                Err(_) => refuse(format!(
                    "`{}` is not an IP address; write one like 192.0.2.1 or 2001:db8::1",
                    address.value
                )),
            }
        }
    }
    (addresses, Fault::joined(&faults))
}
