//! Certificates that clients show, as `spec.tls.frontend` of the Gateway asks for them.

use crate::openssl::Client;
use crate::support::certificate::Authority;
use crate::support::manifest::{config_map, file, gateway_with, secret, service, terminate, tls_route};
use crate::support::tidegate::Tidegate;
use crate::support::{backend, port};

const NAME: &str = "mqtt.example.com";

struct Gate {
    port: u16,
    server: Authority,
    clients: Authority,
    tidegate: Tidegate,
}

fn gate(mode: &str) -> Gate {
    let (port, server, clients) = (port::free(), Authority::new("CA"), Authority::new("CA of clients"));
    let validation = format!(
        "  tls:
    frontend:
      default:
        validation:
          mode: {mode}
          caCertificateRefs: [{{group: \"\", kind: ConfigMap, name: clients}}]
"
    );
    let tidegate = Tidegate::serving(&file([
        gateway_with(&validation, [terminate("mqtt", port, NAME, &["cert"])]),
        tls_route(NAME, "mqtt", "mqtt", "echo"),
        service("echo", backend::echo()),
        secret("cert", &server.issue(&[NAME])),
        config_map("clients", &clients.pem),
    ]));
    Gate { port, server, clients, tidegate }
}

impl Gate {
    fn client(&self, version: &str) -> Client {
        Client::to(self.port, NAME, &self.server).with(&[version])
    }
}

#[test]
fn only_valid_ones_are_let_in() {
    let gate = gate("AllowValidOnly");
    let (known, stranger) =
        (gate.clients.issue(&["device-1"]), Authority::new("another CA").issue(&["device-1"]));
    for version in ["-tls1_2", "-tls1_3"] {
        gate.client(version).with_identity(&known).ask("let me in", "let me in").expect_success();
        gate.client(version).listen().expect_failure().expect("alert certificate required");
        gate.client(version).with_identity(&stranger).listen().expect_failure().expect("alert unknown ca");
    }
    let lines = gate.tidegate.first_lines(6);
    let ended = |ending: &str| lines.iter().filter(|line| line["ending"] == ending).count();
    assert_eq!((ended("done"), ended("handshake_failed")), (2, 4), "{lines:?}");
}

#[test]
fn fallback_lets_in_any_or_none() {
    let gate = gate("AllowInsecureFallback");
    let stranger = Authority::new("another CA").issue(&["device-1"]);
    for version in ["-tls1_2", "-tls1_3"] {
        // It was asked for one.
        let without = gate.client(version).ask("I have none", "I have none");
        without.expect_success().expect("CN = CA of clients");
        gate.client(version).with_identity(&stranger).ask("any will do", "any will do").expect_success();
    }
}
