//! HTTP/1.1 from the client: framing, line ends, names, targets and hosts.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

use crate::loopback::Tidegate;
use crate::{Faults, PORT, start};

/// What the client gets back on the connection, one status for each answer.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    statuses: &'static [u16],
    /// Why it is right where it is not one 400 and the end of the connection.
    why: &'static str,
    /// Nothing that comes behind is answered.
    is_end: bool,
}

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a.test\r\n\r\n";

pub(crate) const LAST: &[u8] = b"GET /open HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

fn refused(name: &'static str, bytes: impl Into<Vec<u8>>) -> Case {
    answered(name, bytes, &[400], "")
}

fn answered(
    name: &'static str,
    bytes: impl Into<Vec<u8>>,
    statuses: &'static [u16],
    why: &'static str,
) -> Case {
    // Whoever sends what is refused has nothing more to say.
    let is_end = matches!(statuses.last(), Some(400 | 405));
    Case { name, bytes: bytes.into(), statuses, why, is_end }
}

/// The connection ends after these answers, whatever they were.
fn ends(name: &'static str, bytes: impl Into<Vec<u8>>, statuses: &'static [u16], why: &'static str) -> Case {
    Case { is_end: true, ..answered(name, bytes, statuses, why) }
}

/// A POST with these header lines and this behind its head.
fn post(lines: &str, rest: &str) -> String {
    format!("POST /open HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n\r\n{rest}")
}

fn get(lines: &str) -> String {
    format!("GET /open HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n\r\n{HIDDEN}")
}

fn chunked(chunks: &str) -> String {
    post("Transfer-Encoding: chunked", &format!("{chunks}{HIDDEN}"))
}

#[test]
fn lengths() {
    let encoding = "Transfer-Encoding: chunked";
    let of = |lines: &str| post(lines, &format!("hello{HIDDEN}"));
    check(vec![
        refused("both", post(&format!("Content-Length: 5\r\n{encoding}"), &format!("0\r\n\r\n{HIDDEN}"))),
        refused(
            "both, the other way",
            post(&format!("{encoding}\r\nContent-Length: 5"), &format!("0\r\n\r\n{HIDDEN}")),
        ),
        answered(
            "both, behind a request with a body",
            post("Content-Length: 5", "hello")
                + &post(&format!("{encoding}\r\nContent-Length: 5"), &format!("0\r\n\r\n{HIDDEN}")),
            &[200, 400],
            "the first is a good request",
        ),
        refused(
            "both, the length too long",
            post(&format!("{encoding}\r\nContent-Length: 500"), "0\r\n\r\n"),
        ),
        refused("two that differ", of("Content-Length: 5\r\nContent-Length: 46")),
        refused("two that differ, the longer first", of("Content-Length: 46\r\nContent-Length: 5")),
        refused("two that are equal", of("Content-Length: 5\r\nContent-Length: 5")),
        refused("two that mean the same", of("Content-Length: 5\r\nContent-Length: 05")),
        refused("three", of("Content-Length: 5\r\nContent-Length: 5\r\nContent-Length: 5")),
        refused("a list that differs", of("Content-Length: 5, 46")),
        refused("a list", of("Content-Length: 5, 5")),
        refused("plus", of("Content-Length: +5")),
        refused("minus", of("Content-Length: -5")),
        refused("hexadecimal", of("Content-Length: 0x5")),
        refused("two words", of("Content-Length: 5 5")),
        refused("a space in it", of("Content-Length: 1 0")),
        refused("letters", of("Content-Length: five")),
        refused("letters behind", of("Content-Length: 5a")),
        refused("a point", of("Content-Length: 5.0")),
        refused("an exponent", of("Content-Length: 5e0")),
        refused("empty", of("Content-Length: ")),
        refused("a comma", of("Content-Length: 5,")),
        refused("quoted", of("Content-Length: \"5\"")),
        refused("other digits", of("Content-Length: \u{665}")),
        refused("more than 64 bits", of("Content-Length: 18446744073709551621")),
        refused("a vertical tab", of("Content-Length: \u{b}5")),
        refused("NUL", of("Content-Length: 5\0")),
        answered(
            "space around it",
            of("Content-Length: \t 5 \t"),
            &[200, 404],
            "white space around a value is no part of it (RFC 9112 5), and the backend gets none",
        ),
        answered(
            "leading zeros",
            of("Content-Length: 005"),
            &[200, 404],
            "RFC 9110 8.6 has any number of digits; the backend gets the number without them",
        ),
    ]);
}

