//! A certificate that turns bad while it is served: the listener goes on with it, says so, and takes the next good one.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::CURL;
use crate::openssl::Client;
use crate::support::certificate::{Authority, Identity};
use crate::support::manifest::{file, gateway, https, route, secret, service, terminate, tls_route};
use crate::support::process::Process;
use crate::support::tidegate::Tidegate;
use crate::support::{backend, port, wait_for};

const NAME: &str = "mqtt.example.com";

/// One that can be read as YAML and has no certificate.
fn broken() -> String {
    let nothing = Identity { certificate: "no certificate\n".to_owned(), key: "no key\n".to_owned() };
    secret("cert", &nothing)
}

fn rest(port: u16, web: u16) -> String {
    file([
        gateway([
            terminate("mqtt", port, NAME, &["cert"]),
            https("web", web, "www.example.com", &["cert", "other"]),
        ]),
        tls_route(NAME, "mqtt", "mqtt", "echo"),
        route("HTTPRoute", "web", "web", "site"),
        service("echo", backend::echo()),
        service("site", backend::site()),
    ])
}

/// Writes the Secret, and gives what is told of it then.
fn change(tidegate: &Tidegate, secret: Option<&str>) -> String {
    match secret {
        Some(secret) => tidegate.change("cert.yaml", secret),
        None => tidegate.remove("cert.yaml"),
    }
    tidegate.get("/status?output=table").1
}

#[test]
fn a_listener_goes_on_with_its_last_good_certificate() {
    let (port, web) = (port::free(), port::free());
    let [first, second] = ["first CA", "second CA"].map(Authority::new);
    let names = [NAME, "www.example.com"];
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("rest.yaml", &rest(port, web));
    write("cert.yaml", &secret("cert", &first.issue(&names)));
    write("other.yaml", &secret("other", &second.issue(&["other.example.com"])));
    let mut tidegate = Tidegate::start(folder, &[]);
    let served = |by: &Authority| {
        Client::to(port, NAME, by).ask("still there?", "still there?").expect_success();
        let folder = tempfile::tempdir().unwrap();
        let site = Process::run(
            Command::new("curl")
                .args(CURL)
                .args(["--resolve", &format!("www.example.com:{web}:127.0.0.1"), "--cacert"])
                .arg(by.write(folder.path()))
                .arg(format!("https://www.example.com:{web}/tide")),
        );
        site.expect_success().expect("GET /tide HTTP/1.1");
    };
    served(&first);

    let sessions = tempfile::tempdir().unwrap();
    let session = sessions.path().join("session");
    Client::to(port, NAME, &first).with_file("-sess_out", &session).ask("a tide", "a tide").expect("New, ");
    let told = change(&tidegate, Some(&broken()));
    served(&first);
    Client::to(port, NAME, &first).with_file("-sess_in", &session).ask("a tide", "a tide").expect("Reused, ");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let kept =
        "listener default/gate/mqtt goes on with the last good certificate of Secret default/cert until";
    assert!(told.contains(kept) && told.contains("it is kept until it expires"), "{told}");
    tidegate.process().says(kept);
    assert_eq!(tidegate.metric("tidegate_certificates_kept"), 2.0);

    let told = change(&tidegate, Some(&secret("cert", &second.issue(&names))));
    assert!(!told.contains("last good"), "{told}");
    served(&second);
    assert_eq!(tidegate.metric("tidegate_certificates_kept"), 0.0);

    let told = change(&tidegate, None);
    assert!(told.contains("last good"), "{told}");
    served(&second);

    // Nobody refers to it: it is forgotten.
    let others = rest(port, web).replace("{name: cert}", "{name: another}");
    tidegate.change("rest.yaml", &others);
    tidegate.change("rest.yaml", &rest(port, web));
    assert_eq!(tidegate.metric("tidegate_certificates_kept"), 0.0);
    Client::to(port, NAME, &second).look().expect_failure();
    assert_eq!(tidegate.line("ending", "no_certificate")["sni"], NAME);
}

/// The certificate has a few seconds to live when its Secret is spoilt.
#[test]
fn what_is_kept_ends() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rest.yaml"), rest(port, port::free())).unwrap();
    let identity = authority.issue_for(&[NAME], Duration::from_secs(5));
    fs::write(folder.path().join("cert.yaml"), secret("cert", &identity)).unwrap();
    let tidegate = Tidegate::start(folder, &[]);
    tidegate.change("cert.yaml", &broken());
    wait_for("nothing to be kept", || (tidegate.metric("tidegate_certificates_kept") == 0.0).then_some(()));
    Client::to(port, NAME, &authority).look().expect_failure();
    assert_eq!(tidegate.line("ending", "no_certificate")["sni"], NAME);
}

#[test]
fn a_fresh_start_has_nothing_to_go_on_with() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rest.yaml"), rest(port, port::free())).unwrap();
    fs::write(folder.path().join("cert.yaml"), broken()).unwrap();
    let tidegate = Tidegate::start(folder, &[]);
    Client::to(port, NAME, &authority).look().expect_failure();
    assert_eq!(tidegate.line("ending", "no_certificate")["sni"], NAME);
    assert_eq!(tidegate.metric("tidegate_certificates_kept"), 0.0);
}
