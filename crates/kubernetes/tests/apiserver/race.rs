//! Somebody else is quicker: a Secret becomes another's between the look of the controller at it and its write. The API
//! server is real, and so is the controller; what comes between them happens in the controller's client.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::{Value as Json, json};
use tidegate_certs::EmbeddedSettings;
use tidegate_kubernetes::IssuingSettings;
use tokio::sync::oneshot;

use crate::issuing::{embedded, gateway, has_name, issued, route, secret};
use crate::server::{api, apply, eventually};
use crate::{Controller, GATEWAY_API, cluster, condition, get};

/// What somebody does right before a request of the controller's.
struct Deed {
    method: Method,
    path: String,
    work: BoxFuture<'static, ()>,
}

/// The client of a controller, with somebody beside it.
#[derive(Clone, Default)]
struct Beside {
    next: Arc<Mutex<Option<Deed>>>,
}

impl Beside {
    fn client(&self, client: &Client) -> Client {
        let (beside, client) = (self.clone(), client.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (beside, client) = (beside.clone(), client.clone());
            async move {
                if let Some(deed) = beside.take(&request) {
                    deed.work.await;
                }
                client.send(request).await
            }
        });
        Client::new(service, "default")
    }

    fn take(&self, request: &Request<Body>) -> Option<Deed> {
        let mut next = self.next.lock().expect("no panic");
        next.take_if(|deed| deed.method == *request.method() && deed.path == request.uri().path())
    }

    /// Once, before a Secret of this name is written or deleted, or without a name, before one is made. Tells when it is
    /// done.
    fn before(
        &self,
        method: Method,
        name: Option<&str>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Done {
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        let path = format!("/api/v1/namespaces/shop/secrets{name}");
        let (tell, done) = oneshot::channel();
        let work = async move {
            work.await;
            let _ = tell.send(());
        };
        let deed = Deed { method, path, work: Box::pin(work) };
        assert!(self.next.lock().expect("no panic").replace(deed).is_none(), "one after the other");
        Done(done)
    }
}

/// When somebody has been quicker.
struct Done(oneshot::Receiver<()>);

impl Done {
    async fn wait(self) {
        let done = tokio::time::timeout(Duration::from_secs(60), self.0).await;
        done.expect("the controller wrote").expect("it was done");
    }
}

/// A Secret in the version in which it is now.
struct Version {
    object: Json,
}

impl Version {
    async fn of(client: &Client, name: &str) -> Self {
        Self { object: secret(client, "shop", name).await }
    }

    fn has(&self, name: &str) -> bool {
        has_name(&self.object, name)
    }

    async fn is_still_there(&self, client: &Client) {
        let name = self.object["metadata"]["name"].as_str().expect("a name");
        let (now, before) = (secret(client, "shop", name).await, &self.object["metadata"]);
        assert_eq!(now["metadata"]["resourceVersion"], before["resourceVersion"], "{name} was written");
    }
}

/// A Secret that somebody else writes.
fn theirs(name: &str) -> Json {
    let made = rcgen::generate_simple_self_signed(["theirs.example.com".to_owned()]).expect("a certificate");
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"},
        "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": made.cert.pem(), "tls.key": made.signing_key.serialize_pem()},
    })
}

async fn create(client: &Client, object: Json) {
    let object = serde_json::from_value(object).expect("an object");
    let made = api(client, "v1", "Secret", Some("shop")).create(&PostParams::default(), &object).await;
    made.expect("it is made");
}

