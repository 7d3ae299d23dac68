//! A mistake in the way of one request: an engine that is the real one but for requests at whose end it panics.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tidegate_proxy::{Bounds, HttpConnection, HttpEngine, HttpKit, HttpWorker};
use tokio::sync::Semaphore;

use super::{Reply, Tie};
use crate::body::{Body, Incoming};
use crate::engine::{Engine, Home, Options, Worker};
use crate::exchange;
use crate::gate::{Gate, rule, wait_for};
use crate::served::{Served, Speaks, serving};
use crate::visitor::{Connection, get, http2, request, run, whole};

struct Fragile(Engine);

struct FragileWorker(Worker);

impl HttpEngine for Fragile {
    fn on_worker(&self, kit: HttpKit) -> Box<dyn HttpWorker> {
        Box::new(FragileWorker(Worker(self.0.home(kit))))
    }
}

impl HttpWorker for FragileWorker {
    fn serve(&self, connection: HttpConnection) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(super::serve(Rc::clone(&self.0.0), connection, answer))
    }

    fn tick(&self) {
        self.0.tick();
    }

    fn look_again(&self) {
        self.0.look_again();
    }

    fn drain(&self, time: Duration) {
        self.0.drain(time);
    }
}

/// All that a request may hold is held when it panics: its connection to a backend, the answer, its body.
async fn answer(home: Rc<Home>, tie: Rc<Tie>, request: Request<Incoming>, reply: Reply) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let answer = exchange::serve(home, tie, request, reply).await;
    assert_ne!(path, "/panic", "as the test wants it");
    answer
}

/// One worker with a backend that keeps `/slow` waiting for a permit.
fn gate() -> (Gate, Served, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    let waited_for = Arc::clone(&permits);
    let served = serving(Speaks::Http1, move |request, _| {
        let permits = Arc::clone(&waited_for);
        async move {
            if request.uri().path() == "/slow" {
                permits.acquire().await.unwrap().forget();
            }
            Response::new(Full::new(Bytes::from_static(b"served")))
        }
    });
    let engine = Engine::new(Options::new(Default::default(), true).unwrap());
    let mut gate = Gate::with_engine(Bounds::default(), 1, Box::new(Fragile(engine)));
    let id = gate.backend("a", &[served.port]);
    gate.route("web", vec![rule("/", &id)]);
    (gate.serving(), served, permits)
}

fn wait_for_panics(gate: &Gate, count: f64) {
    let series = "tidegate_requests_ended_total{reason=\"panicked\"}";
    wait_for("the request to be written down", || (gate.metric(series) == count).then_some(()));
    gate.line(&["ending=\"panicked\"", "path=\"/panic\""]);
}

/// A connection over HTTP/1.1 has one request at a time, and ends with it; all others go on.
#[test]
fn a_panic_ends_its_connection_alone() {
    let (gate, served, permits) = gate();
    let (mut idle, mut busy) = (Connection::to(gate.address()), Connection::to(gate.address()));
    assert_eq!(idle.get("/").status, 200);
    busy.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
    wait_for("the request to be under way", || (served.requests() == 2).then_some(()));
    for count in 1..=3 {
        let mut unlucky = Connection::to(gate.address());
        unlucky.send("GET /panic HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert!(unlucky.rest().is_empty());
        wait_for_panics(&gate, f64::from(count));
    }
    permits.add_permits(1);
    assert_eq!(busy.answer().unwrap().body, "served");
    assert_eq!(idle.get("/").body, "served");
    assert_eq!(get(gate.address(), "/").body, "served");
    drop((idle, busy));
    wait_for("all places to be given back", || (gate.proxy().connections() == 0).then_some(()));
}

/// Over HTTP/2 not even the connection ends, and the requests beside it do not notice.
#[test]
fn a_panic_ends_its_stream_alone() {
    let (gate, served, permits) = gate();
    run(async {
        let mut client = http2(gate.address()).await;
        let slow = tokio::spawn(client.send_request(request("GET", "http://a.test/slow", "")));
        let begun = served.clone();
        let begun = move || wait_for("the request to be under way", || (begun.requests() == 1).then_some(()));
        tokio::task::spawn_blocking(begun).await.unwrap();
        assert!(client.send_request(request("GET", "http://a.test/panic", "")).await.is_err());
        wait_for_panics(&gate, 1.0);
        permits.add_permits(1);
        assert_eq!(whole(slow.await.unwrap().unwrap()).await.body, "served");
        let after = client.send_request(request("GET", "http://a.test/", "")).await.unwrap();
        assert_eq!(whole(after).await.body, "served");
    });
}
