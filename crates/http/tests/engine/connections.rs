//! How long connections go on, and what ends them.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tidegate_plan::{Filter, HeaderChange};
use tidegate_proxy::Bounds;

use crate::backend::{self, Speaks};
use crate::client::{Connection, get, http2, request, run, whole};
use crate::gate::{Gate, rule, wait_for};

fn short() -> Bounds {
    Bounds {
        header_time: Duration::from_millis(200),
        keep_alive_time: Duration::from_millis(400),
        body_time: Duration::from_millis(200),
        ..Bounds::default()
    }
}

fn gate(bounds: Bounds) -> (Gate, backend::Served) {
    let served = backend::echo("a");
    let mut gate = Gate::with(bounds, 1);
    let id = gate.backend("a", &[served.port]);
    gate.route("web", vec![rule("/", &id)]);
    (gate.serving(), served)
}

#[test]
fn slow_heads_and_slow_bodies_end() {
    let (gate, _) = gate(short());
    let mut silent = Connection::to(gate.address());
    assert!(silent.rest().is_empty());
    let mut slow = Connection::to(gate.address());
    slow.send("GET / HTTP/1.1\r\nHost: a.t");
    assert!(slow.rest().is_empty());
    gate.line(&["ending=\"header_timeout\""]);
    let mut body = Connection::to(gate.address());
    let answer = body.ask("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhalf");
    assert_eq!(answer.status, 408);
    gate.line(&["ending=\"body_timeout\""]);
    wait_for("the bound to be counted", || {
        (gate.metric("tidegate_limit_reached_total{limit=\"header_time\"}") >= 2.0).then_some(())
    });
}

#[test]
fn an_idle_connection_ends_in_order() {
    let (gate, _) = gate(short());
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.get("/").status, 200);
    assert_eq!(connection.get("/").status, 200);
    assert!(connection.rest().is_empty());
    wait_for("no connection", || (gate.proxy().connections() == 0).then_some(()));
}

#[test]
fn heads_have_bounds() {
    let bounds = Bounds { header_size: 8192, header_count: 20, uri_size: 100, ..Bounds::default() };
    let (gate, _) = gate(bounds);
    let many: String = (0..30).map(|number| format!("x-{number}: 1\r\n")).collect();
    let long = format!("x: {}\r\n", "y".repeat(9000));
    let path = format!("/{}", "z".repeat(200));
    for (path, headers, status) in
        [("/", many.as_str(), 431), ("/", &long, 431), (&path, "", 414), ("/", "", 200)]
    {
        let ask = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{headers}\r\n");
        assert_eq!(Connection::to(gate.address()).ask(&ask).status, status);
    }
}

/// Answers may have as many as requests.
#[test]
fn headers_are_as_many_as_the_bound_says() {
    for (most, of_backends) in [(20, 100), (100, 100), (300, 300)] {
        let (gate, _) = many_headers(Bounds { header_count: most, ..Bounds::default() });
        // Length and date come with them.
        for (count, status) in [(of_backends - 2, 200), (of_backends - 1, 502)] {
            assert_eq!(get(gate.address(), &format!("/{count}")).status, status, "{count}");
        }
        gate.line(&["ending=\"backend_invalid\""]);
    }
}

/// A backend that answers with as many headers as its path says.
fn many_headers(bounds: Bounds) -> (Gate, backend::Served) {
    let served = backend::answering(Speaks::Http1, |request, _| {
        let count: usize = request.uri().path()[1..].parse().unwrap();
        let mut response = Response::new(Full::new(Bytes::from_static(b"many")));
        for number in 0..count {
            response.headers_mut().append("x-many", number.to_string().parse().unwrap());
        }
        response
    });
    let mut gate = Gate::with(bounds, 1);
    let id = gate.backend("a", &[served.port]);
    gate.route("web", vec![rule("/", &id)]);
    (gate.serving(), served)
}

/// With the bounds that nobody has changed.
#[test]
fn a_hundred_headers_are_enough() {
    let (gate, _) = many_headers(Bounds::default());
    // The backend has no room for more either, and is told five things of the client.
    for (count, status) in [(94, 200), (100, 431)] {
        let many: String = (0..count).map(|number| format!("x-{number}: 1\r\n")).collect();
        let ask = format!("GET /0 HTTP/1.1\r\nHost: a.test\r\n{many}\r\n");
        assert_eq!(Connection::to(gate.address()).ask(&ask).status, status, "{count}");
    }
    let refused = "tidegate_requests_ended_total{reason=\"request_too_large\"}";
    wait_for("it to be counted", || (gate.metric(refused) == 1.0).then_some(()));
}

