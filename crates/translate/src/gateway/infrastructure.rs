//! What a Gateway asks of the objects that are made for it.

use std::collections::BTreeMap;

use tidegate_api::gateway::Gateway;
use tidegate_api::status::Reason;

use crate::conditions::{Fault, kind_name};

const NAME_LABEL: &str = "gateway.networking.k8s.io/gateway-name";
const CLASS_LABEL: &str = "gateway.networking.k8s.io/gateway-class-name";

/// Labels and annotations for every object that is generated for the Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Infrastructure {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl Infrastructure {
    pub(super) fn of(gateway: &Gateway) -> Self {
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
        Self { labels, annotations }
    }
}

/// A label takes 63 characters: a longer name is cut and told apart by a hash of the whole.
fn label_value(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    // FNV-1a: stable for ever, and all it has to do is to tell names apart.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}-{:08x}", name[..54].trim_end_matches(['-', '.']), hash & 0xffff_ffff)
}

/// No kind of parameters is known, so that every reference is one too many.
pub(super) fn parameters_fault(gateway: &Gateway) -> Option<Fault> {
    let reference = gateway.spec.infrastructure.as_ref()?.parameters_ref.as_ref()?;
    let kind = kind_name(reference.group.as_str(), reference.kind.as_str());
    let message =
        format!("spec.infrastructure.parametersRef: {kind} is not known here; remove the reference");
    Some(Fault::new(Reason::InvalidParameters, message))
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
