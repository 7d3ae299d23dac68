//! What a Gateway asks of the objects that are made for it.

use std::collections::BTreeMap;

use tidegate_api::gateway::Gateway;
use tidegate_api::parameters::GatewayParametersSpec;

use super::addresses::AskedAddress;

const NAME_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
const CLASS_LABEL: &str = "gateway.networking.k8s.io/gateway-class-name";

/// What is to be generated for a Gateway that is accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Infrastructure {
    /// The owner of what is generated.
    pub uid: String,
    pub addresses: Vec<AskedAddress>,
    /// Those of the Gateway over those of its class.
    pub parameters: GatewayParametersSpec,
    /// For every object that is generated.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl Infrastructure {
    pub(super) fn of(
        gateway: &Gateway,
        addresses: &[AskedAddress],
        parameters: GatewayParametersSpec,
    ) -> Self {
        let mut labels = BTreeMap::new();
        let mut annotations = BTreeMap::new();
        if let Some(infrastructure) = &gateway.spec.infrastructure {
            labels.extend(infrastructure.labels.iter().map(|(key, value)| (key.clone(), value.to_string())));
            annotations.extend(
                infrastructure.annotations.iter().map(|(key, value)| (key.clone(), value.to_string())),
            );
        }
        labels.insert(NAME_LABEL.to_owned(), label_value(&gateway.meta.name));
        labels.insert(CLASS_LABEL.to_owned(), label_value(gateway.spec.gateway_class_name.as_str()));
        Self { uid: gateway.meta.uid.clone(), addresses: addresses.to_vec(), parameters, labels, annotations }
    }
}

/// A label takes 63 characters.
fn label_value(name: &str) -> String {
    shortened(name, 63)
}

/// A name of more than `max` characters is cut and told apart by a hash of the whole.
#[must_use]
pub fn shortened(name: &str, max: usize) -> String {
    if name.len() <= max {
        return name.to_owned();
    }
    let cut = name.floor_char_boundary(max.saturating_sub(9));
    format!("{}-{}", name[..cut].trim_end_matches(['-', '.']), short_hash(name))
}

/// Eight characters that tell names apart. FNV-1a: stable for ever, and that is all it has to be.
#[must_use]
pub fn short_hash(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:08x}", hash & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_never_too_long_and_tells_names_apart() {
        assert_eq!(label_value("web"), "web");
        let whole = "a".repeat(63);
        assert_eq!(label_value(&whole), whole);
        let (one, other) = (format!("{whole}1"), format!("{whole}2"));
        assert_eq!(label_value(&one).len(), 63);
        assert_ne!(label_value(&one), label_value(&other));
        let dotted = format!("{}.{}", "a".repeat(53), "b".repeat(40));
        assert!(!label_value(&dotted).contains(".-"), "{}", label_value(&dotted));
    }
}
