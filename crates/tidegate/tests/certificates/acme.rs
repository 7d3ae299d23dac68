//! ACME with the data plane answering, against Pebble. `make integration` runs it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::loopback::{Tidegate, own_address};
use crate::support::{backend, port, wait_for};
use crate::{GATEWAY, condition, route, service, shown};

/// Ended with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &str, arguments: &[&str]) -> Started {
    let tools =
        PathBuf::from(std::env::var_os("TIDEGATE_PEBBLE").expect("TIDEGATE_PEBBLE: run make integration"));
    let mut command = Command::new(tools.join(program));
    command.args(arguments).env("PEBBLE_VA_NOSLEEP", "1").stdout(Stdio::null()).stderr(Stdio::null());
    Started(command.spawn().unwrap())
}

fn curl(ca: &Path, url: &str) -> Option<String> {
    let asked = Command::new("curl").args(["-sf", "--cacert"]).arg(ca).arg(url).output().unwrap();
    asked.status.success().then(|| String::from_utf8(asked.stdout).unwrap())
}

/// By HTTP-01 where there is an HTTP listener, by TLS-ALPN-01 where there is none.
#[test]
#[ignore = "make integration gets Pebble"]
fn names_are_proved_by_the_data_plane() {
    let without_http = GATEWAY.replace("  - {name: http, port: 80, protocol: HTTP}\n", "");
    for gateway in [GATEWAY, &without_http] {
        let (ip, folder) = (own_address(), tempfile::tempdir().unwrap());
        let authority = crate::support::certificate::Authority::new("of Pebble's server");
        let ca = authority.write(folder.path());
        let identity = authority.issue(&["localhost"]).write(folder.path(), "pebble");
        let [dns, dns_management, at, management] = [port::free(), port::free(), port::free(), port::free()];
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{at}"),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": identity.certificate, "privateKey": identity.key,
            "httpPort": 80, "tlsPort": 443,
        } });
        let config_path = folder.path().join("pebble.json");
        std::fs::write(&config_path, config.to_string()).unwrap();
        let (dns, dns_management) = (format!("127.0.0.1:{dns}"), format!("127.0.0.1:{dns_management}"));
        let _resolver = start(
            "pebble-challtestsrv",
            &[
                "-defaultIPv4",
                &ip.to_string(),
                "-defaultIPv6",
                "",
                "-http01",
                "",
                "-https01",
                "",
                "-tlsalpn01",
                "",
                "-doh",
                "",
                "-dnsserver",
                &dns,
                "-management",
                &dns_management,
            ],
        );
        let _pebble =
            start("pebble", &["-strict", "-dnsserver", &dns, "-config", config_path.to_str().unwrap()]);
        let root = wait_for("Pebble", || curl(&ca, &format!("https://localhost:{management}/roots/0")));
        let root_path = folder.path().join("root.crt");
        std::fs::write(&root_path, root).unwrap();

        let state = folder.path().join("state");
        let directory = format!("--acme-directory=https://localhost:{at}/dir");
        let flags = [
            "--certs=acme",
            &directory,
            "--acme-ca",
            ca.to_str().unwrap(),
            "--state",
            state.to_str().unwrap(),
        ];
        let backend = service(backend::site());
        let web = route("HTTPRoute", "web", "https", "a.example.com");
        let tidegate = Tidegate::start_on(
            ip,
            &[("gateway.yaml", gateway), ("service.yaml", &backend), ("web.yaml", &web)],
            &flags,
        );
        wait_for("the certificate", || shown(&tidegate, 443, "a.example.com", &root_path));
        assert_eq!(condition(&tidegate, "https")["status"], "True");
    }
}
