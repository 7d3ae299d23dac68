//! curl in each of its ways to speak HTTP: what it sends and gets is the same in all of them.

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::CURL;
use crate::support::backend;
use crate::support::certificate::Authority;
use crate::support::manifest::{file, gateway, http, https, route, secret, service};
use crate::support::port;
use crate::support::process::{Finished, Process};
use crate::support::tidegate::Tidegate;
use crate::support::web::{Version, pattern, web};

pub(crate) const NAME: &str = "www.example.com";

/// Tidegate with a web server behind it, in plain text and with TLS.
pub(crate) struct Site {
    tidegate: Tidegate,
    plain: u16,
    secure: u16,
    pub(crate) folder: TempDir,
}

/// How curl speaks, and what it says about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    scheme: &'static str,
    flag: &'static str,
    version: &'static str,
}

pub(crate) const WAYS: [Way; 4] = [
    Way { scheme: "http", flag: "--http1.1", version: "1.1" },
    Way { scheme: "https", flag: "--http1.1", version: "1.1" },
    Way { scheme: "http", flag: "--http2-prior-knowledge", version: "2" },
    Way { scheme: "https", flag: "--http2", version: "2" },
];

impl Way {
    /// Whether curl has a connection for more than one request.
    pub(crate) fn is_reused(&self) -> bool {
        self.flag != "--http2-prior-knowledge"
    }
}

impl Site {
    pub(crate) fn start(backend: u16) -> Self {
        let (plain, secure, authority) = (port::free(), port::free(), Authority::new("CA of the gate"));
        let folder = tempfile::tempdir().unwrap();
        authority.write(folder.path());
        let tidegate = Tidegate::serving(&file([
            gateway([http("plain", plain), https("secure", secure, NAME, &["certificate"])]),
            secret("certificate", &authority.issue(&[NAME])),
            route("HTTPRoute", "plain", "plain", "web"),
            route("HTTPRoute", "secure", "secure", "web"),
            service("web", backend),
        ]));
        Self { tidegate, plain, secure, folder }
    }

    pub(crate) fn url(&self, way: Way, path: &str) -> String {
        let port = if way.scheme == "http" { self.plain } else { self.secure };
        format!("{}://{NAME}:{port}{path}", way.scheme)
    }

    /// Its last line is the version that it spoke, which must be the one that was asked for.
    #[track_caller]
    pub(crate) fn curl(&self, way: Way, arguments: &[&str]) -> Finished {
        let mut command = Command::new("curl");
        command.args(CURL).args(["--max-time", "20", way.flag, "--write-out", "\n%{http_version}"]);
        command.arg("--cacert").arg(self.folder.path().join("ca.crt"));
        for port in [self.plain, self.secure] {
            command.args(["--resolve", &format!("{NAME}:{port}:127.0.0.1")]);
        }
        let mut finished = Process::run(command.args(arguments)).expect_success();
        let (rest, version) = finished.stdout.rsplit_once('\n').unwrap();
        assert_eq!(version, way.version, "{way:?} {arguments:?}");
        finished.stdout = rest.to_owned();
        finished
    }

