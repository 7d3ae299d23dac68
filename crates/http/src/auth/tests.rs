use ::http::{HeaderMap, Request, Version};
use prost::Message;
use tidegate_plan::{Reason, Target};

use super::messages::CheckRequest;
use super::*;
use crate::testing::{headers, lines};

fn auth(path: &str, request: &[&str], response: &[&str]) -> ExternalAuth {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ExternalAuth {
        target: Target::Invalid(Reason::NoEndpoints),
        grpc: false,
        path: path.to_owned(),
        request_headers: owned(request),
        response_headers: owned(response),
        body_limit: 10,
    }
}

fn parts() -> Parts {
    let lines = [
        ("host", "a.test"),
        ("authorization", "Bearer x"),
        ("content-length", "7"),
        ("cookie", "a=b"),
        ("cookie", "c=d"),
        ("x-a", "1"),
        ("x-a", "2"),
    ];
    let (mut parts, ()) = Request::builder().method("POST").uri("/p?q=1").body(()).unwrap().into_parts();
    parts.headers = headers(&lines);
    parts
}

/// The rules of the API for HTTPRouteExternalAuthHTTP.
#[test]
fn http_route_external_auth_http_request() {
    let plain = http_request(&auth("", &[], &[]), &parts(), Bytes::new()).unwrap();
    assert_eq!((plain.method().as_str(), plain.uri().to_string().as_str()), ("POST", "/p?q=1"));
    let always = [("authorization", "Bearer x"), ("content-length", "0"), ("host", "a.test")];
    assert_eq!(lines(plain.headers()), always);

    let filter = auth("/check/", &["x-a", "content-length", "transfer-encoding", "host"], &[]);
    let shown = http_request(&filter, &parts(), Bytes::from_static(b"1234567")).unwrap();
    assert_eq!(shown.uri(), "/check/p?q=1");
    let expected = [
        ("authorization", "Bearer x"),
        ("content-length", "7"),
        ("host", "a.test"),
        ("x-a", "1"),
        ("x-a", "2"),
    ];
    assert_eq!(lines(shown.headers()), expected);
    assert!(body_fits(&filter, 10) && !body_fits(&filter, 11));
    assert!(body_fits(&ExternalAuth { body_limit: 0, ..filter }, u64::MAX));
}

fn verdict(filter: &ExternalAuth, status: u16, lines: &[(&str, &str)]) -> Decision {
    let (mut response, ()) = Response::builder().status(status).body(()).unwrap().into_parts();
    response.headers = headers(lines);
    http_verdict(filter, &response, Bytes::from_static(b"body"))
}

fn allowed(decision: Decision) -> Parts {
    let Decision::Allow(changes) = decision else { panic!("{decision:?}") };
    let mut parts = parts();
    changes.on_request(&mut parts).unwrap();
    parts
}

#[test]
fn http_route_external_auth_http_response() {
    let answer = [
        ("x-a", "3"),
        ("x-user", "u"),
        ("x-group", "g"),
        ("x-group", "h"),
        ("host", "evil.test"),
        ("content-length", "4"),
        ("content-type", "text/plain"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
    ];
    let all = allowed(verdict(&auth("", &[], &[]), 200, &answer));
    let expected = [
        ("authorization", "Bearer x"),
        ("content-length", "7"),
        ("cookie", "a=b"),
        ("cookie", "c=d"),
        ("host", "a.test"),
        ("x-a", "3"),
        ("x-group", "g"),
        ("x-group", "h"),
        ("x-user", "u"),
    ];
    assert_eq!(lines(&all.headers), expected);
    let listed = allowed(verdict(&auth("", &[], &["x-user", "content-type", "host"]), 200, &answer));
    assert_eq!(listed.headers["x-user"], "u");
    assert_eq!(listed.headers["content-type"], "text/plain");
    assert_eq!(listed.headers["host"], "a.test");
    assert!(!listed.headers.contains_key("x-group"));

    let login = [("location", "/login"), ("set-cookie", "a=b"), ("content-length", "4")];
    for status in [302, 401, 403, 429] {
        let Decision::Deny(denial) = verdict(&auth("", &[], &[]), status, &login) else { panic!() };
        assert_eq!((denial.status().as_u16(), &denial.body()[..]), (status, &b"body"[..]));
        assert_eq!(lines(denial.headers()), [("location", "/login"), ("set-cookie", "a=b")]);
    }
    for status in [201, 204, 500, 503] {
        let failed = verdict(&auth("", &[], &[]), status, &[]);
        assert!(matches!(failed, Decision::Failed(AuthFailure::Status(code)) if code == status));
    }
}

/// A field whose value has a length.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut varint = |mut number: usize| {
        while number > 127 {
            bytes.push(number as u8 | 128);
            number >>= 7;
        }
        bytes.push(number as u8);
    };
    varint(usize::from(number) << 3 | 2);
    varint(value.len());
    bytes.extend_from_slice(value);
    bytes
}

