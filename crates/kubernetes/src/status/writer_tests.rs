//! Against an API server that says what the test has it say.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use http::{Method, Request, Response};
use kube::client::Body;
use tidegate_api::Kind;
use tidegate_api::status::{
    Condition, ConditionStatus, ConditionType, ParentRefStatus, Reason, RouteParentStatus, RouteStatus,
    Status,
};
use tidegate_plan::ObjectName;

use super::*;

const OURS: &str = "gateway.tidegate.io/controller";

/// Answers that are given in turn, and what was asked.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Talk>>);

#[derive(Default)]
struct Talk {
    answers: VecDeque<(u16, Json)>,
    asked: Vec<(Method, Json)>,
}

impl Server {
    fn answering(answers: impl IntoIterator<Item = (u16, Json)>) -> Self {
        let server = Self::default();
        server.0.lock().unwrap().answers.extend(answers);
        server
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                assert!(head.uri.path().contains("/namespaces/shop/tcproutes/db"), "{}", head.uri);
                let body = body.collect_bytes().await?;
                let body = serde_json::from_slice(&body).unwrap_or(Json::Null);
                let mut talk = server.0.lock().unwrap_or_else(PoisonError::into_inner);
                talk.asked.push((head.method, body));
                let (code, answer) =
                    talk.answers.pop_front().expect("no more is asked than there are answers to");
                let response =
                    Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Error>(response.expect("an answer"))
            }
        });
        Client::new(service, "default")
    }

    /// What was asked, in turn.
    fn asked(&self) -> Vec<(Method, Json)> {
        self.0.lock().unwrap().asked.clone()
    }
}

fn key() -> ObjectKey {
    ObjectKey { kind: Kind::TcpRoute, name: ObjectName::new("shop", "db") }
}

fn desired() -> Arc<Status> {
    let accepted = Condition {
        kind: ConditionType::Accepted,
        status: ConditionStatus::True,
        reason: Reason::Accepted,
        message: String::new(),
        observed_generation: 1,
    };
    let parent_ref = ParentRefStatus {
        group: "gateway.networking.k8s.io".to_owned(),
        kind: "Gateway".to_owned(),
        namespace: None,
        name: "web".to_owned(),
        section_name: None,
        port: None,
    };
    let ours = RouteParentStatus { parent_ref, controller_name: OURS.into(), conditions: vec![accepted] };
    Arc::new(Status::Route(RouteStatus { parents: vec![ours] }))
}

/// The route as the API server has it, with these parents in its status.
fn route(version: &str, parents: &Json) -> Json {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "TCPRoute",
        "metadata": {"name": "db", "namespace": "shop", "resourceVersion": version, "uid": "u"},
        "status": {"parents": parents},
    })
}

fn theirs() -> Json {
    json!([{"parentRef": {"name": "other"}, "controllerName": "example.com/other", "conditions": []}])
}

fn refusal(code: u16, retry_after: u32) -> (u16, Json) {
    let details = json!({"retryAfterSeconds": retry_after});
    let reason = if code == 404 { "NotFound" } else { "Refused" };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": "no", "details": details,
    });
    (code, status)
}

/// A writer that leads and has one status to write, of a route that was seen in version 5.
struct Stage {
    writer: StatusWriter,
    server: Server,
}

fn stage(answers: impl IntoIterator<Item = (u16, Json)>) -> Stage {
    let server = Server::answering(answers);
    let statuses = Statuses::default();
    statuses.serve(Kind::TcpRoute, Some("v1"));
    statuses.lead(true);
    let seen = serde_json::from_value(route("5", &json!([]))).expect("an object");
    statuses.observe(&key(), Some(observation(&seen)));
    statuses.write(key(), Some(desired()));
    let log = Log::new(|_, _, _| {});
    let (events, _) = Events::new(server.client(), "test", statuses.clone(), log.clone());
    let metrics = Arc::new(Metrics::default());
    let writer =
        StatusWriter { client: server.client(), statuses, controller: OURS.into(), log, events, metrics };
    Stage { writer, server }
}

impl Stage {
    /// One job from its beginning to its end.
    async fn work(&self, now: Instant) -> Outcome {
        let job = self.writer.statuses.take(now).expect("a job");
        self.writer.write(&job).await
    }

    /// How long the job waits until it is tried again.
    async fn put_off(&self) -> Duration {
        let start = Instant::now();
        let job = self.writer.statuses.take(start).expect("a job");
        let outcome = self.writer.write(&job).await;
        self.writer.settle(job, outcome);
        let next = self.writer.statuses.next().expect("it is tried again");
        next.duration_since(start)
    }
}

