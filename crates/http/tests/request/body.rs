//! What must hold for any request on its way to a backend: no panic, a path in normal form, one host, nothing that was
//! for our connection alone, and nothing a client says about itself. The fuzz target `request` runs this, too.
//!
//! A line with method, target and version, then lines of headers; what HTTP's own types refuse is not a request.

use std::net::SocketAddr;

use http::header::{self, HeaderMap};
use http::request::Parts;
use http::{Request, Version};
use tidegate_http::answer::{self, Cause};
use tidegate_http::filters::{Chain, Next, Passage};
use tidegate_http::forwarded::Client;
use tidegate_http::hop;
use tidegate_http::limits::Limits;
use tidegate_http::networks::Networks;
use tidegate_http::request::{Asked, settle};
use tidegate_plan::{
    Cors, Filter, Fraction, Header, HeaderChange, Hostname, PathChange, PathMatch, Reason, Redirect, Rewrite,
    Target, normal_path,
};

pub(crate) fn check(bytes: &[u8]) {
    let Some(mut parts) = parsed(bytes) else { return };
    let _ = Limits::default().check(&parts);
    if let Err(bad) = settle(&mut parts) {
        let refused =
            answer::answer(Cause::from(bad), answer::is_grpc(&parts.headers), Some("request_invalid"));
        assert!(refused.status().is_client_error() || refused.headers().contains_key("grpc-status"));
        return;
    }
    is_settled(&parts);
    let again = parts.uri.clone();
    settle(&mut parts).expect("what is settled stays so");
    assert_eq!(parts.uri, again);
    assert_eq!(Asked::new(&parts).request().path, parts.uri.path());
    hop::strip_request(&mut parts.headers);
    let local = SocketAddr::from(([192, 0, 2, 1], 8080));
    let client = Client::new(SocketAddr::from(([203, 0, 113, 9], 50000)), local, false, &Networks::default());
    client.announce(&mut parts.headers);
    is_ours(&parts.headers);
    let prefix = PathMatch::Prefix("/a".to_owned());
    for filters in chains() {
        let chain = Chain::compile(&filters).expect("these can be carried out");
        pass(&chain, copy(&parts), &prefix, local);
    }
}

fn parsed(bytes: &[u8]) -> Option<Parts> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.splitn(3, |byte| *byte == b' ');
    let mut request = Request::builder().method(words.next()?).uri(words.next()?);
    request = request.version(match words.next()? {
        b"1.0" => Version::HTTP_10,
        b"2" => Version::HTTP_2,
        _ => Version::HTTP_11,
    });
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..at], line[at + 1..].trim_ascii());
    }
    request.body(()).ok().map(|request| request.into_parts().0)
}

fn is_settled(parts: &Parts) {
    let path = parts.uri.path();
    assert!(parts.uri.authority().is_none() && parts.uri.scheme().is_none(), "{}", parts.uri);
    assert!(path == "*" || normal_path(path).is_ok_and(|normal| normal == path), "{path}");
    let hosts = parts.headers.get_all(header::HOST).iter().count();
    assert!(hosts == 1 || hosts == 0 && parts.version <= Version::HTTP_10);
}

/// Nothing that was for our connection alone, and only our word about the client.
fn is_ours(headers: &HeaderMap) {
    for name in [
        "connection",
        "upgrade",
        "keep-alive",
        "transfer-encoding",
        "proxy-connection",
        "proxy-authorization",
    ] {
        assert!(!headers.contains_key(name), "{name}");
    }
    let only = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().and_then(|value| value.to_str().ok());
        assert!(values.next().is_none(), "{name}");
        first
    };
    assert_eq!(only("x-forwarded-for"), Some("203.0.113.9"));
    assert_eq!(only("x-forwarded-proto"), Some("http"));
    assert_eq!(only("x-forwarded-port"), Some("8080"));
    assert_eq!(only("x-forwarded-host"), only("host"));
    assert!(only("forwarded").is_some_and(|forwarded| forwarded.starts_with("for=203.0.113.9;proto=http")));
    assert!(matches!(only("te"), None | Some("trailers")));
}

fn pass(chain: &Chain, mut parts: Parts, matched: &PathMatch, local: SocketAddr) {
    let mut passage = Passage::new(&parts, false, local, Some(matched));
    let mut response = HeaderMap::new();
    for step in chain.steps() {
        match step.on_request(&mut parts, &mut passage) {
            Next::On | Next::Authorize(_) => {}
            Next::Mirror(mirror) => {
                let copied = mirror.copy(&parts).expect("upgrades were taken off");
                assert_eq!((&copied.uri, &copied.headers), (&parts.uri, &parts.headers));
            }
            Next::Answer(answer) => {
                assert!(answer.status().is_redirection() || answer.status() == 204 || answer.status() == 403);
                response = answer.headers().clone();
                break;
            }
            Next::Refuse(reason) => {
                // Only a path that is not one cannot be rewritten.
                assert_eq!((reason, parts.uri.path()), (Reason::FilterInvalid, "*"));
                return;
            }
        }
    }
    is_settled(&parts);
    chain.on_response(&mut response, &passage);
    assert!(response.get_all("access-control-allow-origin").iter().count() <= 1);
}

fn chains() -> Vec<Vec<Filter>> {
    let change = |name: &str| HeaderChange {
        set: vec![Header { name: name.to_owned(), value: "1".to_owned() }],
        add: vec![Header { name: "host".to_owned(), value: "b.test".to_owned() }],
        remove: vec!["cookie".to_owned(), "content-length".to_owned()],
    };
    let cors = |origin: &str, allow_credentials| Cors {
        allow_origins: vec![origin.to_owned()],
        allow_credentials,
        allow_methods: vec!["*".to_owned()],
        allow_headers: vec!["*".to_owned()],
        expose_headers: vec!["*".to_owned()],
        max_age: 5,
    };
    let prefix = || Some(PathChange::Prefix("/b".to_owned()));
    let redirect = Redirect {
        scheme: Some("https".to_owned()),
        hostname: None,
        port: None,
        path: prefix(),
        status: 301,
    };
    let hostname = Hostname::parse("c.test").ok();
    vec![
        vec![
            Filter::Cors(cors("*", true)),
            Filter::RequestHeaders(change("x-a")),
            Filter::Mirror { target: Target::Invalid(Reason::NoEndpoints), share: Fraction::ALL },
            Filter::ResponseHeaders(change("x-b")),
            Filter::Rewrite(Rewrite { hostname, path: prefix() }),
        ],
        vec![Filter::Cors(cors("https://*.test", false)), Filter::Redirect(redirect)],
    ]
}

fn copy(parts: &Parts) -> Parts {
    let mut copy = Request::new(()).into_parts().0;
    (copy.method, copy.uri, copy.version) = (parts.method.clone(), parts.uri.clone(), parts.version);
    copy.headers = parts.headers.clone();
    copy
}
