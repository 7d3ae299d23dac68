//! GatewayParameters that a class or a Gateway refers to.

use std::sync::Arc;

use tidegate_api::gateway::{Gateway, GatewayClass};
use tidegate_api::parameters::{
    GatewayParameters, GatewayParametersSpec, PARAMETERS_GROUP, PARAMETERS_KIND, merged,
};
use tidegate_api::status::Reason;
use tidegate_plan::ObjectName;

use crate::conditions::{Fault, kind_name};
use crate::lookup::Lookup;

/// Those of a class, where it refers to any.
pub(crate) fn of_class<'a>(
    class: &GatewayClass,
    lookup: &Lookup<'a>,
) -> Result<Option<&'a Arc<GatewayParameters>>, Fault> {
    let Some(reference) = &class.spec.parameters_ref else { return Ok(None) };
    let place = "spec.parametersRef";
    known(reference.group.as_str(), reference.kind.as_str(), place)?;
    let Some(namespace) = &reference.namespace else {
        let message =
            format!("{place}: {PARAMETERS_KIND} are in a namespace, and none is named; write `namespace`");
        return Err(Fault::new(Reason::InvalidParameters, message));
    };
    find(&ObjectName::new(namespace.shared(), reference.name.shared()), place, lookup).map(Some)
}

/// Those of a Gateway over those of its class.
pub(crate) fn of_gateway(
    gateway: &Gateway,
    class: &GatewayClass,
    lookup: &Lookup<'_>,
) -> Result<GatewayParametersSpec, Fault> {
    let of_class = of_class(class, lookup)
        .map_err(|fault| fault.at(&format!("GatewayClass {} is not accepted", class.meta.name)))?;
    let reference = gateway.spec.infrastructure.as_ref().and_then(|asked| asked.parameters_ref.as_ref());
    let own = match reference {
        None => None,
        Some(reference) => {
            let place = "spec.infrastructure.parametersRef";
            known(reference.group.as_str(), reference.kind.as_str(), place)?;
            let name = ObjectName::new(Arc::clone(&gateway.meta.namespace), reference.name.shared());
            Some(find(&name, place, lookup)?)
        }
    };
    Ok(merged(of_class.map(|found| &found.spec), own.map(|found| &found.spec)))
}

fn known(group: &str, kind: &str, place: &str) -> Result<(), Fault> {
    if group == PARAMETERS_GROUP && kind == PARAMETERS_KIND {
        return Ok(());
    }
    let kind = kind_name(group, kind);
    let message = format!(
        "{place}: {kind} is not known here; refer to a {PARAMETERS_KIND} of group {PARAMETERS_GROUP}, or remove the reference"
    );
    Err(Fault::new(Reason::InvalidParameters, message))
}

fn find<'a>(
    name: &ObjectName,
    place: &str,
    lookup: &Lookup<'a>,
) -> Result<&'a Arc<GatewayParameters>, Fault> {
    lookup.parameters(name).ok_or_else(|| {
        let message = format!("{place}: there is no valid {PARAMETERS_KIND} {name}");
        Fault::new(Reason::InvalidParameters, message)
    })
}