#[tokio::test]
async fn a_conflict_is_read_and_merged_again() {
    let now_there = route("9", &theirs());
    let written = route("10", &json!([]));
    let stage = stage([refusal(409, 0), (200, now_there), (200, written)]);
    let outcome = stage.work(Instant::now()).await;
    assert!(matches!(outcome, Outcome::Done(Some(there)) if there.resource_version == "10"));
    let asked = stage.server.asked();
    let methods: Vec<&Method> = asked.iter().map(|(method, _)| method).collect();
    assert_eq!(methods, [Method::PATCH, Method::GET, Method::PATCH]);
    assert_eq!(asked[0].1["metadata"]["resourceVersion"], "5");
    assert_eq!(asked[2].1["metadata"]["resourceVersion"], "9", "nothing that came between is overwritten");
    let parents = asked[2].1["status"]["parents"].as_array().expect("a list");
    assert_eq!((parents.len(), &parents[0]), (2, &theirs()[0]));
    assert_eq!(
        (stage.writer.metrics.status_conflicts.get(), stage.writer.metrics.status_writes.get()),
        (1, 1)
    );
}

#[tokio::test]
async fn what_others_write_all_the_time_waits() {
    let rounds = (0..CONFLICTS).flat_map(|round| {
        let read = (200, route(&(round + 6).to_string(), &theirs()));
        [refusal(409, 0), read]
    });
    let stage = stage(rounds);
    assert!(stage.put_off().await >= FIRST_DELAY);
    assert_eq!(stage.writer.metrics.status_conflicts.get(), u64::from(CONFLICTS));
    assert_eq!(stage.writer.metrics.status_failures.get(), 1);
}

#[tokio::test]
async fn a_write_is_put_off_for_as_long_as_the_api_server_asks() {
    // So long at least; the test itself takes a while.
    for (answer, expected) in [
        (refusal(429, 7), Duration::from_secs(7)),
        (refusal(503, 20), Duration::from_secs(20)),
        (refusal(429, 3600), LONGEST_DELAY),
        (refusal(429, 0), FIRST_DELAY),
        (refusal(500, 0), FIRST_DELAY),
        // It will be as wrong a second later.
        (refusal(400, 0), LONGEST_DELAY),
        (refusal(403, 0), LONGEST_DELAY),
        (refusal(422, 1), LONGEST_DELAY),
    ] {
        let code = answer.0;
        let delay = stage([answer]).put_off().await;
        assert!(delay >= expected && delay < expected + Duration::from_secs(60), "{code}: {delay:?}");
        assert!(delay < expected * 2 || expected == FIRST_DELAY, "{code}: {delay:?}");
    }
}

#[tokio::test]
async fn a_write_that_fails_again_waits_longer() {
    let stage = stage([refusal(500, 0), refusal(500, 0), refusal(500, 0)]);
    let mut now = Instant::now();
    for expected in [FIRST_DELAY, FIRST_DELAY * 2, FIRST_DELAY * 4] {
        let job = stage.writer.statuses.take(now).expect("a job");
        let start = Instant::now();
        let outcome = stage.writer.write(&job).await;
        stage.writer.settle(job, outcome);
        let next = stage.writer.statuses.next().expect("it is tried again");
        assert!(next.duration_since(start) >= expected);
        now = next;
    }
}

#[tokio::test]
async fn an_object_that_is_gone_is_forgotten() {
    for answers in [vec![refusal(404, 0)], vec![refusal(409, 0), refusal(404, 0)]] {
        let stage = stage(answers);
        assert!(matches!(stage.work(Instant::now()).await, Outcome::Gone));
    }
}

#[tokio::test]
async fn nothing_is_asked_where_nothing_is_to_be_written() {
    let stage = stage([(200, route("6", &json!([])))]);
    let Outcome::Done(_) = stage.work(Instant::now()).await else { panic!("it is written") };
    let (_, patch) = stage.server.asked().remove(0);
    let there = route("6", &patch["status"]["parents"]);
    let there = serde_json::from_value(there).expect("an object");
    let statuses = &stage.writer.statuses;
    statuses.done(&key(), None, None);
    statuses.observe(&key(), Some(observation(&there)));
    statuses.write(key(), Some(desired()));
    assert!(matches!(stage.work(Instant::now()).await, Outcome::Done(Some(_))));
    assert_eq!(stage.server.asked().len(), 1);
}
