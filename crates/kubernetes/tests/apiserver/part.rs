//! An API server that answers in part: it refuses some requests, and to others it says nothing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::json;

use crate::server::{apply, eventually};
use crate::{Controller, GATEWAY_API, cluster, gateway, gateway_has, get, tcp};

/// The client of a controller that may not list TLSRoutes, for a while, and never learns of the Secret `silent`.
#[derive(Clone, Default)]
struct Partial {
    may_list: Arc<AtomicBool>,
}

impl Partial {
    fn client(&self, client: &Client) -> Client {
        let (partial, client) = (self.clone(), client.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (partial, client) = (partial.clone(), client.clone());
            async move {
                let path = request.uri().path();
                if path.ends_with("/tlsroutes") && !partial.may_list.load(Relaxed) {
                    return Ok(forbidden());
                }
                if *request.method() == Method::GET && path.ends_with("/secrets/silent") {
                    std::future::pending::<()>().await;
                }
                client.send(request).await
            }
        });
        Client::new(service, "default")
    }
}

fn forbidden() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "tlsroutes is forbidden",
    });
    let response = Response::builder().status(403).body(Body::from(status.to_string().into_bytes()));
    response.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kube-apiserver and etcd: make integration"]
async fn an_api_server_that_answers_in_part() {
    let (_server, client) = cluster().await;
    let partial = Partial::default();
    apply(&client, &gateway("web", tcp(5432))).await;
    let controller = Controller::launch(&partial.client(&client), "first", None);
    eventually("it waits for one kind and says which", async || controller.health.waits_for() == "tlsroutes")
        .await;
    assert!(!controller.health.is_ready());
    assert_eq!(controller.metric("tidegate_controller_unlisted_kinds"), 1);
    assert!(
        get(&client, GATEWAY_API, "Gateway", "web").await["status"]["listeners"].is_null(),
        "half of the truth"
    );
    partial.may_list.store(true, Relaxed);
    eventually("it has looked at everything", async || controller.health.is_ready()).await;
    assert_eq!(controller.metric("tidegate_controller_unlisted_kinds"), 0);
    gateway_has(&client, "web", "Accepted", "True", "Accepted").await;

    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "silent", "namespace": "shop"}, "type": "Opaque",
    });
    apply(&client, &secret).await;
    let listener = json!({"listeners": [{
        "name": "tls", "port": 443, "protocol": "TLS",
        "tls": {"mode": "Terminate", "certificateRefs": [{"name": "silent"}]},
    }]});
    apply(&client, &gateway("secure", listener)).await;
    eventually("a request without an answer ends", async || controller.has_said("has not answered for 10s"))
        .await;
    apply(&client, &gateway("other", tcp(5433))).await;
    gateway_has(&client, "other", "Accepted", "True", "Accepted").await;
    // In the middle of such a request too.
    controller.stop().await;
}
