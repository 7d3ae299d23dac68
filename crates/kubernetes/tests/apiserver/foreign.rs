//! Objects that have the name of one of ours and are somebody else's.

use kube::Client;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value as Json, json};

use crate::server::{api, apply, eventually};
use crate::{Controller, GATEWAY_API, condition, gateway, gateway_has, get, tcp};

/// Two names that are both cut, and whose hashes are the same.
const TWINS: [&str; 2] =
    ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0g7qh69oth", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaawiuj88eei1"];
const TWINS_NAME: &str = "tidegate-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-27bb7cc8";

/// The notes of all Events about an object, found as `kubectl describe` finds them: by its uid.
async fn events(client: &Client, about: &Json) -> Vec<String> {
    let found = api(client, "events.k8s.io/v1", "Event", Some("shop")).list(&ListParams::default()).await;
    let found = found.expect("a list").items.into_iter().map(|event| event.data);
    let found = found.filter(|event| event["regarding"]["uid"] == about["metadata"]["uid"]);
    found.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn message(client: &Client, name: &str) -> String {
    let found = get(client, GATEWAY_API, "Gateway", name).await;
    let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let programmed = conditions.into_iter().find(|one| one["type"] == "Programmed");
    programmed.and_then(|one| Some(one["message"].as_str()?.to_owned())).unwrap_or_default()
}

pub(crate) async fn objects_of_others_are_left_alone(client: &Client) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tidegate-taken", "namespace": "shop"},
        "data": {"theirs": "1"},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "tidegate-taken", "namespace": "shop"},
        "spec": {"ports": [{"name": "theirs", "port": 1}]},
    });
    apply(client, &map).await;
    apply(client, &service).await;
    let before = (
        get(client, "v1", "ConfigMap", "tidegate-taken").await,
        get(client, "v1", "Service", "tidegate-taken").await,
    );
    apply(client, &gateway("taken", tcp(7100))).await;
    eventually("the status names what is in the way", async || {
        message(client, "taken").await.contains("ConfigMap shop/tidegate-taken cannot be applied")
    })
    .await;
    let about = get(client, GATEWAY_API, "Gateway", "taken").await;
    eventually("so does an Event that is shown with the Gateway", async || {
        events(client, &about)
            .await
            .iter()
            .any(|note| note.contains("tidegate-taken") && note.contains("not this Gateway's"))
    })
    .await;
    let after = (
        get(client, "v1", "ConfigMap", "tidegate-taken").await,
        get(client, "v1", "Service", "tidegate-taken").await,
    );
    assert_eq!(after, before, "they are as they were");

    for kind in ["ConfigMap", "Service"] {
        let objects = api(client, "v1", kind, Some("shop"));
        objects.delete("tidegate-taken", &DeleteParams::default()).await.expect("it can be deleted");
    }
    eventually("what they are not any more is made", async || {
        let map = get(client, "v1", "ConfigMap", "tidegate-taken").await;
        let service = get(client, "v1", "Service", "tidegate-taken").await;
        map["data"]["ca.crt"].is_string() && service["spec"]["ports"][0]["port"] == 7100
    })
    .await;
}

/// `inner` in the network of its hosts and `inner-nodes` both want one Service; and a hash has 32 bits.
pub(crate) async fn names_that_meet_are_one_gateway_s(client: &Client, controller: &Controller) {
    apply(client, &gateway("inner-nodes", tcp(7200))).await;
    eventually("it has its Service", async || {
        !get(client, "v1", "Service", "tidegate-inner-nodes").await.is_null()
    })
    .await;
    let parameters = json!({
        "apiVersion": "gateway.tidegate.io/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "host", "namespace": "shop"}, "spec": {"workload": {"hostNetwork": true}},
    });
    apply(client, &parameters).await;
    let mut inner = tcp(7201);
    inner["infrastructure"] = json!({"parametersRef": {"group": "gateway.tidegate.io", "kind": "GatewayParameters", "name": "host"}});
    apply(client, &gateway("inner", inner)).await;
    eventually("the other is told what is in the way", async || {
        message(client, "inner").await.contains("Service shop/tidegate-inner-nodes cannot be applied")
    })
    .await;
    let service = get(client, "v1", "Service", "tidegate-inner-nodes").await;
    assert_eq!(service["metadata"]["ownerReferences"][0]["name"], "inner-nodes");
    assert_eq!(service["spec"]["ports"][0]["port"], 7200);

    for (name, port) in TWINS.into_iter().zip([7300, 7301]) {
        apply(client, &gateway(name, tcp(port))).await;
        gateway_has(client, name, "Accepted", "True", "Accepted").await;
    }
    let owner = async || {
        let account = get(client, "v1", "ServiceAccount", TWINS_NAME).await;
        account["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default().to_owned()
    };
    eventually("the first has what it needs", async || owner().await == TWINS[0]).await;
    eventually("the second is told whose it is", async || {
        message(client, TWINS[1]).await.contains(&format!("Gateway shop/{} has the name", TWINS[0]))
    })
    .await;
    assert!(controller.has_said(TWINS[0]));
    assert_eq!(owner().await, TWINS[0]);
    let service = get(client, "v1", "Service", TWINS_NAME).await;
    assert_eq!(service["spec"]["ports"][0]["port"], 7300);
    let found = get(client, GATEWAY_API, "Gateway", TWINS[1]).await;
    assert_eq!(condition(&found["status"]["conditions"], "Programmed").0, "False");
}