#[test]
fn transfer_encodings() {
    let of = |lines: &str| post(lines, &format!("0\r\n\r\n{HIDDEN}"));
    let plain = "the same encoding, written as RFC 9112 allows; the backend gets the usual form";
    check(vec![
        refused("identity", of("Transfer-Encoding: identity")),
        refused("gzip", of("Transfer-Encoding: gzip")),
        refused("chunked is not the last", of("Transfer-Encoding: chunked, gzip")),
        refused("chunked and unknown", of("Transfer-Encoding: chunked, x")),
        refused("unknown before chunked", of("Transfer-Encoding: x, chunked")),
        refused("chunked twice", of("Transfer-Encoding: chunked, chunked")),
        refused("xchunked", of("Transfer-Encoding: xchunked")),
        refused("chunkedx", of("Transfer-Encoding: chunkedx")),
        refused("two lines, identity last", of("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity")),
        refused("two lines, identity first", of("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked")),
        refused("two lines of chunked", of("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked")),
        refused("with a parameter", of("Transfer-Encoding: chunked;q=1")),
        refused("quoted", of("Transfer-Encoding: \"chunked\"")),
        refused("empty", of("Transfer-Encoding: ")),
        refused("a comma behind", of("Transfer-Encoding: chunked,")),
        refused("a comma before", of("Transfer-Encoding: ,chunked")),
        refused("space in it", of("Transfer-Encoding: chu nked")),
        refused("a vertical tab", of("Transfer-Encoding: \u{b}chunked")),
        refused("a form feed", of("Transfer-Encoding: chunked\u{c}")),
        refused("NUL before it", of("Transfer-Encoding: \0chunked")),
        refused("a bare CR", of("Transfer-Encoding: \rchunked")),
        refused("folded", of("Transfer-Encoding:\r\n chunked")),
        refused("folded, something behind", of("Transfer-Encoding: chunked\r\n x")),
        refused("space before the colon", of("Transfer-Encoding : chunked")),
        refused("a tab before the colon", of("Transfer-Encoding\t: chunked")),
        refused("space before the name", of(" Transfer-Encoding: chunked")),
        refused("NUL in the name", of("Transfer-\0Encoding: chunked")),
        refused("a byte that is no ASCII in the name", of("Transfer-Encoding\u{a0}: chunked")),
        refused(
            "HTTP/1.0",
            format!(
                "POST /open HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}"
            ),
        ),
        answered("capitals", of("TRANSFER-ENCODING: CHUNKED"), &[200, 404], plain),
        answered("a tab before it", of("Transfer-Encoding:\tchunked"), &[200, 404], plain),
        answered("space behind", of("Transfer-Encoding: chunked \t"), &[200, 404], plain),
        answered(
            "a name that looks like it",
            post("Transfer_Encoding: chunked\r\nContent-Length: 5", &format!("hello{HIDDEN}")),
            &[200, 404],
            "another header, which says nothing about the body",
        ),
    ]);
}

