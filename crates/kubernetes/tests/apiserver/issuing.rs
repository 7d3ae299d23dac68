//! Certificates of the embedded CA, in Secrets of a real API server.

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value as Json, json};
use tidegate_certs::{EmbeddedSettings, Issuer, Policies, Policy};
use tidegate_kubernetes::IssuingSettings;
use tidegate_kubernetes::remote::{self, Objects};
use tidegate_plan::ObjectName;
use tidegate_translate::{Change, Settings, Translator};

use crate::plane::TestPlane;
use crate::server::{api, apply, eventually};
use crate::{CONTROLLER, Controller, GATEWAY_API, cluster, condition, get};

const ISSUED: &str = "gateway.tidegate.io/CertificatesIssued";

pub(crate) fn embedded() -> IssuingSettings {
    IssuingSettings {
        embedded: Some(EmbeddedSettings::default()),
        acme: Vec::new(),
        policies: Policies::from([(Issuer::Embedded, Policy::embedded())]),
        default: None,
        stand_in: true,
    }
}

/// A Gateway that asks the embedded CA, with a listener that takes routes of all namespaces and has no hostname.
pub(crate) fn gateway(name: &str, secret: &str) -> Json {
    json!({
        "apiVersion": GATEWAY_API, "kind": "Gateway",
        "metadata": {
            "name": name, "namespace": "shop", "annotations": {"gateway.tidegate.io/issuer": "embedded"},
        },
        "spec": {
            "gatewayClassName": "tidegate",
            "allowedListeners": {"namespaces": {"from": "All"}},
            "listeners": [{
                "name": "https", "port": 443, "protocol": "HTTPS",
                "tls": {"certificateRefs": [{"name": secret}]}, "allowedRoutes": {"namespaces": {"from": "All"}},
            }],
        },
    })
}

pub(crate) fn route(name: &str, namespace: &str, gateway: &str, hostname: &str) -> Json {
    json!({
        "apiVersion": GATEWAY_API, "kind": "HTTPRoute", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parentRefs": [{"name": gateway, "namespace": "shop"}], "hostnames": [hostname],
            "rules": [{"backendRefs": [{"name": "web", "port": 80}]}],
        },
    })
}

pub(crate) async fn secret(client: &Client, namespace: &str, name: &str) -> Json {
    let found = api(client, "v1", "Secret", Some(namespace)).get_opt(name).await.expect("an answer");
    found.map_or(Json::Null, |found| serde_json::to_value(found).expect("JSON"))
}

/// The DNS names of the certificate in a Secret, as openssl would find them.
pub(crate) fn has_name(secret: &Json, name: &str) -> bool {
    use k8s_openapi::ByteString;
    let Ok(pem) = serde_json::from_value::<ByteString>(secret["data"]["tls.crt"].clone()) else {
        return false;
    };
    let read = tidegate_certs::Certificate::read(
        ObjectName::new("shop", "any"),
        ObjectName::new("shop", "any"),
        Issuer::Embedded,
        String::from_utf8_lossy(&pem.0).into_owned(),
        String::new(),
    );
    read.is_ok_and(|certificate| certificate.held.names.iter().any(|own| own.as_str() == name))
}

pub(crate) async fn issued(client: &Client, namespace: &str, secret_name: &str, name: &str) -> Json {
    eventually(&format!("Secret {namespace}/{secret_name} has a certificate for {name}"), async || {
        has_name(&secret(client, namespace, secret_name).await, name)
    })
    .await;
    secret(client, namespace, secret_name).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver and etcd: make integration"]
async fn certificates_in_a_cluster() {
    let (_server, client) = cluster().await;
    apply(&client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})).await;
    let first = Controller::start_with(&client, "first", Some(embedded())).await;
    certificates_are_secrets_of_the_gateway(&client).await;
    further_ones_are_served_as_well(&client, &first).await;
    those_of_a_listener_set_belong_to_it(&client).await;
    what_is_not_ours_stays_as_it_is(&client).await;
    a_dry_run_sees_what_the_controller_sees(&client).await;
    something_stands_in_until_there_is_a_certificate(&client, &first).await;
    what_somebody_spoils_is_made_again(&client).await;
    another_leader_goes_on(&client, first).await;
}

