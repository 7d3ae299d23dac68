//! GatewayClasses with our controllerName.

use tidegate_api::gateway::GatewayClass;
use tidegate_api::status::{ConditionType, GatewayClassStatus, Reason};

use crate::conditions::{Fault, holds};
use crate::lookup::Lookup;
use crate::settings::Settings;
use crate::{features, parameters};

/// The Gateway API version that everything here was written for.
const VERSION: &str = "v1.7";

/// `None` for classes of other controllers.
pub(crate) fn status(class: &GatewayClass, lookup: &Lookup<'_>) -> Option<GatewayClassStatus> {
    let settings = lookup.settings;
    if class.spec.controller_name != *settings.controller_name {
        return None;
    }
    let parameters = parameters::of_class(class, lookup).err();
    let generation = class.meta.generation;
    let conditions = vec![
        holds(
            ConditionType::Accepted,
            parameters.as_ref(),
            (Reason::Accepted, "the class is ours"),
            generation,
        ),
        holds(
            ConditionType::SupportedVersion,
            unsupported_version(settings).as_ref(),
            (Reason::SupportedVersion, "Gateway API v1.7"),
            generation,
        ),
    ];
    Some(GatewayClassStatus { conditions, supported_features: features::supported(settings.channel) })
}

fn unsupported_version(settings: &Settings) -> Option<Fault> {
    let bad: Vec<String> = settings
        .bundle
        .iter()
        .flatten()
        .filter_map(|crd| match &crd.version {
            None => Some(format!("CRD {} does not say its version", crd.crd)),
            Some(version) if version == VERSION || version.starts_with(&format!("{VERSION}.")) => None,
            Some(version) => Some(format!("CRD {} is of {version}", crd.crd)),
        })
        .collect();
    (!bad.is_empty()).then(|| {
        Fault::new(
            Reason::UnsupportedVersion,
            format!("{}; install the CRDs of Gateway API {VERSION}", bad.join("; ")),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::BundleVersion;

    fn fault(version: Option<&str>) -> Option<Fault> {
        let crd = BundleVersion {
            crd: "gateways.gateway.networking.k8s.io".to_owned(),
            version: version.map(ToOwned::to_owned),
        };
        unsupported_version(&Settings { bundle: Some(vec![crd]), ..Settings::folder() })
    }

    #[test]
    fn a_patch_release_is_the_same_version() {
        for version in ["v1.7", "v1.7.0", "v1.7.12", "v1.7.0-rc.1"] {
            assert_eq!(fault(Some(version)), None, "{version}");
        }
    }

    #[test]
    fn other_versions_are_not_supported() {
        for version in ["v1.6.0", "v1.70.0", "v1.8.0", "1.7.0", "", "main"] {
            let fault = fault(Some(version)).expect(version);
            assert_eq!(fault.reason, Reason::UnsupportedVersion);
        }
        assert!(fault(None).unwrap().message.contains("does not say its version"));
    }

    #[test]
    fn a_folder_has_no_crds_to_ask() {
        assert_eq!(unsupported_version(&Settings::folder()), None);
    }
}
