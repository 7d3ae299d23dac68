//! The controller against a real API server. There is no kubelet and no controller manager: what they would write, the
//! test writes.
//!
//! TIDEGATE_APISERVER_BIN is a folder with `kube-apiserver` and `etcd`, TIDEGATE_CRDS one with the CRDs of Gateway API:
//! `make integration` has both.

mod foreign;
mod issuing;
mod part;
mod plane;
mod race;
mod server;
mod takeover;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value as Json, json};
use tidegate_kubernetes::{Health, IssuingSettings, LinkAddress, Log, Metrics, Settings, run};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::plane::TestPlane;
use self::server::{ApiServer, api, apply, apply_files, eventually, free_port};

const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";
const CONTROLLER: &str = "gateway.tidegate.io/controller";

/// A controller in this process.
struct Controller {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    log: Arc<Mutex<Vec<String>>>,
    link: SocketAddr,
}

impl Controller {
    async fn start(client: &Client, identity: &str) -> Self {
        Self::start_with(client, identity, None).await
    }

    async fn start_with(client: &Client, identity: &str, issuing: Option<IssuingSettings>) -> Self {
        let controller = Self::launch(client, identity, issuing);
        eventually("the controller has looked at everything", async || controller.health.is_ready()).await;
        controller
    }

    fn launch(client: &Client, identity: &str, issuing: Option<IssuingSettings>) -> Self {
        let link = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let settings = Settings {
            controller_name: CONTROLLER.into(),
            namespace: "tidegate-system".to_owned(),
            identity: identity.to_owned(),
            is_pod: false,
            lease: "tidegate".to_owned(),
            image: "tidegate:test".to_owned(),
            image_pull_policy: None,
            image_pull_secrets: Vec::new(),
            link: LinkAddress::Address(link),
            cert_manager: None,
            link_listen: link,
            issuing,
        };
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        let write = Log::new(move |level, event, message: &str| {
            lines.lock().expect("no panic").push(format!("{level:?} {event}: {message}"));
        });
        let (metrics, health) = (Arc::new(Metrics::default()), Arc::new(Health::default()));
        let (stop, stopped) = watch::channel(false);
        let running =
            run(client.clone(), settings, write, Arc::clone(&metrics), Arc::clone(&health), stopped);
        let task = tokio::spawn(running);
        Self { stop, task, metrics, health, log, link }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.task.await.expect("it ends by itself");
    }

    fn metric(&self, name: &str) -> u64 {
        let text = self.metrics.render();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no metric {name}")).parse().expect("a number")
    }