async fn certificates_are_secrets_of_the_gateway(client: &Client) {
    apply(client, &gateway("web", "web-tls")).await;
    apply(client, &route("a", "shop", "web", "a.example.com")).await;
    let made = issued(client, "shop", "web-tls", "a.example.com").await;
    let owner = get(client, GATEWAY_API, "Gateway", "web").await;
    assert_eq!(made["type"], "kubernetes.io/tls");
    let owners = &made["metadata"]["ownerReferences"];
    assert_eq!((&owners[0]["kind"], &owners[0]["uid"]), (&json!("Gateway"), &owner["metadata"]["uid"]));
    eventually("the listener says so", async || {
        let found = get(client, GATEWAY_API, "Gateway", "web").await;
        let conditions = &found["status"]["listeners"][0]["conditions"];
        condition(conditions, ISSUED) == ("True".to_owned(), "CertificatesIssued".to_owned())
            && condition(conditions, "ResolvedRefs").0 == "True"
    })
    .await;
    eventually("there is an Event", async || {
        let events: Api<DynamicObject> = api(client, "events.k8s.io/v1", "Event", Some("shop"));
        let all = events.list(&kube::api::ListParams::default()).await.expect("a list");
        all.iter().any(|event| event.data["reason"] == "CertificateIssued" && event.data["type"] == "Normal")
    })
    .await;
}

/// Names of two namespaces are never in one certificate: the second has a Secret beside the listener's.
async fn further_ones_are_served_as_well(client: &Client, controller: &Controller) {
    let plane = TestPlane::start(client, "web", controller.link).await;
    apply(client, &route("b", "other", "web", "b.example.com")).await;
    eventually("the data plane has both certificates", async || {
        let plan = plane.plan();
        let certificates = plan
            .listeners()
            .filter_map(|listener| listener.handling.server_tls())
            .flat_map(|tls| &tls.certificates);
        let mut names: Vec<String> =
            certificates.flat_map(|certificate| &certificate.names).map(ToString::to_string).collect();
        names.sort();
        names == ["a.example.com", "b.example.com"]
    })
    .await;
    // A stranger's, which only says that it stands beside the listener's, is not served.
    let made = rcgen::generate_simple_self_signed(["c.example.com".to_owned()]).expect("a certificate");
    let strange = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {
            "name": "strange", "namespace": "other",
            "labels": {"gateway.tidegate.io/certificates": "certificate"},
            "annotations": {
                "gateway.tidegate.io/issued-by": "embedded", "gateway.tidegate.io/certificate-of": "web-tls",
                "gateway.tidegate.io/controller-name": "gateway.tidegate.io/controller",
            },
        },
        "stringData": {"tls.crt": made.cert.pem(), "tls.key": made.signing_key.serialize_pem()},
    });
    apply(client, &strange).await;
    apply(client, &route("d", "shop", "web", "d.example.com")).await;
    issued(client, "shop", "web-tls", "d.example.com").await;
    eventually("the data plane has the next one", async || {
        let plan = plane.plan();
        plan.listeners().any(|listener| {
            let tls = listener.handling.server_tls().into_iter().flat_map(|tls| &tls.certificates);
            tls.flat_map(|certificate| &certificate.names).any(|name| name.as_str() == "d.example.com")
        })
    })
    .await;
    let text = format!("{:?}", plane.plan());
    assert!(!text.contains("c.example.com"), "it is of another namespace");
    plane.stop().await;
}

async fn those_of_a_listener_set_belong_to_it(client: &Client) {
    let set = json!({
        "apiVersion": GATEWAY_API, "kind": "ListenerSet", "metadata": {"name": "more", "namespace": "other"},
        "spec": {
            "parentRef": {"name": "web", "namespace": "shop"},
            "listeners": [{
                "name": "https", "port": 8443, "protocol": "HTTPS", "hostname": "set.example.com",
                "tls": {"certificateRefs": [{"name": "set-tls"}]},
            }],
        },
    });
    apply(client, &set).await;
    let made = issued(client, "other", "set-tls", "set.example.com").await;
    let owners = &made["metadata"]["ownerReferences"];
    assert_eq!((&owners[0]["kind"], &owners[0]["name"]), (&json!("ListenerSet"), &json!("more")));
}

async fn what_is_not_ours_stays_as_it_is(client: &Client) {
    let made = rcgen::generate_simple_self_signed(["mine.example.com".to_owned()]).expect("a certificate");
    let theirs = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs", "namespace": "shop"},
        "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": made.cert.pem(), "tls.key": made.signing_key.serialize_pem()},
    });
    apply(client, &theirs).await;
    let before = secret(client, "shop", "theirs").await;
    apply(client, &gateway("foreign", "theirs")).await;
    apply(client, &route("e", "shop", "foreign", "e.example.com")).await;
    eventually("it is used", async || {
        let found = get(client, GATEWAY_API, "Gateway", "foreign").await;
        condition(&found["status"]["listeners"][0]["conditions"], "ResolvedRefs").0 == "True"
    })
    .await;
    // Whatever it had been asked for would have been made before what comes behind it.
    apply(client, &route("f", "shop", "web", "f.example.com")).await;
    issued(client, "shop", "web-tls", "f.example.com").await;
    assert_eq!(secret(client, "shop", "theirs").await, before);
}

