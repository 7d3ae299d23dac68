//! PostgreSQL, whose clients ask in plain bytes whether the server speaks TLS before they shake hands. From version 17
//! on they can do without the question (`sslnegotiation=direct`), and both sides insist on `postgresql` by ALPN then.
//!
//! Tests that need such a version are ignored where nobody has it; `tools/postgres/integration.sh` gets it and runs all.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

use crate::support::certificate::{Authority, Identity};
use crate::support::manifest::{
    backend_tls, config_map, file, gateway, offering, passthrough, route, secret, service, tcp, terminate,
    terminate_for, tls_route,
};
use crate::support::port;
use crate::support::process::{Finished, Process};
use crate::support::tidegate::Tidegate;

const NAME: &str = "db.example.com";
const INSIDE: &str = "db.internal.example.com";
const PASSWORD: &str = "high tide";
/// A database whose users send the password itself.
const UNBOUND: &str = "template1";
const DIRECT: &str = "sslnegotiation=direct";
const FORTY_TWO: &str = "select 6 * 7";

/// A cluster of its own that takes nobody without a password.
struct Postgres {
    port: u16,
    version: u32,
    process: Process,
    _folder: TempDir,
}

impl Postgres {
    /// One that takes nobody without TLS.
    fn start(identity: &Identity) -> Self {
        Self::taking("hostssl", identity)
    }

    /// `connections` is the word of pg_hba.conf for those that it takes.
    fn taking(connections: &str, identity: &Identity) -> Self {
        let account = Account::for_servers();
        let (programs, version) = programs();
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let files = identity.write(folder.path(), "server");
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
        let password = folder.path().join("password");
        fs::write(&password, PASSWORD).unwrap();
        for path in [folder.path(), &files.key, &files.certificate, &password] {
            account.own(path);
        }
        let mut command = account.command(&programs.join("initdb"), folder.path());
        command.args(["--auth=scram-sha-256", "--username=postgres", "--no-sync", "--locale=C", "--pwfile"]);
        Process::run(command.arg(&password).arg("--pgdata").arg(&data)).expect_success();
        let who = format!(
            "{connections} {UNBOUND} all 127.0.0.1/32 password\n{connections} all all 127.0.0.1/32 scram-sha-256\n"
        );
        fs::write(data.join("pg_hba.conf"), who).unwrap();

        let port = port::free();
        let mut command = account.command(&programs.join("postgres"), folder.path());
        command.arg("-D").arg(&data).arg("-k").arg(folder.path());
        for setting in [
            format!("port={port}"),
            "listen_addresses=127.0.0.1".to_owned(),
            "fsync=off".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", files.certificate.display()),
            format!("ssl_key_file={}", files.key.display()),
        ] {
            command.arg("-c").arg(setting);
        }
        let mut process = Process::start(&mut command);
        process.says("database system is ready to accept connections");
        Self { port, version, process, _folder: folder }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.process.is_alive() {
            // It has processes of its own to end.
            self.process.signal(Signal::INT);
            if !std::thread::panicking() {
                self.process.wait();
            }
        }
    }
}

/// Who runs the server: it refuses to be run by root.
struct Account(Option<(u32, u32)>);

impl Account {
    fn for_servers() -> Self {
        let id = |flag: &str| {
            let found = Process::run(Command::new("id").args([flag, "postgres"])).expect_success();
            found.stdout.trim().parse().unwrap()
        };
        Self(geteuid().is_root().then(|| (id("-u"), id("-g"))))
    }

    fn own(&self, path: &Path) {
        if let Some((user, group)) = self.0 {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }

    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).env_remove("LC_ALL");
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }
}

/// Where a PostgreSQL is that does not come from Debian: a folder with `bin` and `lib`.
fn elsewhere() -> Option<PathBuf> {
    env::var_os("TIDEGATE_POSTGRES").map(PathBuf::from)
}

