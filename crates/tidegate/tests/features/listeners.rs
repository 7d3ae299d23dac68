//! What a listener has to say about all requests that come to it.

use std::io::{Read, Write};

use crate::loopback::manifests::{gateway, http, service};
use crate::loopback::traffic;
use crate::site::{self, ask};
use crate::{PORT, route, serve, services};

/// A filter on the listener is asked about each of its requests, and about none of another's.
#[test]
fn gateway_listener_filters() {
    let guard = traffic::serve(|mut stream| {
        let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            head.extend_from_slice(&buffer[..count]);
            if head.ends_with(b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
                let status =
                    if text.contains("authorization: let me in") { "200 OK" } else { "403 Forbidden" };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
                head.clear();
            }
        }
    });
    let guarded = format!(
        "  - name: guarded
    port: {PORT}
    protocol: HTTP
    filters:
      requests:
      - type: ExternalAuth
        externalAuth: {{protocol: HTTP, backendRef: {{name: guard, port: 80}}, http: {{allowedHeaders: [Authorization]}}}}
"
    );
    let rule = |path, backend| {
        format!(
            "  - backendRefs: [{{name: {backend}, port: 80}}]\n    matches: [{{path: {{value: {path}}}}}]\n"
        )
    };
    let text = gateway(&[guarded, http("open", PORT + 1)])
        + &route("web", "", &(rule("/a", "a") + &rule("/b", "b")))
        + &services(site::start)
        + &service("guard", &[guard]);
    let tidegate = serve(&text);
    let pass: &[(&str, &str)] = &[("authorization", "let me in")];
    for (port, path, headers, status, backend) in [
        (PORT, "/a", pass, 200, Some("a")),
        (PORT, "/b", pass, 200, Some("b")),
        (PORT, "/a", &[], 403, None),
        (PORT, "/b", &[("authorization", "please")], 403, None),
        (PORT + 1, "/a", &[], 200, Some("a")),
    ] {
        let answer = ask(tidegate.at(port), &format!("GET http://a.test{path}"), headers);
        let got = (answer.status, answer.header("x-of-backend"));
        assert_eq!(got, (status, backend), "{port}{path} {headers:?}");
    }
}