    fn has_said(&self, words: &str) -> bool {
        self.log.lock().expect("no panic").iter().any(|line| line.contains(words))
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver and etcd: make integration"]
async fn a_controller_in_a_cluster() {
    let (mut server, client) = cluster().await;

    let first = Controller::start(&client, "first").await;
    statuses_are_written_once_and_keep_what_others_wrote(&client).await;
    secrets_are_read_when_somebody_refers_to_them(&client).await;
    objects_of_data_planes_are_kept(&client).await;
    data_planes_say_what_is_programmed(&client, &first).await;
    a_kind_that_comes_later_is_followed(&client, &first).await;
    foreign::objects_of_others_are_left_alone(&client).await;
    foreign::names_that_meet_are_one_gateway_s(&client, &first).await;
    a_route_that_leaves_takes_its_entries_along(&client).await;
    server.restart().await;
    the_api_server_may_go_for_a_while(&client).await;
    takeover::another_replica_takes_over(&client, first).await;
}

/// An API server with what a controller expects to find.
async fn cluster() -> (ApiServer, Client) {
    let server = ApiServer::start().await;
    let client = server.client().await;
    let crds = PathBuf::from(std::env::var_os("TIDEGATE_CRDS").expect("TIDEGATE_CRDS names a folder"));
    apply_files(&client, &crds).await;
    for namespace in ["tidegate-system", "shop"] {
        apply(&client, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .await;
    }
    let class = json!({
        "apiVersion": GATEWAY_API, "kind": "GatewayClass", "metadata": {"name": "tidegate"},
        "spec": {"controllerName": CONTROLLER},
    });
    apply(&client, &class).await;
    (server, client)
}

fn gateway(name: &str, spec: Json) -> Json {
    let mut spec = spec;
    spec["gatewayClassName"] = json!("tidegate");
    json!({"apiVersion": GATEWAY_API, "kind": "Gateway", "metadata": {"name": name, "namespace": "shop"}, "spec": spec})
}

fn tcp(port: u16) -> Json {
    json!({"listeners": [{"name": "tcp", "port": port, "protocol": "TCP"}]})
}

fn tcp_route(name: &str, parent: &str) -> Json {
    json!({
        "apiVersion": GATEWAY_API, "kind": "TCPRoute", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"parentRefs": [{"name": parent}], "rules": [{"backendRefs": [{"name": "db", "port": 5432}]}]},
    })
}

async fn get(client: &Client, version: &str, kind: &str, name: &str) -> Json {
    let namespace = if kind == "GatewayClass" { None } else { Some("shop") };
    let object = api(client, version, kind, namespace)
        .get_opt(name)
        .await
        .unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    object.map_or(Json::Null, |object| serde_json::to_value(object).expect("JSON"))
}

/// Status and reason of a condition in a list of them.
fn condition(conditions: &Json, kind: &str) -> (String, String) {
    let found = conditions.as_array().into_iter().flatten().find(|condition| condition["type"] == kind);
    let text = |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

async fn gateway_has(client: &Client, name: &str, kind: &str, status: &str, reason: &str) {
    eventually(&format!("Gateway {name} is {kind}={status} {reason}"), async || {
        let found = get(client, GATEWAY_API, "Gateway", name).await;
        condition(&found["status"]["conditions"], kind) == (status.to_owned(), reason.to_owned())
    })
    .await;
}

async fn patch_status(client: &Client, version: &str, kind: &str, name: &str, status: Json) {
    let api: Api<DynamicObject> = api(client, version, kind, Some("shop"));
    let patch = json!({ "status": status });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("a status is taken");
}

async fn statuses_are_written_once_and_keep_what_others_wrote(client: &Client) {
    eventually("the class is accepted", async || {
        let class = get(client, GATEWAY_API, "GatewayClass", "tidegate").await;
        let conditions = &class["status"]["conditions"];
        condition(conditions, "Accepted").0 == "True"
            && condition(conditions, "SupportedVersion").0 == "True"
            && class["status"]["supportedFeatures"].as_array().is_some_and(|features| features.len() > 40)
    })
    .await;
    apply(client, &gateway("web", tcp(5432))).await;
    apply(client, &tcp_route("db", "web")).await;
    gateway_has(client, "web", "Accepted", "True", "Accepted").await;
    gateway_has(client, "web", "Programmed", "False", "Pending").await;
    eventually("the route says what is missing", async || {
        let route = get(client, GATEWAY_API, "TCPRoute", "db").await;
        let parent = &route["status"]["parents"][0];
        parent["controllerName"] == CONTROLLER
            && condition(&parent["conditions"], "Accepted").0 == "True"
            && condition(&parent["conditions"], "ResolvedRefs")
                == ("False".to_owned(), "BackendNotFound".to_owned())
    })
    .await;

    let mut conditions = get(client, GATEWAY_API, "Gateway", "web").await["status"]["conditions"].clone();
    let foreign = json!({
        "type": "example.com/Weather", "status": "True", "reason": "Sunny", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    conditions.as_array_mut().expect("a list").push(foreign.clone());
    patch_status(client, GATEWAY_API, "Gateway", "web", json!({ "conditions": conditions })).await;
    apply(client, &gateway("web", tcp(5433))).await;
    eventually("the newer generation is told beside the foreign condition", async || {
        let found = get(client, GATEWAY_API, "Gateway", "web").await;
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.contains(&foreign)
            && conditions.iter().any(|one| one["type"] == "Accepted" && one["observedGeneration"] == 2)
    })
    .await;

    let note = json!({"metadata": {"annotations": {"example.com/note": "read"}}});
    let routes: Api<DynamicObject> = api(client, GATEWAY_API, "TCPRoute", Some("shop"));
    let noted = routes.patch("db", &PatchParams::default(), &Patch::Merge(&note)).await;
    let noted = noted.expect("a note is taken").metadata.resource_version;
    // Whatever the note had made it write would have been written before what comes behind it.
    apply(client, &tcp_route("later", "web")).await;
    eventually("a later route has its status", async || {
        !get(client, GATEWAY_API, "TCPRoute", "later").await["status"]["parents"][0].is_null()
    })
    .await;
    let now = routes.get("db").await.expect("it is there").metadata.resource_version;
    assert_eq!(now, noted, "nothing but time has changed");
}

async fn secrets_are_read_when_somebody_refers_to_them(client: &Client) {
    let listener = json!({"listeners": [{
        "name": "tls", "port": 443, "protocol": "TLS",
        "tls": {"mode": "Terminate", "certificateRefs": [{"name": "web"}]},
    }]});
    apply(client, &gateway("secure", listener)).await;
    let resolved = async |status: &str, reason: &str| {
        eventually(&format!("the listener is ResolvedRefs={status}"), async || {
            let found = get(client, GATEWAY_API, "Gateway", "secure").await;
            condition(&found["status"]["listeners"][0]["conditions"], "ResolvedRefs")
                == (status.to_owned(), reason.to_owned())
        })
        .await;
    };
    resolved("False", "InvalidCertificateRef").await;
    let made = rcgen::generate_simple_self_signed(["web.example.com".to_owned()]).expect("a certificate");
    let data = json!({"tls.crt": made.cert.pem(), "tls.key": made.signing_key.serialize_pem()});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web", "namespace": "shop"},
        "type": "kubernetes.io/tls", "stringData": data,
    });
    apply(client, &secret).await;
    resolved("True", "ResolvedRefs").await;
    let secrets = api(client, "v1", "Secret", Some("shop"));
    secrets.delete("web", &DeleteParams::default()).await.expect("it can be deleted");
    resolved("False", "InvalidCertificateRef").await;
}

async fn objects_of_data_planes_are_kept(client: &Client) {
    for (version, kind) in [
        ("v1", "ServiceAccount"),
        ("v1", "ConfigMap"),
        ("apps/v1", "Deployment"),
        ("v1", "Service"),
        ("policy/v1", "PodDisruptionBudget"),
    ] {
        eventually(&format!("there is a {kind}"), async || {
            !get(client, version, kind, "tidegate-web").await.is_null()
        })
        .await;
    }
    let service = || get(client, "v1", "Service", "tidegate-web");
    eventually("the Service has the listener's port", async || {
        service().await["spec"]["ports"][0]["port"] == 5433
    })
    .await;
    let services = api(client, "v1", "Service", Some("shop"));
    let port = json!({"spec": {"ports": [{"name": "other", "port": 99, "protocol": "TCP"}]}});
    services
        .patch("tidegate-web", &PatchParams::default(), &Patch::Merge(&port))
        .await
        .expect("a change is taken");
    eventually("what somebody changed is put back", async || {
        let ports = service().await["spec"]["ports"].clone();
        ports.as_array().is_some_and(|ports| ports.len() == 1 && ports[0]["port"] == 5433)
    })
    .await;
    let maps = api(client, "v1", "ConfigMap", Some("shop"));
    maps.delete("tidegate-web", &DeleteParams::default()).await.expect("it can be deleted");
    eventually("what somebody deleted is made again", async || {
        !get(client, "v1", "ConfigMap", "tidegate-web").await.is_null()
    })
    .await;

    let deployments = api(client, "apps/v1", "Deployment", Some("shop"));
    deployments
        .patch_scale(
            "tidegate-web",
            &PatchParams::default(),
            &Patch::Merge(&json!({"spec": {"replicas": 3}})),
        )
        .await
        .expect("it can be scaled");
    // Another change of the Gateway passes over it.
    apply(client, &gateway("web", tcp(5434))).await;
    eventually("the Service follows", async || {
        service().await["spec"]["ports"]
            .as_array()
            .is_some_and(|ports| ports.len() == 1 && ports[0]["port"] == 5434)
    })
    .await;
    assert_eq!(
        get(client, "apps/v1", "Deployment", "tidegate-web").await["spec"]["replicas"],
        3,
        "it is the autoscaler's"
    );
}

async fn data_planes_say_what_is_programmed(client: &Client, controller: &Controller) {
    let plane = TestPlane::start(client, "web", controller.link).await;
    gateway_has(client, "web", "Programmed", "False", "Pending").await;
    plane.be_ready().await;
    gateway_has(client, "web", "Programmed", "False", "AddressNotAssigned").await;
    let ingress = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}});
    patch_status(client, "v1", "Service", "tidegate-web", ingress).await;
    gateway_has(client, "web", "Programmed", "True", "Programmed").await;
    let found = get(client, GATEWAY_API, "Gateway", "web").await;
    assert_eq!(found["status"]["addresses"], json!([{"type": "IPAddress", "value": "192.0.2.7"}]));
    assert_eq!(condition(&found["status"]["listeners"][0]["conditions"], "Programmed").0, "True");