/// Takes our mark away, by which the docs say that somebody keeps a Secret for himself.
async fn unmark(client: &Client, name: &str) {
    let labels = json!({"metadata": {"labels": {"gateway.tidegate.io/certificates": null}}});
    let secrets = api(client, "v1", "Secret", Some("shop"));
    secrets.patch(name, &PatchParams::default(), &Patch::Merge(&labels)).await.expect("it is changed");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver and etcd: make integration"]
async fn a_secret_that_becomes_another_s_is_never_written() {
    let (_server, client) = cluster().await;
    let beside = Beside::default();
    // What nobody wants any more is deleted at the end of its time, which is not far off.
    let short = EmbeddedSettings { leaf_life: 12, ..EmbeddedSettings::default() };
    let settings = IssuingSettings { embedded: Some(short), ..embedded() };
    let controller = Controller::start_with(&beside.client(&client), "first", Some(settings)).await;
    made_before_ours(&client, &beside, &controller).await;
    made_in_place_of_ours(&client, &beside, &controller).await;
    taken_over(&client, &beside, &controller).await;
    taken_over_before_it_is_deleted(&client, &beside).await;
    controller.stop().await;
}

fn failures(controller: &Controller) -> u64 {
    controller.metric("tidegate_certificate_failures_total")
}

async fn made_before_ours(client: &Client, beside: &Beside, controller: &Controller) {
    let quicker = client.clone();
    let done = beside.before(Method::POST, None, async move { create(&quicker, theirs("first")).await });
    apply(client, &gateway("first", "first")).await;
    apply(client, &route("first", "shop", "first", "first.example.com")).await;
    done.wait().await;
    let made = Version::of(client, "first").await;
    assert!(made.has("theirs.example.com"));
    eventually("the write was refused", async || failures(controller) == 1).await;
    eventually("it is used as it is", async || {
        let found = get(client, GATEWAY_API, "Gateway", "first").await;
        condition(&found["status"]["listeners"][0]["conditions"], "ResolvedRefs").0 == "True"
    })
    .await;
    made.is_still_there(client).await;
}

async fn made_in_place_of_ours(client: &Client, beside: &Beside, controller: &Controller) {
    apply(client, &gateway("second", "second")).await;
    apply(client, &route("second", "shop", "second", "second.example.com")).await;
    issued(client, "shop", "second", "second.example.com").await;
    let (before, quicker) = (failures(controller), client.clone());
    let done = beside.before(Method::PUT, Some("second"), async move {
        let secrets = api(&quicker, "v1", "Secret", Some("shop"));
        secrets.delete("second", &DeleteParams::default()).await.expect("it is deleted");
        create(&quicker, theirs("second")).await;
    });
    apply(client, &route("more", "shop", "second", "more.example.com")).await;
    done.wait().await;
    let made = Version::of(client, "second").await;
    eventually("the write was refused", async || failures(controller) > before).await;
    made.is_still_there(client).await;
    assert!(made.has("theirs.example.com"));
}

async fn taken_over(client: &Client, beside: &Beside, controller: &Controller) {
    apply(client, &gateway("third", "third")).await;
    apply(client, &route("third", "shop", "third", "third.example.com")).await;
    issued(client, "shop", "third", "third.example.com").await;
    let (before, quicker) = (failures(controller), client.clone());
    let done = beside.before(Method::PUT, Some("third"), async move { unmark(&quicker, "third").await });
    apply(client, &route("other", "shop", "third", "other.example.com")).await;
    done.wait().await;
    let kept = Version::of(client, "third").await;
    eventually("the write was refused", async || failures(controller) > before).await;
    kept.is_still_there(client).await;
    assert!(kept.has("third.example.com") && !kept.has("other.example.com"));
}

async fn taken_over_before_it_is_deleted(client: &Client, beside: &Beside) {
    apply(client, &gateway("fourth", "fourth")).await;
    apply(client, &route("fourth", "shop", "fourth", "fourth.example.com")).await;
    issued(client, "shop", "fourth", "fourth.example.com").await;
    let quicker = client.clone();
    let done = beside.before(Method::DELETE, Some("fourth"), async move { unmark(&quicker, "fourth").await });
    let routes = api(client, GATEWAY_API, "HTTPRoute", Some("shop"));
    routes.delete("fourth", &DeleteParams::default()).await.expect("it is deleted");
    done.wait().await;
    let kept = Version::of(client, "fourth").await;
    // One thing after the other: what comes behind it is made when it is over.
    apply(client, &gateway("fifth", "fifth")).await;
    apply(client, &route("fifth", "shop", "fifth", "fifth.example.com")).await;
    issued(client, "shop", "fifth", "fifth.example.com").await;
    kept.is_still_there(client).await;
    assert!(kept.has("fourth.example.com"));
}
