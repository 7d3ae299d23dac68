//! GatewayClasses with our controllerName.

use tidegate_api::gateway::GatewayClass;
use tidegate_api::status::{ConditionType, GatewayClassStatus, Reason};

use crate::conditions::{Fault, holds};
use crate::features;
use crate::settings::Settings;

/// The Gateway API version that everything here was written for.
const VERSION: &str = "v1.7";

/// `None` for classes of other controllers.
pub(crate) fn status(class: &GatewayClass, settings: &Settings) -> Option<GatewayClassStatus> {
    if class.spec.controller_name != *settings.controller_name {
        return None;
    }
    let parameters = class.spec.parameters_ref.as_ref().map(|reference| {
        let message = format!(
            "spec.parametersRef: {} of group \"{}\" is not a kind of parameters; remove the reference",
            reference.kind, reference.group
        );
        Fault::new(Reason::InvalidParameters, message)
    });
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
            Some(version) => Some(format!("CRD {} is of version {version}", crd.crd)),
        })
        .collect();
    (!bad.is_empty()).then(|| {
        Fault::new(Reason::UnsupportedVersion, format!("{}; Tidegate was made for {VERSION}", bad.join("; ")))
    })
}