fn number(field: u8, value: u8) -> Vec<u8> {
    assert!(field < 16 && value < 128);
    vec![field << 3, value]
}

fn message(fields: &[Vec<u8>]) -> Vec<u8> {
    fields.concat()
}

fn header(key: &str, value: &str) -> Vec<u8> {
    message(&[field(1, key.as_bytes()), field(2, value.as_bytes())])
}

fn frame(message: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(message);
    frame.into()
}

fn circumstances() -> Circumstances<'static> {
    Circumstances {
        client: "203.0.113.9:50000".parse().unwrap(),
        local: "[::1]:443".parse().unwrap(),
        https: true,
        sni: Some("a.test"),
        time: (5, 6),
    }
}

/// Written by hand from the public definition, field by field.
#[test]
fn http_route_external_auth_grpc_request() {
    let filter = auth("", &["cookie", "x-a"], &[]);
    let request = grpc_request(&filter, &parts(), &Bytes::from_static(b"body"), &circumstances());
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", CHECK_PATH));
    assert_eq!(request.version(), Version::HTTP_2);
    assert_eq!(lines(request.headers()), [("content-type", "application/grpc"), ("te", "trailers")]);
    let peer = |address: &str, port: &[u8]| {
        let socket = message(&[field(2, address.as_bytes()), [&[3 << 3], port].concat()]);
        field(1, &field(1, &socket))
    };
    let http = message(&[
        field(2, b"POST"),
        field(3, &header("cookie", "a=b; c=d")),
        field(3, &header("x-a", "1,2")),
        field(4, b"/p?q=1"),
        field(5, b"a.test"),
        field(6, b"https"),
        number(9, 7),
        field(10, b"HTTP/1.1"),
        field(11, b"body"),
    ]);
    let time = message(&[number(1, 5), number(2, 6)]);
    let attributes = message(&[
        field(1, &peer("203.0.113.9", &[0xd0, 0x86, 0x03])),
        field(2, &peer("::1", &[0xbb, 0x03])),
        field(4, &message(&[field(1, &time), field(2, &http)])),
        field(12, &field(1, b"a.test")),
    ]);
    assert_eq!(request.body(), &frame(&field(1, &attributes)));

    let all = grpc_request(&auth("", &[], &[]), &parts(), &Bytes::from_static(&[0xff]), &circumstances());
    let all = CheckRequest::decode(all.body().slice(5..)).unwrap();
    let http = all.attributes.unwrap().request.unwrap().http.unwrap();
    assert_eq!(http.headers.len(), 5);
    assert_eq!((http.body.as_str(), &http.raw_body[..]), ("", &[0xff][..]));
}

fn grpc(message: &[u8]) -> Decision {
    grpc_verdict(&HeaderMap::new(), &frame(message), Some(&headers(&[("grpc-status", "0")])))
}

