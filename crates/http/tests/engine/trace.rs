//! Traces that go through: `traceparent` and `tracestate` of W3C Trace Context.

use tidegate_plan::Protocol;

use crate::backend::{self, Speaks, answering, told};
use crate::client::{Connection, http2, request, run, whole};
use crate::gate::{Gate, rule};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const STATE: &str = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";

/// As it came, over any version of HTTP on either side, and in the line of the request.
#[test]
fn traceparent_is_passed_on_and_written_down() {
    let old = backend::echo("old");
    let new = answering(Speaks::Http2, |request, _| http::Response::new(told("new", &request).into()));
    let mut gate = Gate::new();
    let a = gate.backend("a", &[old.port]);
    let b = gate.backend_with("b", &[new.port], |backend| backend.protocol = Protocol::Http2);
    gate.route("web", vec![rule("/old", &a), rule("/new", &b)]);
    let gate = gate.serving();
    for path in ["/old", "/new"] {
        let first = format!("GET {path}/1 HTTP/1.1\r\nHost: a.test\r\n");
        let text = format!("{first}Traceparent: {PARENT}\r\nTracestate: {STATE}\r\n\r\n");
        let over_http1 = Connection::to(gate.address()).ask(&text);
        let over_http2 = run(async {
            let mut asked = request("GET", &format!("http://a.test{path}/2"), "");
            asked.headers_mut().insert("traceparent", PARENT.parse().unwrap());
            asked.headers_mut().insert("tracestate", STATE.parse().unwrap());
            whole(http2(gate.address()).await.send_request(asked).await.unwrap()).await
        });
        for answer in [over_http1, over_http2] {
            for line in [format!("traceparent: {PARENT}\n"), format!("tracestate: {STATE}\n")] {
                assert_eq!(answer.body.matches(&line).count(), 1, "{}", answer.body);
            }
        }
        for nth in [1, 2] {
            gate.line(&[&format!("path=\"{path}/{nth}\""), &format!("trace={PARENT:?}")]);
        }
    }
    // Nobody makes one up.
    let without = Connection::to(gate.address()).get("/old/without");
    assert!(!without.body.contains("traceparent"), "{}", without.body);
    assert!(!gate.line(&["path=\"/old/without\""]).contains("trace="));
}