    /// A body as bytes, which may be no text.
    pub(crate) fn download(&self, way: Way, path: &str, arguments: &[&str]) -> Vec<u8> {
        let to = self.folder.path().join("download");
        self.curl(way, &[&["--output", text(&to)], arguments, &[&self.url(way, path)]].concat());
        std::fs::read(to).unwrap()
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn bodies_both_ways() {
    let site = Site::start(web("a", Version::Http1).port());
    let sent = pattern(3_000_000);
    let upload = site.folder.path().join("upload");
    std::fs::write(&upload, &sent).unwrap();
    for way in WAYS {
        assert_eq!(site.download(way, "/bytes/1000000", &[]), pattern(1_000_000), "{way:?}");
        let from = format!("@{}", text(&upload));
        assert!(site.download(way, "/echo", &["--data-binary", &from]) == sent, "{way:?}");
        assert!(site.download(way, "/echo", &["--upload-file", text(&upload)]) == sent, "{way:?}");
    }
}

/// Without a length: chunks in HTTP/1.1, frames in HTTP/2.
#[test]
fn bodies_without_a_length() {
    let site = Site::start(web("a", Version::Http1).port());
    for way in WAYS {
        let mut command = Command::new("sh");
        let url = site.url(way, "/echo");
        let port = if way.scheme == "http" { site.plain } else { site.secure };
        let script = format!(
            "(echo one; sleep 0.1; echo two) | curl {} {} --max-time 20 --cacert {} --resolve {NAME}:{port}:127.0.0.1 --upload-file - {url}",
            CURL.map(|flag| format!("'{flag}'")).join(" "),
            way.flag,
            text(&site.folder.path().join("ca.crt")),
        );
        let finished = Process::run(command.args(["-c", &script])).expect_success();
        assert_eq!(finished.stdout, "one\ntwo\n", "{way:?}");
    }
}

#[test]
fn expect_100_continue() {
    let site = Site::start(web("a", Version::Http1).port());
    for way in WAYS {
        let url = site.url(way, "/echo");
        let finished = site.curl(
            way,
            &[
                "--verbose",
                "--expect100-timeout",
                "15",
                "--header",
                "Expect: 100-continue",
                "--data",
                "hello",
                &url,
            ],
        );
        assert_eq!(finished.stdout, "hello", "{way:?}");
        let told = if way.version == "1.1" { "< HTTP/1.1 100 Continue" } else { "< HTTP/2 100" };
        finished.expect(told);
    }
}

/// What a backend says before its answer, and then its answer.
const HINTED: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n\
    HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn early_hints() {
    let backend = backend::each(|mut stream| {
        let mut buffer = [0; 4096];
        while let Ok(1..) = stream.read(&mut buffer) {
            if stream.write_all(HINTED).is_err() {
                return;
            }
        }
    });
    let site = Site::start(backend);
    for way in WAYS {
        let finished = site.curl(way, &["--include", &site.url(way, "/")]);
        let heads: Vec<&str> = finished.stdout.split("\r\n\r\n").collect();
        let [hints, answer, "hello"] = heads[..] else { panic!("{way:?}: {}", finished.stdout) };
        assert!(hints.starts_with(&format!("HTTP/{} 103", way.version)), "{way:?}: {hints}");
        assert!(hints.contains("link: </a.css>; rel=preload"), "{way:?}: {hints}");
        assert!(answer.starts_with(&format!("HTTP/{} 200", way.version)), "{way:?}: {answer}");
        assert!(!answer.contains("link"), "{way:?}: {answer}");
    }
}

#[test]
fn trailers() {
    let site = Site::start(web("a", Version::Http1).port());
    for way in WAYS {
        let finished =
            site.curl(way, &["--include", "--header", "TE: trailers", &site.url(way, "/trailers")]);
        let (head, body) = finished.stdout.split_once("\r\n\r\n").unwrap();
        assert!(!head.contains("seven"), "{way:?}: {head}");
        assert!(body.contains("little"), "{way:?}: {body}");
        assert!(body.contains("x-checksum: seven"), "{way:?}: {body}");
    }
}

/// One connection for several requests, and what is left of it is closed in order.
#[test]
fn connections_are_kept() {
    let mut site = Site::start(web("a", Version::Http1).port());
    // curl 7.88 cannot use a connection twice over HTTP/2 by prior knowledge, whoever serves it.
    for way in WAYS.into_iter().filter(Way::is_reused) {
        let (first, second) = (site.url(way, "/bytes/10"), site.url(way, "/bytes/20"));
        let finished =
            site.curl(way, &["--verbose", "--output", "/dev/null", &first, "--output", "/dev/null", &second]);
        assert!(finished.stderr.contains("Re-using existing connection"), "{way:?}: {}", finished.stderr);
    }
    assert!(site.tidegate.terminate().success());
}