/// What is read in two ways by two readers is read by none.
#[test]
fn ambiguous_requests_are_refused() {
    let (gate, served) = gate(Bounds::default());
    for text in [
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.test\r\n folded: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
    ] {
        let answer = Connection::to(gate.address()).ask(text);
        assert_eq!(answer.status, 400, "{text}");
    }
    assert_eq!(served.requests(), 0);
}

/// What the parser answers by itself is a request that was refused, for the metrics, the log and the journal.
#[test]
fn what_is_no_request_is_counted_with_its_reason() {
    let (gate, _) = gate(Bounds { header_size: 8192, ..Bounds::default() });
    let long = format!("GET / HTTP/1.1\r\nHost: a.test\r\nx: {}\r\n\r\n", "y".repeat(90_000));
    let words = ["400: the head of the request cannot be read\n", "431 Request Header Fields Too Large\n"];
    for (text, status, reason, words) in [
        ("GET / HTTP/1.1\r\nHost: a.test\r\nbad header: 1\r\n\r\n", 400, "request_invalid", words[0]),
        (&long, 431, "request_too_large", words[1]),
    ] {
        let mut connection = Connection::to(gate.address());
        assert_eq!(connection.get("/").status, 200);
        let answer = connection.ask(text);
        assert_eq!((answer.status, answer.body.as_str()), (status, words));
        assert_eq!(answer.header("x-tidegate-reason"), Some(reason));
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(answer.head.matches("content-length").count(), 1, "{}", answer.head);
        assert!(connection.rest().is_empty());
        let line = gate.line(&[&format!("ending=\"{reason}\"")]);
        assert!(line.contains("detail="), "{line}");
        let series = format!("tidegate_requests_ended_total{{reason=\"{reason}\"}}");
        wait_for("it to be counted", || (gate.metric(&series) == 1.0).then_some(()));
    }
    assert_eq!(gate.metric("tidegate_requests_total{code=\"4xx\"}"), 2.0);
    assert_eq!(gate.metric("tidegate_requests_total{code=\"2xx\"}"), 2.0);
}