#[test]
fn http_route_external_auth_grpc_allows() {
    let option =
        |key: &str, value: &str, more: &[Vec<u8>]| message(&[field(1, &header(key, value)), more.concat()]);
    let append = field(2, &number(1, 1));
    let ok = message(&[
        field(2, &option("x-user", "u", &[])),
        field(2, &option("x-a", "3", &[append])),
        field(2, &option("cookie", "no", &[number(3, 1)])),
        field(2, &option("x-absent", "no", &[number(3, 3)])),
        field(2, &option("host", "evil.test", &[])),
        field(5, b"authorization"),
        field(5, b"host"),
        field(5, b":path"),
        field(6, &option("x-seen", "yes", &[])),
        field(7, &header("u", "a b")),
        field(8, b"q"),
    ]);
    let response = message(&[field(1, &[]), field(3, &ok)]);
    let Decision::Allow(changes) = grpc(&response) else { panic!() };
    let mut request = parts();
    changes.on_request(&mut request).unwrap();
    let expected = [
        ("content-length", "7"),
        ("cookie", "a=b"),
        ("cookie", "c=d"),
        ("host", "a.test"),
        ("x-a", "1"),
        ("x-a", "2"),
        ("x-a", "3"),
        ("x-user", "u"),
    ];
    assert_eq!(lines(&request.headers), expected);
    assert_eq!(request.uri, "/p?u=a%20b");
    let mut response = HeaderMap::new();
    changes.on_response(&mut response);
    assert_eq!(lines(&response), [("x-seen", "yes")]);
    let nothing = grpc(&field(1, &[]));
    assert!(matches!(nothing, Decision::Allow(changes) if changes == Changes::default()));
}

#[test]
fn http_route_external_auth_grpc_denies() {
    let denied = |code: &[u8]| {
        let option = field(1, &header("x-why", "because"));
        message(&[field(1, &[&[1 << 3], code].concat()), field(2, &option), field(3, b"no")])
    };
    let no = field(1, &number(1, 7));
    let Decision::Deny(answer) = grpc(&message(&[no.clone(), field(2, &denied(&[0x91, 0x03]))])) else {
        panic!()
    };
    assert_eq!((answer.status().as_u16(), &answer.body()[..]), (401, &b"no"[..]));
    assert_eq!(lines(answer.headers()), [("x-why", "because")]);
    let Decision::Deny(answer) = grpc(&no) else { panic!() };
    assert_eq!(answer.status(), 403);
    // A yes and a no at once is a no, and so is a yes for another time.
    assert!(matches!(grpc(&message(&[field(1, &[]), field(2, &denied(&[0x91, 0x03]))])), Decision::Deny(_)));
    assert!(matches!(grpc(&message(&[no.clone(), field(3, &[])])), Decision::Deny(_)));
    // 200 is no denial.
    assert!(matches!(grpc(&message(&[no, field(2, &denied(&[0xc8, 0x01]))])), Decision::Failed(_)));
}

#[test]
fn what_cannot_be_understood_lets_nothing_pass() {
    let yes = frame(&field(1, &[]));
    let (none, fine) = (HeaderMap::new(), headers(&[("grpc-status", "0")]));
    for (head, body, trailers, failure) in [
        (&none, yes.clone(), None, AuthFailure::Message),
        (&none, yes.clone(), Some(headers(&[("grpc-status", "14")])), AuthFailure::Grpc(14)),
        (&headers(&[("grpc-status", "16")]), Bytes::new(), None, AuthFailure::Grpc(16)),
        (&fine, Bytes::new(), None, AuthFailure::Message),
        (&none, frame(&[]), Some(fine.clone()), AuthFailure::Message),
        (&none, yes.slice(..yes.len() - 1), Some(fine.clone()), AuthFailure::Message),
        (&none, [&yes[..], &yes[..]].concat().into(), Some(fine.clone()), AuthFailure::Message),
        (&none, [&[1], &yes[1..]].concat().into(), Some(fine.clone()), AuthFailure::Message),
        (&none, frame(&message(&[field(1, &[]), field(5, &[])])), Some(fine.clone()), AuthFailure::Message),
        (&none, frame(&[0xff]), Some(fine.clone()), AuthFailure::Message),
        (
            &none,
            frame(&message(&[field(1, &[]), field(3, &field(2, &field(1, &header("a b", "c"))))])),
            Some(fine.clone()),
            AuthFailure::Header,
        ),
    ] {
        let decision = grpc_verdict(head, &body, trailers.as_ref());
        assert!(matches!(decision, Decision::Failed(found) if found == failure), "{decision:?} {failure:?}");
    }
}