/// The head was good and has gone on; the backend gets no end of the body.
#[test]
fn chunks() {
    let good = "chunks as RFC 9112 has them; extensions are not passed on";
    check(vec![
        refused("a size that is no number", chunked("x\r\nhello\r\n0\r\n\r\n")),
        refused("no size", chunked("\r\nhello\r\n0\r\n\r\n")),
        refused("minus", chunked("-5\r\nhello\r\n0\r\n\r\n")),
        refused("plus", chunked("+5\r\nhello\r\n0\r\n\r\n")),
        refused("0x", chunked("0x5\r\nhello\r\n0\r\n\r\n")),
        refused("space before the size", chunked(" 5\r\nhello\r\n0\r\n\r\n")),
        refused("space in the size", chunked("0 5\r\nhello\r\n0\r\n\r\n")),
        refused("a size of more than 64 bits", chunked("10000000000000005\r\nhello\r\n0\r\n\r\n")),
        refused("NUL in the size", chunked("5\0\r\nhello\r\n0\r\n\r\n")),
        refused("a bare LF after the size", chunked("5\nhello\r\n0\r\n\r\n")),
        refused("a bare CR after the size", chunked("5\rhello\r\n0\r\n\r\n")),
        refused("a bare LF in an extension", chunked("5;a\nb\r\nhello\r\n0\r\n\r\n")),
        refused("a bare CR in an extension", chunked("5;a\rb\r\nhello\r\n0\r\n\r\n")),
        refused("a request in an extension", chunked("5;\nGET /hidden HTTP/1.1\r\nhello\r\n0\r\n\r\n")),
        refused("an endless extension", chunked(&format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(100_000)))),
        refused("data that is longer than it says", chunked("5\r\nhello!\r\n0\r\n\r\n")),
        refused("data without its end", chunked("5\r\nhello0\r\n\r\n")),
        refused("a bare LF after the data", chunked("5\r\nhello\n0\r\n\r\n")),
        refused("a bare CR after the data", chunked("5\r\nhello\r0\r\n\r\n")),
        refused("the last chunk and then a bare LF", chunked("5\r\nhello\r\n0\n\n")),
        refused("the last chunk ended by LF", chunked("5\r\nhello\r\n0\r\n\n")),
        refused("a request among the trailers", chunked("5\r\nhello\r\n0\r\n")),
        refused("a trailer with a bad name", chunked("5\r\nhello\r\n0\r\nbad name: x\r\n\r\n")),
        refused("a trailer with a space before the colon", chunked("5\r\nhello\r\n0\r\nx : y\r\n\r\n")),
        refused("a trailer with a bare CR", chunked("5\r\nhello\r\n0\r\nx: a\rb\r\n\r\n")),
        refused("a trailer with NUL", chunked("5\r\nhello\r\n0\r\nx: \0\r\n\r\n")),
        refused("a folded trailer", chunked("5\r\nhello\r\n0\r\nx: a\r\n b\r\n\r\n")),
        answered("extensions", chunked("5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n"), &[200, 404], good),
        answered("zeros", chunked("0005\r\nhello\r\n000\r\n\r\n"), &[200, 404], good),
        answered(
            "a length among the trailers",
            chunked("5\r\nhello\r\n0\r\nContent-Length: 46\r\nTransfer-Encoding: x\r\n\r\n"),
            &[200, 404],
            "a trailer says nothing about framing; these two are not passed on",
        ),
    ]);
}

#[test]
fn line_ends_and_headers() {
    let bytes = |text: &str| text.to_owned();
    check(vec![
        refused("LF alone", "GET /open HTTP/1.1\nHost: a.test\n\n"),
        refused("LF after the request line", format!("GET /open HTTP/1.1\nHost: a.test\r\n\r\n{HIDDEN}")),
        refused("LF after a header", format!("GET /open HTTP/1.1\r\nHost: a.test\nX: y\r\n\r\n{HIDDEN}")),
        refused("LF at the end of the head", format!("GET /open HTTP/1.1\r\nHost: a.test\r\n\n{HIDDEN}")),
        refused("CR alone", "GET /open HTTP/1.1\rHost: a.test\r\r"),
        refused("CR in the request line", format!("GET /open\r HTTP/1.1\r\nHost: a.test\r\n\r\n{HIDDEN}")),
        refused("CR in a value", get("X: a\rb")),
        refused("CR before CR LF", get("X: a\r")),
        refused("a header behind a CR", get("X: a\rTransfer-Encoding: chunked")),
        refused("NUL in a value", get("X: a\0b")),
        refused("a control character in a value", get("X: a\u{1}b")),
        refused("DEL in a value", get("X: a\u{7f}b")),
        refused("folded", get("X: a\r\n b")),
        refused("folded by a tab", get("X: a\r\n\tb")),
        refused("a folded Host", format!("GET /open HTTP/1.1\r\nHost:\r\n a.test\r\n\r\n{HIDDEN}")),
        refused(
            "space before the first header",
            format!("GET /open HTTP/1.1\r\n Host: a.test\r\n\r\n{HIDDEN}"),
        ),
        refused("space in a name", get("Bad name: x")),
        refused("space before the colon", get("X : y")),
        refused("no name", get(": x")),
        refused("no colon", get("X")),
        refused("a parenthesis in a name", get("X(y): z")),
        refused("a slash in a name", get("X/y: z")),
        refused("NUL in a name", get("X\0: z")),
        refused("DEL in a name", get("X\u{7f}: z")),
        refused("a byte that is no ASCII in a name", get("X\u{e9}: z")),
        refused("NUL before the request", format!("\0GET /open HTTP/1.1\r\nHost: a.test\r\n\r\n{HIDDEN}")),
        answered(
            "empty lines before the request",
            bytes("\r\n\r\nGET /open HTTP/1.1\r\nHost: a.test\r\n\r\n") + HIDDEN,
            &[200, 404],
            "RFC 9112 2.2 asks to ignore them, and the backend gets none",
        ),
    ]);
}