async fn a_dry_run_sees_what_the_controller_sees(client: &Client) {
    let found = Objects::list(client).await.expect("a list");
    assert!(found.unread.is_empty(), "{:?}", found.unread);
    let foreign = found.foreign(CONTROLLER).expect("Secrets are listed");
    let name = |name: &str| ObjectName::new("shop", name);
    assert!(foreign.contains(&name("theirs")) && !foreign.contains(&name("web-tls")), "{foreign:?}");
    let mut translator = Translator::new(Settings::cluster());
    translator.apply(found.objects.into_iter().map(Change::Upsert));
    let names = |gateway: &str| {
        let gateway = name(gateway);
        let wants = translator.translation().wants_of(&gateway);
        let names = wants.flat_map(|wants| &wants.names).map(|wanted| wanted.name.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("foreign"), ["e.example.com"]);
    assert!(names("web").contains(&"set.example.com".to_owned()), "{:?}", names("web"));
    let held = remote::certificates(client, Some("shop")).await.expect("certificates");
    assert!(held.iter().any(|one| one.held.secret == name("web-tls")));
    // Nobody has cert-manager here, and no Pod leads.
    Objects::certificates(client).await.expect("none, and no error");
    assert!(remote::leaders(client).await.expect("a list").is_empty());
}

/// Nobody is here to be asked: clients are shown what vouches for itself, and the cluster has no Secret of it.
async fn something_stands_in_until_there_is_a_certificate(client: &Client, controller: &Controller) {
    let mut waiting = gateway("waiting", "waiting-tls");
    waiting["metadata"]["annotations"]["gateway.tidegate.io/issuer"] = json!("acme");
    apply(client, &waiting).await;
    apply(client, &route("h", "shop", "waiting", "h.example.com")).await;
    eventually("the listener says that nobody makes it", async || {
        let found = get(client, GATEWAY_API, "Gateway", "waiting").await;
        condition(&found["status"]["listeners"][0]["conditions"], ISSUED)
            == ("False".to_owned(), "IssuanceFailed".to_owned())
    })
    .await;
    let plane = TestPlane::start(client, "waiting", controller.link).await;
    eventually("the data plane has a stand-in", async || {
        let plan = plane.plan();
        plan.listeners().filter_map(|listener| listener.handling.server_tls()).any(|tls| {
            let names = tls.certificates.iter().flat_map(|certificate| &certificate.names);
            names.map(ToString::to_string).eq(["h.example.com"])
        })
    })
    .await;
    plane.stop().await;
    assert!(secret(client, "shop", "waiting-tls").await.is_null());
    assert!(secret(client, "shop", "waiting-tls-stand-in").await.is_null());
}

async fn what_somebody_spoils_is_made_again(client: &Client) {
    let secrets = api(client, "v1", "Secret", Some("shop"));
    secrets.delete("web-tls", &DeleteParams::default()).await.expect("it can be deleted");
    let made = issued(client, "shop", "web-tls", "a.example.com").await;
    let spoilt = json!({"stringData": {"tls.key": "nothing"}});
    secrets
        .patch("web-tls", &PatchParams::default(), &Patch::Merge(&spoilt))
        .await
        .expect("it can be spoilt");
    eventually("it has another key", async || {
        let now = secret(client, "shop", "web-tls").await;
        has_name(&now, "a.example.com")
            && now["data"]["tls.crt"] != made["data"]["tls.crt"]
            && now["data"]["tls.key"] != made["data"]["tls.key"]
    })
    .await;
}

async fn another_leader_goes_on(client: &Client, first: Controller) {
    let root = secret(client, "tidegate-system", "tidegate-root-ca").await;
    assert!(!root.is_null());
    let before = secret(client, "shop", "web-tls").await;
    let second = Controller::start_with(client, "second", Some(embedded())).await;
    first.stop().await;
    apply(client, &gateway("led", "led-tls")).await;
    apply(client, &route("g", "shop", "led", "g.example.com")).await;
    issued(client, "shop", "led-tls", "g.example.com").await;
    assert_eq!(secret(client, "tidegate-system", "tidegate-root-ca").await, root, "the root is made once");
    assert_eq!(secret(client, "shop", "web-tls").await, before, "what there is is not made again");
    let found = get(client, GATEWAY_API, "Gateway", "web").await;
    assert_eq!(condition(&found["status"]["listeners"][0]["conditions"], ISSUED).0, "True");
    second.stop().await;
}
