//! The number of replicas when parameters stop saying it. Who lets go of a field that nobody else has makes the API
//! server put its default there: 1, however many there are. So it is handed on first, as it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value as Json, json};

use super::kind::{Managed, ManagedKind};
use crate::FIELD_MANAGER;

/// Who has the number until an autoscaler or a person sets it.
const HEIR: &str = "tidegate-replicas";

/// Sees to it that applying `managed` leaves the number of replicas as it is, where it does not speak of it.
pub(super) async fn hand_on(api: &Api<DynamicObject>, managed: &Managed) -> Result<(), kube::Error> {
    let says_it = !managed.body["spec"]["replicas"].is_null();
    if managed.kind != ManagedKind::Deployment || says_it {
        return Ok(());
    }
    let Some(there) = api.get_opt(&managed.name.name).await? else { return Ok(()) };
    if !is_ours(there.metadata.managed_fields.as_deref().unwrap_or_default()) {
        return Ok(());
    }
    let handed = json!({
        "apiVersion": managed.kind.api_version(),
        "kind": managed.kind.as_str(),
        "metadata": {"name": &*managed.name.name, "namespace": &*managed.name.namespace},
        "spec": {"replicas": there.data["spec"]["replicas"]},
    });
    let params = PatchParams::apply(HEIR).force();
    api.patch(&managed.name.name, &params, &Patch::Apply(&handed)).await.map(|_| ())
}

fn is_ours(fields: &[ManagedFieldsEntry]) -> bool {
    let has_replicas = |fields: &Json| !fields["f:spec"]["f:replicas"].is_null();
    fields.iter().any(|entry| {
        entry.manager.as_deref() == Some(FIELD_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.fields_v1.as_ref().is_some_and(|fields| has_replicas(&fields.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ours_where_we_applied_it() {
        let entry = |manager: &str, operation: &str, fields: Json| -> ManagedFieldsEntry {
            let entry = json!({"manager": manager, "operation": operation, "fieldsV1": fields});
            serde_json::from_value(entry).expect("an entry")
        };
        let with = json!({"f:spec": {"f:replicas": {}}});
        let without = json!({"f:spec": {"f:template": {}}});
        assert!(is_ours(&[
            entry("kubectl", "Update", without.clone()),
            entry("tidegate", "Apply", with.clone())
        ]));
        assert!(!is_ours(&[entry("tidegate", "Apply", without), entry("kubectl", "Update", with)]));
        assert!(!is_ours(&[]));
    }
}