#[test]
fn request_lines() {
    let line = |line: &str| format!("{line}\r\nHost: a.test\r\n\r\n{HIDDEN}");
    check(vec![
        refused("two spaces", line("GET  /open HTTP/1.1")),
        refused("two spaces before the version", line("GET /open  HTTP/1.1")),
        refused("tabs", line("GET\t/open\tHTTP/1.1")),
        refused("a space before it", line(" GET /open HTTP/1.1")),
        refused("a space behind it", line("GET /open HTTP/1.1 ")),
        refused("a word too many", line("GET /open /hidden HTTP/1.1")),
        refused("no version", line("GET /open")),
        refused("a version in small letters", line("GET /open http/1.1")),
        refused("HTTP/0.9", line("GET /open HTTP/0.9")),
        refused("HTTP/1.2", line("GET /open HTTP/1.2")),
        refused("HTTP/2.0", line("GET /open HTTP/2.0")),
        refused("HTTP/1.10", line("GET /open HTTP/1.10")),
        refused("NUL in the target", line("GET /open\0 HTTP/1.1")),
        refused("NUL in the method", line("G\0T /open HTTP/1.1")),
        refused("a method that is no token", line("GE(T /open HTTP/1.1")),
        refused("a target without a slash", line("GET open HTTP/1.1")),
        refused("a target of one host", line("GET a.test HTTP/1.1")),
        refused("* for a GET", line("GET * HTTP/1.1")),
        refused("an encoded NUL", line("GET /open/%00 HTTP/1.1")),
        refused("half of an encoded byte", line("GET /open/%2 HTTP/1.1")),
        answered(
            "a fragment",
            line("GET /open#/hidden HTTP/1.1"),
            &[200, 404],
            "it is dropped before anybody looks: the decision and the backend see the same path",
        ),
        answered(
            "out of the root",
            line("GET /open/../../hidden HTTP/1.1"),
            &[404, 404],
            "there is nothing above the root (RFC 3986 5.2.4): it is a request for /hidden",
        ),
        answered(
            "out of what is routed",
            line("GET /open/../hidden HTTP/1.1"),
            &[404, 404],
            "it is a request for /hidden, for the decision as for the backend",
        ),
        answered(
            "encoded out of what is routed",
            line("GET /open/%2e%2e/hidden HTTP/1.1"),
            &[404, 404],
            "the same, however it is written",
        ),
        answered(
            "CONNECT",
            line("CONNECT a.test:80 HTTP/1.1"),
            &[405],
            "a good request for what is not offered; nothing after it is read as a request",
        ),
        answered("CONNECT to a path", line("CONNECT /open HTTP/1.1"), &[405], "not offered, to whatever"),
    ]);
}

#[test]
fn hosts() {
    let head = |line: &str, hosts: &str| format!("{line}\r\n{hosts}\r\n{HIDDEN}");
    let open = "GET /open HTTP/1.1";
    check(vec![
        refused("none", head(open, "")),
        refused("empty", head(open, "Host: \r\n")),
        refused("two", head(open, "Host: a.test\r\nHost: b.test\r\n")),
        refused("two that are equal", head(open, "Host: a.test\r\nHost: a.test\r\n")),
        refused("a list", head(open, "Host: a.test, b.test\r\n")),
        refused("two words", head(open, "Host: a.test b.test\r\n")),
        refused("a path in it", head(open, "Host: a.test/hidden\r\n")),
        refused("a user in it", head(open, "Host: user@a.test\r\n")),
        refused("a scheme in it", head(open, "Host: http://a.test\r\n")),
        refused("a port that is none", head(open, "Host: a.test:80x\r\n")),
        refused("a query in it", head(open, "Host: a.test?x\r\n")),
        refused("a backslash in it", head(open, "Host: a.test\\b.test\r\n")),
        refused("a whole URL that disagrees", head("GET http://b.test/open HTTP/1.1", "Host: a.test\r\n")),
        refused("a whole URL without Host", head("GET http://a.test/open HTTP/1.1", "")),
        refused("a whole URL with a user", head("GET http://user@a.test/open HTTP/1.1", "Host: a.test\r\n")),
        answered(
            "a whole URL that agrees",
            head("GET http://a.test/open HTTP/1.1", "Host: a.test\r\n"),
            &[200, 404],
            "RFC 9112 3.2.2 wants it served; the backend gets a path",
        ),
    ]);
}

