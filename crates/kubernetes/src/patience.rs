//! How long the API server may take to answer. A request that hangs would hang whoever waits for it: the controller's
//! loop, a place of a writer. Watches are open for as long as they like; who follows them notices when they are dead.

use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use kube::{Client, Error};

/// For an answer, whole.
const ANSWER: Duration = Duration::from_secs(10);
/// For a page of a list, which nobody waits for but who follows a kind.
const LIST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Limits {
    answer: Duration,
    list: Duration,
}

/// A client whose requests end.
pub(crate) fn patient(client: &Client) -> Client {
    limited(client, Limits { answer: ANSWER, list: LIST })
}

fn limited(client: &Client, limits: Limits) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = tower::service_fn(move |request| {
        let client = client.clone();
        async move { send(&client, request, limits).await }
    });
    Client::new(service, namespace)
}

async fn send(client: &Client, request: Request<Body>, limits: Limits) -> Result<Response<Body>, Error> {
    let (is_watch, is_list) = (asks_for(&request, "watch"), asks_for(&request, "limit"));
    let limit = if is_list && !is_watch { limits.list } else { limits.answer };
    let answer = async {
        let (head, body) = client.send(request).await?.into_parts();
        // A body can hang as well as what comes before it.
        let body = if is_watch { body } else { Body::from(body.collect_bytes().await?) };
        Ok(Response::from_parts(head, body))
    };
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Service(format!("the API server has not answered for {limit:?}").into())),
    }
}

fn asks_for(request: &Request<Body>, parameter: &str) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| part.split_once('=').is_some_and(|(key, _)| key == parameter))
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, TryStreamExt, stream};
    use http_body_util::StreamBody;
    use http_body_util::combinators::BoxBody;
    use hyper::body::{Bytes, Frame};
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, ListParams, WatchEvent, WatchParams};

    use super::*;

    /// An API server that says so much and then no more.
    fn server(says: Option<&'static str>) -> Client {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let Some(says) = says else { return std::future::pending().await };
            let said =
                stream::iter([Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(says.as_bytes())))]);
            let body = BoxBody::new(StreamBody::new(said.chain(stream::pending())));
            Ok::<_, std::io::Error>(Response::new(body))
        });
        let short = Duration::from_millis(20);
        limited(&Client::new(service, "default"), Limits { answer: short, list: short })
    }

    async fn refusal<T: std::fmt::Debug>(answer: impl Future<Output = Result<T, Error>>) -> String {
        answer.await.expect_err("it does not answer").to_string()
    }

    #[tokio::test]
    async fn a_request_that_hangs_ends() {
        for says in [None, Some("{\"metadata\":")] {
            let pods: Api<Pod> = Api::default_namespaced(server(says));
            for told in [
                refusal(pods.get("a")).await,
                refusal(pods.list(&ListParams::default().limit(10))).await,
                refusal(pods.delete("a", &kube::api::DeleteParams::default())).await,
            ] {
                assert!(told.contains("has not answered for 20ms"), "{told}");
            }
        }
    }

    #[tokio::test]
    async fn a_watch_goes_on() {
        let event = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n";
        let pods: Api<Pod> = Api::default_namespaced(server(Some(event)));
        let mut events = pods.watch(&WatchParams::default(), "0").await.expect("a watch").boxed();
        assert!(matches!(events.try_next().await, Ok(Some(WatchEvent::Added(_)))));
        let more = tokio::time::timeout(Duration::from_millis(200), events.next()).await;
        assert!(more.is_err(), "it is open: {more:?}");
    }
}