/// The parser's answers are told from others by when they come, also from one that looks the same.
#[test]
fn the_parser_has_its_words_behind_any_answer() {
    let served = backend::answering(Speaks::Http1, |_, _| {
        let mut response = Response::new(Full::new(Bytes::new()));
        *response.status_mut() = http::StatusCode::BAD_REQUEST;
        response
    });
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend("a", &[served.port]);
    gate.route("web", vec![rule("/", &id)]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    connection
        .send(&format!("{}\x01 / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(5)));
    for _ in 0..5 {
        let answer = connection.answer().unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (400, ""));
        assert_eq!(answer.header("x-tidegate-reason"), None);
    }
    let answer = connection.answer().unwrap();
    assert_eq!((answer.status, answer.header("x-tidegate-reason")), (400, Some("request_invalid")));
    assert!(connection.rest().is_empty());
}

/// A request that is under way when its route changes goes on; the next takes the new plan on the same connection.
#[test]
fn the_next_request_takes_the_newest_plan() {
    let (mut gate, _) = gate(Bounds::default());
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.get("/").header("x-new"), None);
    let new = tidegate_plan::Header { name: "x-new".to_owned(), value: "1".to_owned() };
    let id = gate.backend("a", &[backend::echo("b").port]);
    let mut changed = rule("/", &id);
    changed.filters =
        vec![Filter::ResponseHeaders(HeaderChange { set: vec![new], ..HeaderChange::default() })];
    gate.route("web", vec![changed]);
    gate.apply();
    let answer = connection.get("/");
    assert_eq!(answer.header("x-new"), Some("1"));
    assert!(answer.body.starts_with("b "), "{}", answer.body);
}

#[test]
fn connections_of_a_removed_listener_end() {
    let (mut gate, _) = gate(Bounds::default());
    let mut connection = Connection::to(gate.address());
    assert_eq!(connection.get("/").status, 200);
    gate.remove_listener("http");
    assert!(connection.rest().is_empty());
}

/// What is under way is finished, idle connections end at once, and nothing outlives the deadline.
#[test]
fn drain() {
    let slow = backend::serving(Speaks::Http1, |_, nth| async move {
        if nth == 0 {
            tokio::time::sleep(Duration::from_millis(500)).await;
        } else {
            std::future::pending::<()>().await;
        }
        Response::new(Full::new(Bytes::from_static(b"at last")))
    });
    let mut gate = Gate::with(Bounds::default(), 1);
    let id = gate.backend("slow", &[slow.port]);
    let quick = gate.backend("quick", &[backend::echo("quick").port]);
    gate.route("web", vec![rule("/slow", &id), rule("/", &quick)]);
    let gate = gate.serving();
    let mut idle = Connection::to(gate.address());
    assert_eq!(idle.get("/").status, 200);
    run(async {
        let mut client = http2(gate.address()).await;
        let asked = tokio::spawn({
            let answer = client.send_request(request("GET", "http://a.test/slow", ""));
            async move { whole(answer.await.unwrap()).await }
        });
        tokio::task::spawn_blocking({
            let slow = slow.clone();
            move || wait_for("the request", || (slow.requests() == 1).then_some(()))
        })
        .await
        .unwrap();
        let mut stuck = Connection::to(gate.address());
        stuck.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
        tokio::task::spawn_blocking({
            let slow = slow.clone();
            move || wait_for("the other", || (slow.requests() == 2).then_some(()))
        })
        .await
        .unwrap();
        let ((), answer) = tokio::join!(gate.proxy().drain(Duration::from_secs(2)), asked);
        assert_eq!(answer.unwrap().body, "at last");
        assert!(gate.proxy().connections() <= 1, "{}", gate.proxy().connections());
        assert!(stuck.rest().is_empty());
    });
    assert!(idle.rest().is_empty());
}

/// Streams both ways without waiting for the whole.
#[test]
fn bodies_are_not_gathered() {
    let (gate, served) = gate(Bounds::default());
    let mut connection = Connection::to(gate.address());
    connection.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    wait_for("the backend to have the beginning", || (served.requests() == 1).then_some(()));
    let answer = connection.ask("6\r\n there\r\n0\r\n\r\n");
    assert!(answer.body.ends_with("\nhello there"), "{}", answer.body);
    assert!(answer.body.contains("transfer-encoding: chunked\n"), "{}", answer.body);
}

#[test]
fn expect_continue_is_answered_when_the_backend_wants_the_body() {
    let (gate, _) = gate(Bounds::default());
    let mut connection = Connection::to(gate.address());
    let first = connection
        .ask("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(first.status, 100);
    let answer = connection.ask("body");
    assert!(answer.body.ends_with("\nbody") && !answer.body.contains("expect"), "{}", answer.body);
    assert_eq!(get(gate.address(), "/").status, 200);
}

/// Clients of HTTP/2 may say in a frame of its own that a request has no body. A backend over HTTP/1.1 must not be told
/// of one for that: it may close the connection on what it does not read, and with that lose its answer.
#[test]
fn a_body_that_turns_out_empty_is_none() {
    let (gate, _) = gate(Bounds::default());
    let asked = |method: &'static str, data: &'static str| {
        run(async {
            let stream = tokio::net::TcpStream::connect(gate.address()).await.unwrap();
            let (sender, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let request = Request::builder().method(method).uri("http://a.test/").body(()).unwrap();
            let (answer, mut body) = sender.ready().await.unwrap().send_request(request, false).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            body.send_data(Bytes::from_static(data.as_bytes()), true).unwrap();
            let mut body = answer.await.unwrap().into_body();
            String::from_utf8(body.data().await.unwrap().unwrap().to_vec()).unwrap()
        })
    };
    // Where the machine has much else to do, the end may come later than it is waited for.
    let is_none = |told: &String| !told.contains("transfer-encoding") && !told.contains("content-length");
    assert!((0..5).any(|_| is_none(&asked("GET", ""))));
    let told = asked("GET", "something");
    assert!(told.contains("transfer-encoding: chunked") && told.ends_with("\n\nsomething"), "{told}");
    let told = asked("POST", "");
    assert!(told.contains("transfer-encoding: chunked"), "a body may take its time: {told}");
}
