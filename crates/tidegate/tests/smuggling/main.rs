//! Requests that two readers could read in two ways, by raw sockets. Tidegate refuses them, and whatever it makes of
//! them, the backend sees well-formed requests for what is routed to it and nothing else.
//!
//! Only `/open` has a route. The request that each attempt hides is for `/hidden`: Tidegate answers 404 where it sees
//! it, and if the backend sees it, it got there unseen.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod backend;
mod http1;
mod http2;
#[path = "../loopback/mod.rs"]
mod loopback;
mod strict;
#[path = "../support/mod.rs"]
mod support;

use backend::Recorder;
use loopback::Tidegate;
use loopback::manifests::{gateway, http, http_route, service};

const PORT: u16 = 20_080;

/// Tidegate in front of a backend that records.
fn start() -> (Tidegate, Recorder) {
    let recorder = Recorder::start();
    let text = gateway(&[http("web", PORT)])
        + &http_route("open", "web", &[], "/open", &[("backend", 1)])
        + &service("backend", &[recorder.address]);
    (Tidegate::start(&[("all.yaml", &text)], &[]), recorder)
}

/// Everything that was wrong, case by case, so that one run tells it all.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn note(&mut self, case: &str, what: impl Into<String>) {
        self.0.push(format!("{case}: {}", what.into()));
    }

    /// A request that was refused must not have been whole for the backend.
    fn note_if_whole(&mut self, case: &str, requests: &[strict::Request]) {
        if !requests.is_empty() {
            self.note(case, format!("refused, and still the backend saw {requests:?}"));
        }
    }

    fn check_backend(&mut self, case: &str, recorder: &Recorder) {
        let (requests, strange) = recorder.take();
        for request in requests.iter().filter(|request| !request.target.starts_with("/open")) {
            self.note(case, format!("the backend saw {request:?}"));
        }
        for what in strange {
            self.note(case, format!("the backend saw what is no request: {what}"));
        }
    }

    /// What a case has left behind comes to light now at the latest.
    #[track_caller]
    fn assert_none(mut self, cases: usize, tidegate: &Tidegate, recorder: &Recorder) {
        for _ in 0..10 {
            assert_eq!(http1::exchange(tidegate, http1::LAST), Ok(vec![200]), "it still serves");
        }
        self.check_backend("some case", recorder);
        assert!(self.0.is_empty(), "{} faults in {cases} cases:\n{}", self.0.len(), self.0.join("\n"));
        println!("{cases} cases");
    }
}
