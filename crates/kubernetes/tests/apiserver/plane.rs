//! A data plane that says what the test has it say, over the real link, with a real token of a Pod.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tidegate_link::{Changed, Client as Link, ClientOptions, DataPlane, Note};
use tidegate_plan::{Capability, DataPlaneSettings, ListenerId, Plan};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::server::{apply, eventually};

const AUDIENCE: &str = "link.gateway.tidegate.io";

pub(crate) struct TestPlane {
    client: Client,
    service: String,
    pod: String,
    fault: watch::Sender<Option<&'static str>>,
    plan: watch::Receiver<Plan>,
    task: JoinHandle<()>,
    _files: Arc<TempDir>,
}

impl TestPlane {
    /// Follows the controller as the Pod of a Gateway would.
    pub(crate) async fn start(client: &Client, gateway: &str, controller: SocketAddr) -> Self {
        Self::start_replica(client, gateway, 1, controller).await
    }

    pub(crate) async fn start_replica(
        client: &Client,
        gateway: &str,
        number: u32,
        controller: SocketAddr,
    ) -> Self {
        let name = format!("tidegate-{gateway}");
        // What the controller makes for a Pod comes in its own time, behind the status that a test waited for.
        for kind in ["ServiceAccount", "ConfigMap"] {
            eventually(&format!("there is {kind} {name}"), async || {
                !crate::get(client, "v1", kind, &name).await.is_null()
            })
            .await;
        }
        let pod = format!("{name}-{number}");
        let body = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": "shop"},
            "spec": {"serviceAccountName": name, "containers": [{"name": "proxy", "image": "none"}]},
        });
        apply(client, &body).await;
        let files = Arc::new(TempDir::new().expect("a folder"));
        let (ca, token) = (files.path().join("ca.crt"), files.path().join("token"));
        let map = crate::get(client, "v1", "ConfigMap", &name).await;
        fs::write(&ca, map["data"]["ca.crt"].as_str().expect("a CA")).expect("a file");
        fs::write(&token, bound_token(client, &name, &pod).await).expect("a file");
        let options = ClientOptions {
            controller,
            ca,
            token,
            name: pod.clone(),
            capabilities: Capability::ALL.iter().copied().collect(),
            cache: None,
        };
        let (fault, faults) = watch::channel(None);
        let (show, plan) = watch::channel(Plan::default());
        let task = tokio::spawn(async move {
            let mut plane = Obedient { faults, show };
            match Link::new(options).run(&mut plane).await {}
        });
        Self { client: client.clone(), service: name, pod, fault, plan, task, _files: files }
    }

    /// What the EndpointSlice controller would write.
    pub(crate) async fn be_ready(&self) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "web-1", "namespace": "shop",
                "labels": {"kubernetes.io/service-name": self.service, "gateway.tidegate.io/role": "data-plane"},
            },
            "endpoints": [{
                "addresses": ["10.244.0.9"], "conditions": {"ready": true},
                "targetRef": {"kind": "Pod", "name": self.pod, "namespace": "shop"},
            }],
            "ports": [{"name": "tcp-5434", "port": 5434, "protocol": "TCP"}],
        });
        apply(&self.client, &slice).await;
    }

    /// What it was told last.
    pub(crate) fn plan(&self) -> Plan {
        self.plan.borrow().clone()
    }

    /// From here on no listener can be opened.
    pub(crate) fn fail(&self, why: &'static str) {
        self.fault.send_replace(Some(why));
    }

    pub(crate) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn bound_token(client: &Client, account: &str, pod: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "shop");
    let pod = crate::get(client, "v1", "Pod", pod).await;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {
            "audiences": [AUDIENCE], "expirationSeconds": 3600,
            "boundObjectRef": {
                "apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
            },
        },
    });
    let mut token = String::new();
    eventually("there is a token", async || {
        let made: Result<Json, _> =
            accounts.create_subresource("token", account, &PostParams::default(), &request).await;
        if let Ok(made) = made {
            token = made["status"]["token"].as_str().unwrap_or_default().to_owned();
        }
        !token.is_empty()
    })
    .await;
    token
}

struct Obedient {
    faults: watch::Receiver<Option<&'static str>>,
    show: watch::Sender<Plan>,
}

impl DataPlane for Obedient {
    fn apply(&mut self, plan: &Plan, _settings: &DataPlaneSettings, _changed: &Changed) {
        self.show.send_replace(plan.clone());
    }

    fn listeners(&mut self, plan: &Plan) -> BTreeMap<ListenerId, Result<(), String>> {
        let state = self.faults.borrow().map_or(Ok(()), |why| Err(why.to_owned()));
        plan.listeners().map(|listener| (listener.id.clone(), state.clone())).collect()
    }

    async fn changed(&mut self) {
        if self.faults.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn note(&mut self, _note: &Note) {}
}
