//! HTTP/2 from the client, HTTP/1.1 to the backend: what one of them carries and the other takes for a line of its
//! own. Refused means a 400, a stream that is reset, or a connection that is ended.

use crate::loopback::h2::{Answer, Client, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, block, request};
use crate::{Faults, PORT, start};

type Field = (Vec<u8>, Vec<u8>);

struct Case {
    name: &'static str,
    fields: Vec<Field>,
    /// Frames of data, and trailers behind them.
    data: Vec<&'static [u8]>,
    trailers: Option<Vec<Field>>,
    wanted: Wanted,
}

enum Wanted {
    Refused,
    /// A good request; why, and what the backend must have seen of a header.
    Served(&'static str),
    Status(u16, &'static str),
}

fn fields(lines: &[(&str, &str)]) -> Vec<Field> {
    lines.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// These behind what each request has.
fn with(name: &'static str, more: &[(&str, &str)]) -> Case {
    let mut all = fields(&request("GET", "/open", "a.test"));
    all.extend(fields(more));
    of(name, all)
}

fn of(name: &'static str, fields: Vec<Field>) -> Case {
    Case { name, fields, data: Vec::new(), trailers: None, wanted: Wanted::Refused }
}

fn whole(name: &'static str, lines: &[(&str, &str)]) -> Case {
    of(name, fields(lines))
}

/// A POST of five bytes with this header.
fn sends(name: &'static str, more: &[(&str, &str)], data: &[&'static [u8]]) -> Case {
    let mut all = fields(&request("POST", "/open", "a.test"));
    all.extend(fields(more));
    Case { data: data.to_vec(), ..of(name, all) }
}

impl Case {
    fn served(self, why: &'static str) -> Self {
        Self { wanted: Wanted::Served(why), ..self }
    }

    fn answered(self, status: u16, why: &'static str) -> Self {
        Self { wanted: Wanted::Status(status, why), ..self }
    }

    fn trailers(self, lines: &[(&str, &str)]) -> Self {
        Self { trailers: Some(fields(lines)), ..self }
    }
}

/// Asks to go on with another protocol.
fn tunnel(protocol: &str) -> Case {
    let to = [(":scheme", "http"), (":path", "/open"), (":authority", "a.test")];
    let name = "CONNECT that would go on";
    whole(name, &[&[(":method", "CONNECT"), (":protocol", protocol)][..], &to].concat())
}

#[test]
fn headers() {
    check(vec![
        with("CR LF in a value", &[("x", "a\r\nx-hidden: 1")]),
        with("a request in a value", &[("x", "a\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a.test\r\n\r\n")]),
        with("LF in a value", &[("x", "a\nx-hidden: 1")]),
        with("CR in a value", &[("x", "a\rx-hidden: 1")]),
        with("NUL in a value", &[("x", "a\0b")]),
        with("CR LF in a name", &[("x: a\r\nx-hidden", "1")]),
        with("a colon in a name", &[("x-a: b", "1")]),
        with("space in a name", &[("x a", "1")]),
        with("a capital in a name", &[("X-A", "1")]),
        with("an empty name", &[("", "1")]),
        with("NUL in a name", &[("x\0", "1")]),
        with("Connection", &[("connection", "close")]),
        with("Connection that names another", &[("connection", "x-a"), ("x-a", "1")]),
        with("Keep-Alive", &[("keep-alive", "timeout=5")]),
        with("Proxy-Connection", &[("proxy-connection", "keep-alive")]),
        with("Upgrade", &[("upgrade", "websocket")]),
        with("Transfer-Encoding", &[("transfer-encoding", "chunked")]),
        with("Transfer-Encoding identity", &[("transfer-encoding", "identity")]),
        with("TE", &[("te", "gzip")]),
        with("TE with more than trailers", &[("te", "trailers, chunked")]),
        with("TE: trailers", &[("te", "trailers")])
            .served("the one value that HTTP/2 knows (RFC 9113 8.2.2)"),
        with("cookies", &[("cookie", "a=1"), ("cookie", "b=2")])
            .served("one line for the backend, as RFC 9113 8.2.3 has it"),
    ]);
}

#[test]
fn pseudo_headers() {
    let (method, scheme, path, authority) =
        ((":method", "GET"), (":scheme", "http"), (":path", "/open"), (":authority", "a.test"));
    check(vec![
        whole("behind a header", &[method, scheme, path, ("x", "y"), authority]),
        whole("no :path", &[method, scheme, authority]),
        whole("no :method", &[scheme, path, authority]),
        whole("no :scheme", &[method, path, authority]),
        whole("two :path", &[method, scheme, path, (":path", "/hidden"), authority]),
        whole("two :method", &[method, (":method", "POST"), scheme, path, authority]),
        whole("two :authority", &[method, scheme, path, authority, (":authority", "b.test")]),
        whole("an unknown one", &[method, scheme, path, authority, (":hidden", "x")]),
        whole("one of answers", &[method, scheme, path, authority, (":status", "200")]),
        whole("no host at all", &[method, scheme, path]),
        whole("an empty :authority", &[method, scheme, path, (":authority", "")]),
        whole("CR LF in :authority", &[method, scheme, path, (":authority", "a.test\r\nx-hidden: 1")]),
        whole("space in :authority", &[method, scheme, path, (":authority", "a.test b.test")]),
        whole("a user in :authority", &[method, scheme, path, (":authority", "user@a.test")]),
        whole("a path in :authority", &[method, scheme, path, (":authority", "a.test/hidden")]),
        whole("a Host that disagrees", &[method, scheme, path, authority, ("host", "b.test")]),
        whole("two Hosts", &[method, scheme, path, ("host", "a.test"), ("host", "b.test")]),
        whole("Host beside an equal :authority", &[method, scheme, path, authority, ("host", "a.test")])
            .served("both say the same (RFC 9113 8.3.1), and the backend gets one"),
        whole("Host alone", &[method, scheme, path, ("host", "a.test")])
            .served("as what was HTTP/1.1 before may have it (RFC 9113 8.3.1)"),
        whole(
            "a method with a line in it",
            &[(":method", "GET /hidden HTTP/1.1\r\nHost: a.test\r\n\r\nGET"), scheme, path, authority],
        ),
        whole("space in the method", &[(":method", "GET /hidden"), scheme, path, authority]),
        whole("an empty method", &[(":method", ""), scheme, path, authority]),
        whole("CR LF in the scheme", &[method, (":scheme", "http\r\nx-hidden: 1"), path, authority]),
        whole("CONNECT", &[(":method", "CONNECT"), (":authority", "a.test:80")])
            .answered(405, "a good request for what is not offered"),
        whole("CONNECT with a path", &[(":method", "CONNECT"), path, scheme, authority]),
        tunnel("h2c").answered(405, "HTTP/2 is nothing to go on with"),
        tunnel("websocket, h2c").answered(405, "one protocol, and no list"),
        tunnel("websocket\r\nx-hidden: 1").answered(405, "no protocol has such a name"),
    ]);
}

#[test]
fn paths() {
    let path = |name, path| {
        whole(name, &[(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "a.test")])
    };
    check(vec![
        path("empty", ""),
        path("without a slash", "open"),
        path("a query alone", "?/hidden").answered(404, "the root with a query"),
        path("* for a GET", "*"),
        path("a whole URL", "http://b.test/open"),
        path("space", "/open /hidden"),
        path("a version behind it", "/open HTTP/1.1"),
        path("CR LF", "/open\r\nx-hidden: 1"),
        path("a request in it", "/open HTTP/1.1\r\nHost: a.test\r\n\r\nGET /hidden"),
        path("LF", "/open\nx"),
        path("NUL", "/open\0"),
        path("a tab", "/open\t"),
        path("a fragment", "/open#x")
            .served("the library drops it: the decision and the backend see the same path"),
        path("an encoded NUL", "/open/%00"),
        path("out of the root", "/open/../../hidden").answered(404, "there is nothing above the root"),
        path("out of what is routed", "/open/../hidden")
            .answered(404, "a request for /hidden, for the decision as for the backend"),
    ]);
}

#[test]
fn bodies() {
    // In one frame: of two, the first would be a whole request to the backend before the second is there.
    let long: &[&'static [u8]] = &[b"helloGET /hidden HTTP/1.1\r\nHost: a.test\r\n\r\n"];
    check(vec![
        sends("longer than its length", &[("content-length", "5")], long),
        sends("shorter than its length", &[("content-length", "50")], &[b"hello"]),
        sends("nothing where a length is told", &[("content-length", "5")], &[b""]),
        sends("a length of nothing", &[("content-length", "0")], &[b"hello"]),
        with("a length and no body", &[("content-length", "5")]),
        sends("two lengths that differ", &[("content-length", "5"), ("content-length", "6")], &[b"hello"]),
        sends("two lengths that are equal", &[("content-length", "5"), ("content-length", "5")], &[b"hello"]),
        sends("a list of lengths", &[("content-length", "5, 5")], &[b"hello"]),
        sends("plus", &[("content-length", "+5")], &[b"hello"]),
        sends("hexadecimal", &[("content-length", "0x5")], &[b"hello"]),
        sends("letters", &[("content-length", "five")], &[b"hello"]),
        sends("the right length", &[("content-length", "5")], &[b"he", b"llo"]).served("as it should be"),
        sends("no length", &[], &[b"5\r\nhello\r\n0\r\n\r\n"])
            .served("bytes that look like a chunk are bytes inside a chunk"),
        sends("a pseudo header as trailer", &[], &[b"hello"])
            .trailers(&[(":path", "/hidden")])
            .served("the library drops it, and the backend gets no trailer"),
        sends("CR LF in a trailer", &[], &[b"hello"]).trailers(&[("x", "a\r\n\r\nGET /hidden HTTP/1.1")]),
        sends("Transfer-Encoding as trailer", &[], &[b"hello"]).trailers(&[("transfer-encoding", "chunked")]),
        sends("a length as trailer", &[], &[b"hello"])
            .trailers(&[("content-length", "50"), ("x-a", "1")])
            .served("a trailer says nothing about framing; it is not passed on"),
        sends("trailers", &[], &[b"hello"]).trailers(&[("x-a", "1")]).served("as it should be"),
    ]);
}

fn check(cases: Vec<Case>) {
    let (tidegate, recorder) = start();
    let (mut faults, count) = (Faults::default(), cases.len());
    for Case { name, fields, data, trailers, wanted } in cases {
        let mut client = Client::start(tidegate.connect(PORT), &[]);
        let mut frames = vec![Frame::new(HEADERS, END_HEADERS, 1, block(&fields))];
        frames.extend(data.iter().map(|piece| Frame::new(DATA, 0, 1, *piece)));
        frames.extend(trailers.map(|trailers| Frame::new(HEADERS, END_HEADERS, 1, block(&trailers))));
        if let Some(last) = frames.last_mut() {
            last.flags |= END_STREAM;
        }
        // All at once, so that what the backend sees is not a matter of when the second frame comes. It may be cut off
        // in the middle, and that is seen when its answer is read.
        let _ = client.send_bytes(&frames.iter().flat_map(Frame::bytes).collect::<Vec<_>>());
        let answer = client.answer(1);
        let requests = recorder.requests();
        let is_right = match (&answer, &wanted) {
            (Ok(Answer::Status(400) | Answer::Reset(_) | Answer::Gone(_)), Wanted::Refused) => true,
            (Ok(Answer::Status(200)), Wanted::Served(_)) => {
                let cookies = requests.iter().flat_map(|request| request.all("cookie")).count();
                requests.len() == 1 && cookies <= 1
            }
            (Ok(Answer::Status(status)), Wanted::Status(wanted, _)) => status == wanted,
            _ => false,
        };
        if !is_right {
            let wanted = match wanted {
                Wanted::Refused => "refused".to_owned(),
                Wanted::Served(why) => format!("served: {why}"),
                Wanted::Status(status, why) => format!("{status}: {why}"),
            };
            faults.note(name, format!("{answer:?}, to be {wanted}; the backend saw {requests:?}"));
        }
        if matches!(answer, Ok(Answer::Reset(_) | Answer::Gone(_))) {
            faults.note_if_whole(name, &requests);
        }
        faults.check_backend(name, &recorder);
    }
    faults.assert_none(count, &tidegate, &recorder);
}