/// From elsewhere; else Debian's, which keeps them apart by version, the newest.
fn programs() -> (PathBuf, u32) {
    if let Some(programs) = elsewhere().map(|folder| folder.join("bin")) {
        let said = Process::run(Command::new(programs.join("postgres")).arg("--version")).expect_success();
        let version = said.stdout.split(' ').next_back().and_then(|version| version.split('.').next());
        let version = version.and_then(|version| version.parse().ok());
        return (programs, version.unwrap_or_else(|| panic!("{}", said.stdout)));
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).max();
    let version = newest.expect("PostgreSQL is not there; it is in Debian's package postgresql");
    (Path::new("/usr/lib/postgresql").join(version.to_string()).join("bin"), version)
}

/// `psql` that checks the name and the authority of what it meets.
fn psql(port: u16, authority: &Path, options: &str, query: &str) -> Finished {
    let to = format!(
        "host={NAME} hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=verify-full \
         sslrootcert={} {options}",
        authority.display()
    );
    let mut command = Command::new("psql");
    // The client is its library: Debian's `psql` can do what the newer one does.
    elsewhere().into_iter().for_each(|folder| _ = command.env("LD_LIBRARY_PATH", folder.join("lib")));
    command.env("PGPASSWORD", PASSWORD).args([
        "--no-psqlrc",
        "--no-align",
        "--tuples-only",
        "--command",
        query,
    ]);
    Process::run(command.arg(to))
}

/// Through a TCPRoute it is one TLS session from end to end: the password is bound to the certificate that the client
/// sees (`channel_binding`), so that nobody in between could have another.
#[test]
fn a_tcp_route_carries_tls_from_end_to_end() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    // The binding of channels wants a certificate with a digest of its own, which Ed25519 has not.
    let postgres = Postgres::start(&authority.issue(&[NAME]));
    let tidegate = Tidegate::serving(&file([
        gateway([tcp("db", port)]),
        route("TCPRoute", "db", "db", "db"),
        service("db", postgres.port),
    ]));
    let folder = tempfile::tempdir().unwrap();
    let bundle = authority.write(folder.path());
    let ask = |query: &str| psql(port, &bundle, "channel_binding=require", query).expect_success().stdout;
    let session = "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()";
    assert_eq!(ask(session).trim(), "t|TLSv1.3");
    let rows = ask("select repeat('tide', 250) from generate_series(1, 5000)");
    assert_eq!(rows.lines().filter(|row| **row == "tide".repeat(250)).count(), 5000);
    assert!(tidegate.first_lines(2).iter().all(|line| line["protocol"] == "TCP"));
}

/// From version 17 on client and server can start with the handshake, and a listener can route by the name in it. Older
/// ones start with a question in plain bytes, and the log says who that was.
#[test]
fn passthrough_needs_a_handshake_from_the_first_byte() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let postgres = Postgres::start(&authority.issue(&[NAME]));
    let tidegate = Tidegate::serving(&file([
        gateway([passthrough("db", port, NAME)]),
        tls_route(NAME, "db", "db", "db"),
        service("db", postgres.port),
    ]));
    let folder = tempfile::tempdir().unwrap();
    let bundle = authority.write(folder.path());
    psql(port, &bundle, "", "select 1").expect_failure();
    let line = tidegate.line("ending", "hello_invalid");
    assert!(line["detail"].as_str().unwrap().contains("PostgreSQL"), "{line}");

    if postgres.version >= 17 {
        let answer = psql(port, &bundle, DIRECT, FORTY_TWO).expect_success();
        assert_eq!(answer.stdout.trim(), "42");
        assert_eq!(tidegate.line("sni", NAME)["protocol"], "TLS passthrough");
    }
}

