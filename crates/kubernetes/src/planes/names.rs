//! Names of what is made for a Gateway.
//!
//! Everything is called `tidegate-NAME` after its Gateway. Where that has more than 52 characters, or dots, which some
//! kinds do not take, dots become dashes, it is cut, and a hash of the whole name is put behind it. A name that ends as
//! if it had one gets one too, so that nobody can call a Gateway by the name that another has got. Services for an
//! address that was asked for have a hash of the address behind that.
//!
//! Two names may still meet: a hash has 32 bits, and `web-cluster` may be a Gateway as well as what is made for `web`.
//! Then an object is whose it was first (`keep`), and the ServiceAccount the older Gateway's.

use std::net::IpAddr;

use tidegate_translate::{short_hash, shortened};

/// Leaves room in a label for what is put behind it.
const MAX: usize = 52;

pub(crate) fn plane(gateway: &str) -> String {
    let name = format!("tidegate-{gateway}");
    if !name.contains('.') && !has_hash(gateway) {
        return shortened(&name, MAX);
    }
    let cut = name.len().min(MAX - 9);
    format!("{}-{}", name[..cut].replace('.', "-").trim_end_matches('-'), short_hash(&name))
}

/// Whether it ends as names with a hash do.
fn has_hash(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.rsplit_once('-').is_some_and(|(_, end)| end.len() == 8 && end.bytes().all(is_digit))
}

/// The Service for one address.
pub(crate) fn for_address(gateway: &str, ip: IpAddr) -> String {
    format!("{}-{}", plane(gateway), short_hash(&ip.to_string()))
}

/// The Service that is reached from inside the cluster only.
pub(crate) fn in_cluster(gateway: &str) -> String {
    format!("{}-cluster", plane(gateway))
}

/// The Service that names the nodes of a data plane in the host's network.
pub(crate) fn nodes(gateway: &str) -> String {
    format!("{}-nodes", plane(gateway))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_is_kept() {
        assert_eq!(plane("web"), "tidegate-web");
        assert_eq!(plane("8080"), "tidegate-8080", "a Service's name begins with a letter");
        assert_eq!(plane("web-12345678x"), "tidegate-web-12345678x");
        assert_eq!(plane("20261117"), "tidegate-20261117");
    }

    #[test]
    fn names_are_never_too_long_and_never_the_same() {
        let long = "a".repeat(253);
        let names = [
            "a.b",
            "a-b",
            "a.b.c",
            "a-b.c",
            &long,
            &long[..252],
            &long[..43],
            &long[..44],
            &format!("{}.b", &long[..100]),
            &format!("{}.c", &long[..100]),
            plane("a.b").trim_start_matches("tidegate-"),
            plane(&long).trim_start_matches("tidegate-"),
            for_address("a-b", IpAddr::from([192, 0, 2, 1])).trim_start_matches("tidegate-"),
        ]
        .map(plane);
        for (index, name) in names.iter().enumerate() {
            assert!(name.len() <= MAX, "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{name}");
            assert!(!names[..index].contains(name), "{name}");
        }
        let address = for_address(&long, IpAddr::from([192, 0, 2, 1]));
        assert!(address.len() <= 63 && in_cluster(&long).len() <= 63 && nodes(&long).len() <= 63);
        assert_ne!(address, for_address(&long, IpAddr::from([192, 0, 2, 2])));
    }
}
