//! curl in front and nginx behind, over every version of HTTP that both speak.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::CURL;
use crate::support::certificate::{Authority, Identity};
use crate::support::manifest::{backend_tls, config_map, file, gateway, https, route, secret, service};
use crate::support::port;
use crate::support::process::{Finished, Process};
use crate::support::tidegate::Tidegate;
use crate::support::wait_for;

const NAME: &str = "www.example.com";

/// nginx with a plain port and one with TLS. It says what it was asked, and serves and takes files.
struct Nginx {
    plain: u16,
    tls: u16,
    process: Process,
    folder: TempDir,
}

impl Nginx {
    fn start(identity: &Identity) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = identity.write(folder.path(), "nginx");
        let (plain, tls) = (port::free(), port::free());
        let here = folder.path().display();
        fs::create_dir_all(folder.path().join("files")).unwrap();
        let settings = format!(
            "daemon off; master_process off; pid {here}/pid; error_log stderr;
             events {{}}
             http {{
               access_log off;
               client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path {here}/fastcgi;
               uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi; client_max_body_size 10m;
               ssl_certificate {}; ssl_certificate_key {};
               server {{
                 listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl;
                 location / {{ return 200 \"$request_method $request_uri $server_protocol $http_x_forwarded_proto $ssl_server_name\\n\"; }}
                 location /forwarded {{ return 200 \"$http_x_forwarded_for | $http_x_forwarded_proto | $http_x_forwarded_host | $http_x_forwarded_port | $http_forwarded\\n\"; }}
                 location /files {{ root {here}; dav_methods PUT; create_full_put_path on; }}
               }}
             }}",
            files.certificate.display(),
            files.key.display()
        );
        let path = folder.path().join("nginx.conf");
        fs::write(&path, settings).unwrap();
        let mut process = Process::start(Command::new("/usr/sbin/nginx").arg("-c").arg(&path));
        port::wait_until_open(plain, &mut process);
        Self { plain, tls, process, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("files").join(name)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.process.signal(Signal::TERM);
    }
}

fn curl(version: &str, authority: &Path, port: u16, arguments: &[&str], url: &str) -> Finished {
    let to = format!("::127.0.0.1:{port}");
    let mut command = Command::new("curl");
    command.args(CURL).args([version, "--fail", "--connect-to", &to, "--cacert"]).arg(authority);
    Process::run(command.args(arguments).arg(url)).expect_success()
}

#[test]
fn every_version_from_curl_to_nginx() {
    let (plain, tls) = (port::free(), port::free());
    let [gate, own] = ["CA of the gate", "CA of nginx"].map(Authority::new);
    let nginx = Nginx::start(&own.issue(&["nginx.internal"]));
    let tidegate = Tidegate::serving(&file([
        gateway([
            format!("  - {{name: plain, port: {plain}, protocol: HTTP}}\n"),
            https("tls", tls, NAME, &["cert"]),
        ]),
        route("HTTPRoute", "plain", "plain", "nginx"),
        route("HTTPRoute", "tls", "tls", "nginx-tls"),
        service("nginx", nginx.plain),
        service("nginx-tls", nginx.tls),
        backend_tls("nginx-tls", "nginx.internal", "ca"),
        config_map("ca", &own.pem),
        secret("cert", &gate.issue(&[NAME])),
    ]));
    let folder = tempfile::tempdir().unwrap();
    let authority = gate.write(folder.path());
    for (version, port, scheme, told) in [
        ("--http1.1", plain, "http", "HTTP/1.1 http \n"),
        ("--http2-prior-knowledge", plain, "http", "HTTP/1.1 http \n"),
        ("--http1.1", tls, "https", "HTTP/1.1 https nginx.internal\n"),
        ("--http2", tls, "https", "HTTP/1.1 https nginx.internal\n"),
    ] {
        let url = format!("{scheme}://{NAME}/a/../b?c");
        let answer = curl(version, &authority, port, &["--path-as-is"], &url);
        assert_eq!(answer.stdout, format!("GET /b?c {told}"), "{version} {scheme}");
    }
    for line in tidegate.first_lines(4) {
        assert_eq!((&line["status"], &line["ending"]), (&200.into(), &"done".into()), "{line}");
    }
}

/// A megabyte up and down again, whole.
#[test]
fn files_go_both_ways() {
    let port = port::free();
    let own = Authority::new("CA");
    let nginx = Nginx::start(&own.issue(&["nginx.internal"]));
    let tidegate = Tidegate::serving(&file([
        gateway([format!("  - {{name: plain, port: {port}, protocol: HTTP}}\n")]),
        route("HTTPRoute", "plain", "plain", "nginx"),
        service("nginx", nginx.plain),
    ]));
    let folder = tempfile::tempdir().unwrap();
    let authority = own.write(folder.path());
    let content: Vec<u8> = (0..1 << 20).map(|number: u32| (number % 251) as u8).collect();
    let (sent, got) = (folder.path().join("sent"), folder.path().join("got"));
    fs::write(&sent, &content).unwrap();
    for (version, name) in [("--http1.1", "one"), ("--http2-prior-knowledge", "two")] {
        let url = format!("http://{NAME}/files/{name}");
        curl(version, &authority, port, &["--upload-file", sent.to_str().unwrap()], &url);
        assert_eq!(fs::read(nginx.file(name)).unwrap(), content, "{version}");
        curl(version, &authority, port, &["--output", got.to_str().unwrap()], &url);
        assert_eq!(fs::read(&got).unwrap(), content, "{version}");
    }
    let lines = tidegate.first_lines(4);
    let put = lines.iter().find(|line| line["method"] == "PUT" && line["path"] == "/files/two").unwrap();
    assert_eq!((&put["version"], &put["bytes_up"]), (&"HTTP/2".into(), &content.len().into()));
}

/// What a request says about an earlier client counts where it comes from a proxy that is trusted, and nowhere else.
#[test]
fn only_trusted_proxies_are_believed() {
    let port = port::free();
    let own = Authority::new("CA");
    let nginx = Nginx::start(&own.issue(&["nginx.internal"]));
    let manifests = file([
        gateway([format!("  - {{name: plain, port: {port}, protocol: HTTP}}\n")]),
        route("HTTPRoute", "plain", "plain", "nginx"),
        service("nginx", nginx.plain),
    ]);
    let arguments = ["--trust-proxy=127.0.1.0/24", "--trust-proxy=::1"];
    let _tidegate = Tidegate::serving_with(&manifests, &arguments);
    let folder = tempfile::tempdir().unwrap();
    let authority = own.write(folder.path());
    let said = [
        "X-Forwarded-For: 192.0.2.1",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: said.example.com",
        "X-Forwarded-Port: 8443",
        "Forwarded: for=192.0.2.1;proto=https",
    ];
    let headers: Vec<&str> = said.iter().flat_map(|header| ["--header", *header]).collect();
    let replaced =
        |from: &str| format!("{from} | http | {NAME} | {port} | for={from};proto=http;host={NAME}\n");
    let kept = |from: &str| {
        format!(
            "192.0.2.1, {from} | https | said.example.com | 8443 | for=192.0.2.1;proto=https, for={from};proto=http;host={NAME}\n"
        )
    };
    for (from, told) in [
        ("127.0.1.1", kept("127.0.1.1")),
        ("127.0.1.200", kept("127.0.1.200")),
        ("127.0.2.1", replaced("127.0.2.1")),
        ("127.0.0.1", replaced("127.0.0.1")),
    ] {
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let arguments = [&["--interface", from], &headers[..]].concat();
            let answer = curl(version, &authority, port, &arguments, &format!("http://{NAME}/forwarded"));
            assert_eq!(answer.stdout, told, "{version} from {from}");
        }
    }
    // A trusted proxy that says nothing is a client like any other.
    let silent = curl(
        "--http1.1",
        &authority,
        port,
        &["--interface", "127.0.1.1"],
        &format!("http://{NAME}/forwarded"),
    );
    assert_eq!(silent.stdout, replaced("127.0.1.1"));
}

/// An ExternalName Service and an XBackend, each at a name that must be looked up before anybody can be asked.
#[test]
fn backends_by_name() {
    let port = port::free();
    let own = Authority::new("CA");
    let nginx = Nginx::start(&own.issue(&["nginx.internal"]));
    let (plain, tls) = (nginx.plain, nginx.tls);
    let tidegate = Tidegate::serving(&file([
        gateway([format!("  - {{name: plain, port: {port}, protocol: HTTP}}\n")]),
        format!(
            "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: names}}
spec:
  parentRefs: [{{name: gate}}]
  rules:
  - matches: [{{path: {{value: /service}}}}]
    backendRefs: [{{name: plain, port: {plain}}}]
  - matches: [{{path: {{value: /secure}}}}]
    backendRefs: [{{name: secure, port: {tls}}}]
  - matches: [{{path: {{value: /outside}}}}]
    backendRefs: [{{group: gateway.networking.x-k8s.io, kind: XBackend, name: outside}}]
  - matches: [{{path: {{value: /nobody}}}}]
    backendRefs: [{{name: nobody, port: {plain}}}]
"
        ),
        external_name("plain", "localhost", plain),
        external_name("secure", "localhost", tls),
        external_name("nobody", "nobody.invalid", plain),
        backend_tls("secure", "nginx.internal", "ca"),
        config_map("ca", &own.pem),
        format!(
            "apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {{name: outside}}
spec:
  type: ExternalHostname
  externalHostname: {{hostname: localhost}}
  port: {{number: {plain}}}
"
        ),
    ]));
    let ask = |path: &str| {
        let to = format!("::127.0.0.1:{port}");
        let mut command = Command::new("curl");
        command.args(CURL).args(["--connect-to", &to, "--write-out", "%{http_code}"]);
        Process::run(command.arg(format!("http://{NAME}{path}"))).expect_success().stdout
    };
    for (path, name) in [("/service", ""), ("/secure", "nginx.internal"), ("/outside", "")] {
        // Before the name was looked up there is no endpoint.
        let answer = wait_for(format!("an answer at {path}"), || {
            Some(ask(path)).filter(|answer| answer.ends_with("200"))
        });
        assert_eq!(answer, format!("GET {path} HTTP/1.1 http {name}\n200"));
    }
    assert!(ask("/nobody").ends_with("503"));
    let line = wait_for("a line", || {
        tidegate.lines().into_iter().find(|line| line["path"] == "/outside" && line["status"] == 200)
    });
    assert_eq!(line["backend"], format!("XBackend default/outside:{plain}"));
    assert_eq!(line["endpoint"].as_str().unwrap().rsplit_once(':').unwrap().1, plain.to_string());
}

fn external_name(name: &str, hostname: &str, port: u16) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{type: ExternalName, externalName: {hostname}, ports: [{{port: {port}}}]}}
"
    )
}
