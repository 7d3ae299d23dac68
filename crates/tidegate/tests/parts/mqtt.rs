//! An MQTT broker: connections that live long, across changes of the configuration.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::support::certificate::{Authority, Identity};
use crate::support::manifest::{
    file, gateway, passthrough, route, secret, service, tcp, terminate, tls_route,
};
use crate::support::process::Process;
use crate::support::tidegate::Tidegate;
use crate::support::{backend, port};

/// The one name that the broker's clients ask for and that every machine finds on loopback.
const NAME: &str = "localhost";

/// `mosquitto` with a plain port and one with TLS.
struct Broker {
    plain: u16,
    tls: u16,
    process: Process,
    _folder: TempDir,
}

impl Broker {
    fn start(identity: &Identity) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = identity.write(folder.path(), "broker");
        let (plain, tls) = (port::free(), port::free());
        let user = Process::run(Command::new("id").arg("-un")).expect_success();
        let settings = format!(
            "user {}\nlog_type all\nallow_anonymous true\nlistener {plain} 127.0.0.1\nlistener {tls} 127.0.0.1\n\
             certfile {}\nkeyfile {}\n",
            user.stdout.trim(),
            files.certificate.display(),
            files.key.display()
        );
        let path = folder.path().join("mosquitto.conf");
        fs::write(&path, settings).unwrap();
        let mut process = Process::start(Command::new("mosquitto").arg("-c").arg(&path));
        port::wait_until_open(plain, &mut process);
        port::wait_until_open(tls, &mut process);
        Self { plain, tls, process, _folder: folder }
    }
}

/// A client of the broker by way of one port of Tidegate.
struct Door {
    port: u16,
    authority: PathBuf,
}

impl Door {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["-h", NAME, "-p", &self.port.to_string(), "-q", "1", "-t", "tides"]);
        command.arg("--cafile").arg(&self.authority);
        command
    }

    /// Hears of all messages from when this returns.
    fn subscribe(&self, broker: &mut Broker, name: &str) -> Process {
        let subscriber = Process::start(self.command("mosquitto_sub").args(["-i", name]));
        broker.process.says(&format!("Sending SUBACK to {name}"));
        subscriber
    }

    fn publish(&self, message: &str) {
        Process::run(self.command("mosquitto_pub").args(["-m", message])).expect_success();
    }
}

#[test]
fn subscribers_stay_connected_across_changes() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("CA");
    let bundle = authority.write(folder.path());
    let mut broker = Broker::start(&authority.issue(&[NAME]));
    let [own, ended] = [port::free(), port::free()].map(|port| Door { port, authority: bundle.clone() });
    let listeners = || [passthrough("own", own.port, NAME), terminate("ended", ended.port, NAME, &["cert"])];
    let rest = file([
        tls_route(NAME, "own", "own", "broker-tls"),
        tls_route(NAME, "ended", "ended", "broker"),
        service("broker-tls", broker.tls),
        service("broker", broker.plain),
        secret("cert", &authority.issue(&[NAME])),
    ]);
    let tidegate = Tidegate::serving(&file([gateway(listeners()), rest.clone()]));
    let mut subscribers = [own.subscribe(&mut broker, "harbour"), ended.subscribe(&mut broker, "beach")];
    own.publish("ebb");

    // A listener and a route more, and another certificate on the listener that one of them came in by.
    let [first, second] = listeners();
    let extra = port::free();
    let renewed = rest.split("---\n").take(4).collect::<Vec<_>>().join("---\n");
    tidegate.change(
        "manifests.yaml",
        &file([
            gateway([first, second, tcp("extra", extra)]),
            renewed,
            secret("cert", &authority.issue(&[NAME])),
            route("TCPRoute", "extra", "extra", "echo"),
            service("echo", backend::echo()),
        ]),
    );
    ended.publish("flood");
    for subscriber in &mut subscribers {
        subscriber.says("ebb");
        subscriber.says("flood");
    }
    drop(subscribers);
    // Two publishers and two subscribers: nobody had to come again.
    tidegate.first_lines(4);
    assert_eq!(tidegate.lines().len(), 4);
}
