//! Clients and backends that break off, are slow, or say what they should not: each at each step.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use tidegate_proxy::Bounds;

use crate::client::{Connection, get, run};
use crate::gate::{Gate, rule, wait_for};
use crate::raw;

fn gate(port: u16) -> Gate {
    gate_with(port, Bounds::default())
}

fn gate_with(port: u16, bounds: Bounds) -> Gate {
    let mut gate = Gate::with(bounds, 1);
    let id = gate.backend("a", &[port]);
    gate.route("web", vec![rule("/", &id)]);
    gate.serving()
}

/// A backend that begins to answer, says no more, and counts those of its connections that have ended.
fn quiet_stream() -> (u16, Arc<AtomicUsize>) {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let port = raw::backend(move |line| {
        raw::head(line);
        raw::say(line, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
        raw::to_the_end(line);
        counted.fetch_add(1, SeqCst);
    });
    (port, ended)
}

/// Whose first chunk of an answer was read.
fn begun(gate: &Gate, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gate.address()).unwrap();
    stream.set_read_timeout(Some(crate::gate::PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"first\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        got.push(byte[0]);
    }
    stream
}

const POST: &str = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";

#[test]
fn a_client_that_leaves_in_the_middle_of_its_body() {
    let (port, ended) = quiet_stream();
    let gate = gate(port);
    drop(begun(&gate, POST));
    wait_for("the backend to be let go", || (ended.load(SeqCst) == 1).then_some(()));
    gate.line(&["status=200", "ending=\"client_reset\""]);
    wait_for("no connection", || (gate.proxy().connections() == 0).then_some(()));
}

#[test]
fn a_body_that_goes_wrong_after_the_answer_has_begun() {
    let (port, ended) = quiet_stream();
    let gate = gate(port);
    let mut stream = begun(&gate, POST);
    stream.write_all(b"no size\r\n").unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    wait_for("the backend to be let go", || (ended.load(SeqCst) == 1).then_some(()));
    gate.line(&["status=200", "ending=\"request_invalid\""]);
}

#[test]
fn a_client_that_leaves_behind_the_beginning_of_another_request() {
    let (port, ended) = quiet_stream();
    let gate = gate(port);
    let mut stream = begun(&gate, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    stream.write_all(b"G").unwrap();
    // Seen by itself, before the end.
    std::thread::sleep(Duration::from_millis(50));
    drop(stream);
    wait_for("the backend to be let go", || (ended.load(SeqCst) == 1).then_some(()));
    gate.line(&["status=200", "ending=\"client_reset\""]);
}

/// Nobody can tell it from a client that has left.
#[test]
fn a_client_that_sends_no_more_is_gone() {
    let (port, ended) = quiet_stream();
    let gate = gate(port);
    let mut stream = begun(&gate, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    wait_for("the backend to be let go", || (ended.load(SeqCst) == 1).then_some(()));
    gate.line(&["status=200", "ending=\"client_reset\""]);
}

/// What goes up does not wait for what goes down.
#[test]
fn an_upload_beside_an_answer_that_has_no_room() {
    const SIZE: usize = 1 << 20;
    let got = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&got);
    let port = raw::backend(move |line| {
        raw::head(line);
        raw::say(line, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        raw::take(line, SIZE);
        counted.store(SIZE, SeqCst);
    });
    let gate = gate(port);
    run(async {
        let (mut client, _) = raw::http2(gate.address(), 0).await;
        let length = SIZE.to_string();
        let asked = raw::request("POST", "/", &[("content-length", &length)]);
        let (answer, mut body) = client.send_request(asked, false).unwrap();
        let answer = answer.await.unwrap();
        body.reserve_capacity(SIZE);
        body.send_data(Bytes::from(vec![b'x'; SIZE]), true).unwrap();
        let arrived = move || wait_for("all of it", || (got.load(SeqCst) == SIZE).then_some(()));
        tokio::task::spawn_blocking(arrived).await.unwrap();
        drop(answer);
    });
}

/// Whatever else its connection is used for.
#[test]
fn a_stream_that_is_never_let_go_on_ends() {
    let gate = gate_with(
        raw::always("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        Bounds { idle_time: Duration::from_millis(500), ..Bounds::default() },
    );
    run(async {
        let (mut client, mut pings) = raw::http2(gate.address(), 0).await;
        let (answer, _) = client.send_request(raw::request("GET", "/", &[]), true).unwrap();
        let body = answer.await.unwrap().into_body();
        tokio::spawn(async move {
            while pings.ping(h2::Ping::opaque()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let error = raw::whole(body).await.unwrap_err();
        assert_eq!(error.reason(), Some(h2::Reason::CANCEL));
        assert!(error.is_reset() && error.is_remote(), "{error}");
    });
    gate.line(&["status=200", "ending=\"idle_timeout\""]);
}

/// What a backend says instead of an answer, or where it stops.
#[test]
fn answers_that_are_none() {
    let long: &'static str = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(300_000)).leak();
    let many: &'static str = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200)).leak();
    for (words, ending) in [
        ("", "backend_reset"),
        ("HTTP/1.1 200 OK\r\nContent-Le", "backend_reset"),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", "backend_reset"),
        ("SSH-2.0-OpenSSH_9\r\n\r\n", "backend_invalid"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "backend_invalid"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "backend_invalid"),
        ("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", "backend_invalid"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "backend_invalid"),
        ("HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", "backend_invalid"),
        ("HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n", "backend_invalid"),
        ("HTTP/1.1 2x0 OK\r\n\r\n", "backend_invalid"),
        (long, "backend_invalid"),
        (many, "backend_invalid"),
    ] {
        let port = raw::backend(move |line| {
            raw::head(line);
            raw::say(line, words);
            let _ = line.get_mut().shutdown(Shutdown::Write);
            raw::to_the_end(line);
        });
        let gate = gate(port);
        let answer = get_past_hints(&gate);
        let words = &words[..words.len().min(80)];
        assert_eq!(answer, (502, Some(ending.to_owned())), "{words:?}");
        gate.line(&["status=502", &format!("ending=\"{ending}\"")]);
    }
}

fn get_past_hints(gate: &Gate) -> (u16, Option<String>) {
    let mut connection = Connection::to(gate.address());
    let mut answer = connection.get("/");
    if answer.status == 103 {
        answer = connection.answer().unwrap();
    }
    (answer.status, answer.header("x-tidegate-reason").map(str::to_owned))
}

/// A client must be able to tell that it does not have the whole.
#[test]
fn answers_that_stop_in_the_middle() {
    for words in [
        "Content-Length: 10\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nno size\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    ] {
        let words: &'static str = format!("HTTP/1.1 200 OK\r\n{words}").leak();
        let port = raw::backend(move |line| {
            raw::head(line);
            raw::say(line, words);
        });
        let gate = gate(port);
        let mut connection = Connection::to(gate.address());
        connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let got = String::from_utf8(connection.rest()).unwrap();
        let has_begun = got.is_empty() || got.starts_with("HTTP/1.1 200 OK\r\n");
        assert!(has_begun && !got.ends_with("0\r\n\r\n"), "{words:?}: {got:?}");
        gate.line(&["status=200", "ending=\"backend_reset\""]);
        run(async {
            let (mut client, _) = raw::http2(gate.address(), 65_535).await;
            let (answer, _) = client.send_request(raw::request("GET", "/", &[]), true).unwrap();
            let error = match answer.await {
                Ok(answer) => raw::whole(answer.into_body()).await.unwrap_err(),
                Err(error) => error,
            };
            assert!(error.is_reset() && error.is_remote(), "{words:?}: {error}");
        });
    }
}

/// What comes behind an answer is nobody's, least of all the next request's.
#[test]
fn answers_that_are_longer_than_they_say() {
    let port =
        raw::always("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nX-Evil: 1\r\n\r\n");
    let gate = gate(port);
    let mut connection = Connection::to(gate.address());
    for _ in 0..5 {
        let answer = connection.get("/");
        assert_eq!((answer.body.as_str(), answer.header("x-evil")), ("hello", None));
    }
}

/// A backend may answer before it has read all, and close on the rest.
#[test]
fn an_answer_in_the_middle_of_an_upload() {
    let port = raw::backend(|line| {
        raw::head(line);
        raw::say(line, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!");
        let _ = line.get_mut().shutdown(Shutdown::Write);
        raw::to_the_end(line);
    });
    let gate = gate(port);
    let mut connection = Connection::to(gate.address());
    let head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n";
    let answer = connection.ask(&format!("{head}{}", "x".repeat(1000)));
    assert_eq!((answer.status, answer.body.as_str()), (413, "no!"));
    gate.line(&["status=413"]);
    assert_eq!(get(gate.address(), "/").status, 413);
}

/// What nobody reads is not gathered: a backend can send no more than the machine keeps for two connections.
#[test]
fn a_reader_that_reads_nothing_holds_the_backend_up() {
    const MOST: usize = 64 << 20;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let port = raw::backend(move |line| {
        raw::head(line);
        raw::say(line, "HTTP/1.1 200 OK\r\n\r\n");
        let piece = vec![b'x'; 64 << 10];
        while counted.load(SeqCst) < MOST && line.get_mut().write_all(&piece).is_ok() {
            counted.fetch_add(piece.len(), SeqCst);
        }
    });
    let gate = gate(port);
    let mut connection = Connection::to(gate.address());
    connection.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let held_up = settled(&sent);
    assert!(held_up < MOST / 2, "{held_up}");
    assert!(connection.rest().len() > MOST, "and all of it comes when it is read");
}

/// The same the other way round.
#[test]
fn a_backend_that_reads_nothing_holds_the_client_up() {
    const MOST: usize = 64 << 20;
    let go = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&go);
    let port = raw::backend(move |line| {
        raw::head(line);
        wait_for("the word", || (told.load(SeqCst) == 1).then_some(()));
        raw::take(line, MOST);
        raw::say(line, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    });
    let gate = gate(port);
    let stream = TcpStream::connect(gate.address()).unwrap();
    let (sent, counted) = (Arc::new(AtomicUsize::new(0)), stream.try_clone().unwrap());
    let count = Arc::clone(&sent);
    let sending = std::thread::spawn(move || {
        let mut stream = counted;
        write!(stream, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {MOST}\r\n\r\n").unwrap();
        let piece = vec![b'x'; 64 << 10];
        for _ in 0..MOST / piece.len() {
            stream.write_all(&piece).unwrap();
            count.fetch_add(piece.len(), SeqCst);
        }
    });
    let held_up = settled(&sent);
    assert!(held_up < MOST / 2, "{held_up}");
    go.store(1, SeqCst);
    sending.join().unwrap();
    let mut got = vec![0; 15];
    (&stream).read_exact(&mut got).unwrap();
    assert_eq!(got, b"HTTP/1.1 200 OK");
}

/// The number, once it grows no more.
fn settled(number: &AtomicUsize) -> usize {
    let mut before = 0;
    wait_for("it to settle", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = number.load(SeqCst);
        (std::mem::replace(&mut before, now) == now && now > 0).then_some(now)
    })
}
