//! PostgreSQL, whose clients ask in plain bytes whether the server speaks TLS before they shake hands.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

use crate::support::certificate::{Authority, Identity};
use crate::support::manifest::{file, gateway, passthrough, route, service, tcp, tls_route};
use crate::support::port;
use crate::support::process::{Finished, Process};
use crate::support::tidegate::Tidegate;

const NAME: &str = "db.example.com";
const PASSWORD: &str = "high tide";

/// A cluster of its own that takes nobody without TLS and a password.
struct Postgres {
    port: u16,
    version: u32,
    process: Process,
    _folder: TempDir,
}

impl Postgres {
    fn start(identity: &Identity) -> Self {
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
        fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 scram-sha-256\n").unwrap();

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

/// Debian keeps them apart by version; the newest.
fn programs() -> (PathBuf, u32) {
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

/// From version 17 on client and server can start with the handshake (`sslnegotiation=direct`), and a listener can
/// route by the name in it. Older ones start with a question in plain bytes, and the log says who that was.
///
/// Left out is TLS that Tidegate adds or takes away: a server of version 17 wants the ALPN name `postgresql` in a
/// direct handshake, which a BackendTLSPolicy cannot ask for, and a client that was terminated would still ask the
/// plain server its question. Redis shows both instead.
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
        let answer = psql(port, &bundle, "sslnegotiation=direct", "select 6 * 7").expect_success();
        assert_eq!(answer.stdout.trim(), "42");
        assert_eq!(tidegate.line("sni", NAME)["protocol"], "TLS passthrough");
    }
}