#[test]
fn upgrades_and_pipelines() {
    let upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__";
    let websocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    let ignored =
        "RFC 9110 7.8 lets a server ignore it: served as HTTP/1.1, and the backend is not asked to upgrade";
    check(vec![
        answered("h2c", get(upgrade), &[200, 404], ignored),
        ends(
            "h2c, and HTTP/2 at once",
            post(upgrade, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            &[200, 400],
            "the preface of HTTP/2 is no request of HTTP/1.1",
        ),
        answered("h2c before another", get(&upgrade.replace("h2c", "h2c, x")), &[200, 404], ignored),
        answered("h2c behind another", get(&upgrade.replace("h2c", "x , h2c")), &[200, 404], ignored),
        answered("an unknown protocol", get("Connection: upgrade\r\nUpgrade: TLS/1.0"), &[200, 404], ignored),
        answered("not named by Connection", get("Upgrade: websocket"), &[200, 404], ignored),
        answered(
            "a backend that does not upgrade",
            get(websocket),
            &[200, 404],
            "nobody said that the protocol has changed: what came behind it is the next request",
        ),
        answered(
            "with a body",
            post(&format!("{websocket}\r\nContent-Length: {}", HIDDEN.len()), HIDDEN),
            &[200],
            "a request with a body is not upgraded; the body is a body",
        ),
        answered(
            "Connection names the length",
            post(
                &format!("Connection: content-length, host\r\nContent-Length: {}", HIDDEN.len()),
                &format!("{HIDDEN}{HIDDEN}"),
            ),
            &[200, 404],
            "what frames a request cannot be taken off it",
        ),
        answered(
            "pipelined",
            format!("{0}{0}{HIDDEN}{0}", "GET /open HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            &[200, 200, 404, 200],
            "each request is decided about by itself, in order",
        ),
        answered(
            "pipelined after one that is refused",
            "GET /open HTTP/1.1\r\nHost: a.test\r\n\r\nGET /open HTTP/1.1\r\nHost: a.test\r\nX : y\r\n\r\nGET /open HTTP/1.1\r\nHost: a.test\r\n\r\n",
            &[200, 400],
            "nothing is read behind a request whose end nobody can be sure of",
        ),
        answered(
            "100-continue, and the body at once",
            post("Expect: 100-continue\r\nContent-Length: 5", &format!("hello{HIDDEN}")),
            &[200, 404],
            "a client need not wait (RFC 9110 10.1.1)",
        ),
        refused("a body that HTTP/0.9 would begin", "hello\r\n\r\n"),
    ]);
}

/// A client that goes away in the middle of its body has no answer, and its backend no request.
#[test]
fn bodies_that_are_cut_off() {
    let (tidegate, recorder) = start();
    for bytes in [post("Transfer-Encoding: chunked", "5\r\nhel"), post("Content-Length: 50", "hel")] {
        let mut stream = tidegate.connect(PORT);
        stream.write_all(bytes.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
        let requests = recorder.take().0;
        assert!(requests.is_empty(), "{requests:?}");
    }
    Faults::default().assert_none(2, &tidegate, &recorder);
}

fn check(cases: Vec<Case>) {
    let (tidegate, recorder) = start();
    let (mut faults, count) = (Faults::default(), cases.len());
    for Case { name, bytes, statuses, why, is_end } in cases {
        // One more, which ends the connection where nothing else has.
        let wanted = [statuses, if is_end { &[] } else { &[200] }].concat();
        match exchange(&tidegate, &[&bytes, LAST].concat()) {
            Ok(answers) if answers == wanted => {}
            Ok(answers) => faults.note(name, format!("answered {answers:?} instead of {wanted:?} {why}")),
            Err(what) => faults.note(name, what),
        }
        faults.check_backend(name, &recorder);
    }
    faults.assert_none(count, &tidegate, &recorder);
}

/// Sends all of it and reads to the end: the status of each answer. They must be well-formed; informational ones are
/// left out.
pub(crate) fn exchange(tidegate: &Tidegate, bytes: &[u8]) -> Result<Vec<u16>, String> {
    let mut stream = tidegate.connect(PORT);
    // Who refuses what it has not read to its end may reset the connection; that is an end as well.
    let sent = stream.write_all(bytes);
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => return Err(format!("no end: {error}; sent: {sent:?}; so far {}", all.escape_ascii())),
    }
    let mut statuses = Vec::new();
    let mut rest = String::from_utf8(all).map_err(|error| error.to_string())?;
    while !rest.is_empty() {
        let (head, behind) = rest.split_once("\r\n\r\n").ok_or_else(|| format!("no answer: {rest:?}"))?;
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|line| line.get(..3)?.parse::<u16>().ok());
        let status = status.ok_or_else(|| format!("no answer: {rest:?}"))?;
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let length: usize = length.unwrap_or(0);
        if status >= 200 {
            statuses.push(status);
        }
        rest = behind.get(length..).ok_or_else(|| format!("a short body: {rest:?}"))?.to_owned();
    }
    Ok(statuses)
}