/// TLS ends at the listener, and the server is one that speaks none. Without the name of the protocol the client goes
/// away again.
#[test]
#[ignore = "needs PostgreSQL 17"]
fn terminated_for_a_server_without_tls() {
    let (named, unnamed, authority) = (port::free(), port::free(), Authority::new("CA"));
    let identity = authority.issue(&[NAME]);
    let postgres = Postgres::taking("hostnossl", &identity);
    let tidegate = Tidegate::serving(&file([
        gateway([
            terminate_for("postgresql", "named", named, NAME, &["cert"]),
            terminate("unnamed", unnamed, NAME, &["cert"]),
        ]),
        tls_route(NAME, "named", "named", "db"),
        tls_route(NAME, "unnamed", "unnamed", "db"),
        service("db", postgres.port),
        secret("cert", &identity),
    ]));
    let folder = tempfile::tempdir().unwrap();
    let bundle = authority.write(folder.path());
    let answer = psql(named, &bundle, DIRECT, FORTY_TWO).expect_success();
    assert_eq!(answer.stdout.trim(), "42");
    let line = tidegate.line("alpn", "postgresql");
    assert_eq!((&line["protocol"], &line["ending"]), (&"TLS terminate".into(), &"done".into()));
    psql(unnamed, &bundle, DIRECT, FORTY_TWO).expect_failure().expect("ALPN");
}

/// The server speaks TLS, and so does the listener: what the client has agreed on is what the server is offered. A
/// client in plain bytes has agreed on nothing: the policy says it.
#[test]
#[ignore = "needs PostgreSQL 17"]
fn encrypted_again_for_a_server_with_tls() {
    let [carried, said, plain] = [port::free(), port::free(), port::free()];
    let [outside, inside] = ["CA of the gate", "CA of the backend"].map(Authority::new);
    let postgres = Postgres::start(&inside.issue(&[INSIDE]));
    let tidegate = Tidegate::serving(&file([
        gateway([
            terminate_for("postgresql", "carried", carried, NAME, &["cert"]),
            terminate_for("postgresql", "said", said, NAME, &["cert"]),
            tcp("plain", plain),
        ]),
        tls_route(NAME, "carried", "carried", "carried"),
        tls_route(NAME, "said", "said", "said"),
        route("TCPRoute", "plain", "plain", "said"),
        service("carried", postgres.port),
        service("said", postgres.port),
        backend_tls("carried", INSIDE, "inside"),
        backend_tls("said", INSIDE, "inside") + &offering("postgresql"),
        config_map("inside", &inside.pem),
        secret("cert", &outside.issue(&[NAME])),
    ]));
    let folder = tempfile::tempdir().unwrap();
    let bundle = outside.write(folder.path());
    let session = "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()";
    let direct = &format!("{DIRECT} channel_binding=disable");
    let in_plain = &format!("sslmode=disable dbname={UNBOUND}");
    for (port, options) in [(carried, direct), (said, direct), (plain, in_plain)] {
        let answer = psql(port, &bundle, options, session).expect_success();
        assert_eq!(answer.stdout.trim(), "t|TLSv1.3", "{options}");
    }
    assert!(tidegate.first_lines(3).iter().all(|line| line["ending"] == "done"));
    // The password would be bound to the certificate of the gate, which is not the server's; and where the client sees
    // none, it does not believe that it could be bound.
    psql(carried, &bundle, DIRECT, session).expect_failure().expect("channel binding");
    psql(plain, &bundle, "sslmode=disable", session).expect_failure().expect("SCRAM-SHA-256-PLUS");
}

/// A server that is offered nothing shakes hands, and says no word more.
#[test]
#[ignore = "needs PostgreSQL 17"]
fn a_policy_without_the_name_does_not_reach_it() {
    let (port, authority) = (port::free(), Authority::new("CA"));
    let postgres = Postgres::start(&authority.issue(&[INSIDE]));
    let tidegate = Tidegate::serving(&file([
        gateway([tcp("db", port)]),
        route("TCPRoute", "db", "db", "db"),
        service("db", postgres.port),
        backend_tls("db", INSIDE, "inside"),
        config_map("inside", &authority.pem),
    ]));
    let folder = tempfile::tempdir().unwrap();
    let bundle = authority.write(folder.path());
    psql(port, &bundle, "sslmode=disable", FORTY_TWO).expect_failure();
    let line = &tidegate.first_lines(1)[0];
    assert_eq!(line["bytes_down"], 0, "{line}");
}