    let newest_is_served = async || {
        eventually("the newer generation is served", async || {
            let found = get(client, GATEWAY_API, "Gateway", "web").await;
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let generation = &found["metadata"]["generation"];
            conditions.iter().any(|one| {
                one["type"] == "Programmed"
                    && one["status"] == "True"
                    && one["observedGeneration"] == *generation
            })
        })
        .await;
    };
    apply(client, &gateway("web", tcp(5435))).await;
    newest_is_served().await;
    // One that is not ready: it ends, say.
    let leaving = TestPlane::start_replica(client, "web", 2, controller.link).await;
    leaving.fail("it ends");
    eventually("both are here", async || controller.has_said("data plane tidegate-web-2")).await;
    apply(client, &gateway("web", tcp(5436))).await;
    newest_is_served().await;
    leaving.be_ready().await;
    gateway_has(client, "web", "Programmed", "False", "PortUnavailable").await;
    leaving.stop().await;
    plane.be_ready().await;
    newest_is_served().await;
    plane.fail("it is in use");
    gateway_has(client, "web", "Programmed", "False", "PortUnavailable").await;
    plane.stop().await;
    gateway_has(client, "web", "Programmed", "False", "Pending").await;
}

async fn a_kind_that_comes_later_is_followed(client: &Client, controller: &Controller) {
    assert!(controller.has_said("gatewayparameters.gateway.tidegate.io"), "that a CRD is missing is said");
    let mut spec = tcp(9000);
    spec["infrastructure"] = json!({"parametersRef": {"group": "gateway.tidegate.io", "kind": "GatewayParameters", "name": "two"}});
    apply(client, &gateway("tuned", spec)).await;
    gateway_has(client, "tuned", "Accepted", "False", "InvalidParameters").await;
    apply_files(client, Path::new("crds")).await;
    let parameters = json!({
        "apiVersion": "gateway.tidegate.io/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "two", "namespace": "shop"},
        "spec": {"workload": {"replicas": 2}, "service": {"type": "ClusterIP"}},
    });
    apply(client, &parameters).await;
    gateway_has(client, "tuned", "Accepted", "True", "Accepted").await;
    eventually("the Deployment is as asked", async || {
        get(client, "apps/v1", "Deployment", "tidegate-tuned").await["spec"]["replicas"] == 2
            && get(client, "v1", "Service", "tidegate-tuned").await["spec"]["type"] == "ClusterIP"
    })
    .await;
    eventually("the Gateway has the address of the Service", async || {
        let found = get(client, GATEWAY_API, "Gateway", "tuned").await;
        found["status"]["addresses"][0]["value"].as_str().is_some_and(|ip| ip.starts_with("10.96."))
    })
    .await;
}

async fn a_route_that_leaves_takes_its_entries_along(client: &Client) {
    let mut parents = get(client, GATEWAY_API, "TCPRoute", "db").await["status"]["parents"].clone();
    let foreign = json!({
        "controllerName": "example.com/other", "parentRef": {"name": "elsewhere"},
        "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    parents.as_array_mut().expect("a list").push(foreign);
    patch_status(client, GATEWAY_API, "TCPRoute", "db", json!({ "parents": parents })).await;
    apply(client, &tcp_route("db", "elsewhere")).await;
    eventually("only the foreign entry is left", async || {
        let parents = get(client, GATEWAY_API, "TCPRoute", "db").await["status"]["parents"].clone();
        parents
            .as_array()
            .is_some_and(|parents| parents.len() == 1 && parents[0]["controllerName"] == "example.com/other")
    })
    .await;
}

async fn the_api_server_may_go_for_a_while(client: &Client) {
    apply(client, &gateway("after", tcp(7000))).await;
    gateway_has(client, "after", "Accepted", "True", "Accepted").await;
}
