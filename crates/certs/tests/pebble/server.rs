//! Pebble in its strict mode and its DNS server, started for a test and ended with it.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};

pub(crate) struct Pebble {
    pub(crate) directory: String,
    /// Vouches for Pebble's own server.
    pub(crate) ca: Vec<u8>,
    pub(crate) http_port: u16,
    pub(crate) tls_port: u16,
    management: String,
    ca_file: PathBuf,
    dns_management: String,
    orders: Arc<AtomicUsize>,
    issued: Arc<AtomicUsize>,
    invalid: Arc<AtomicUsize>,
    children: Vec<Child>,
    _folder: tempfile::TempDir,
}

/// When to renew what is to be renewed at once, as CAs say it of what they revoked.
pub(crate) const LONG_AGO: [&str; 2] = ["2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"];

pub(crate) struct Options {
    /// Of a hundred requests, so many are refused for their nonce.
    pub(crate) bad_nonces: u32,
    /// The only external account that is let in, its key in base64.
    pub(crate) external_account: Option<(&'static str, &'static str)>,
    /// Where all names lead; there it looks at ports 80 and 443, as a CA does.
    pub(crate) names_at: Option<Ipv4Addr>,
}

impl Default for Options {
    fn default() -> Self {
        Self { bad_nonces: 10, external_account: None, names_at: None }
    }
}

impl Pebble {
    pub(crate) fn start(options: &Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let ca = write_certificates(folder.path());
        let [dns, dns_management, port, management, http_port, tls_port] = free_ports();
        let (http_port, tls_port) =
            if options.names_at.is_some() { (80, 443) } else { (http_port, tls_port) };
        let external = options.external_account.map_or_else(String::new, |(id, key)| {
            format!(
                r#""externalAccountBindingRequired": true, "externalAccountMACKeys": {{ "{id}": "{key}" }},"#
            )
        });
        let config = format!(
            r#"{{ "pebble": {{
                "listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",
                "certificate": "{}", "privateKey": "{}", "httpPort": {http_port}, "tlsPort": {tls_port},
                {external}
                "retryAfter": {{ "authz": 1, "order": 1 }},
                "profiles": {{ "default": {{ "description": "usual", "validityPeriod": 7776000 }},
                               "shortlived": {{ "description": "short", "validityPeriod": 518400 }} }}
            }} }}"#,
            path("server.crt").display(),
            path("server.key").display(),
        );
        fs::write(path("config.json"), config).unwrap();
        let tools = PathBuf::from(
            std::env::var_os("TIDEGATE_PEBBLE").expect("TIDEGATE_PEBBLE: run make integration"),
        );
        let mut resolver = Command::new(tools.join("pebble-challtestsrv"));
        resolver.arg("-defaultIPv4").arg(options.names_at.unwrap_or(Ipv4Addr::LOCALHOST).to_string());
        for unused in ["-defaultIPv6", "-http01", "-https01", "-tlsalpn01", "-doh"] {
            resolver.args([unused, ""]);
        }
        let resolver = resolver
            .args(["-dnsserver", &format!("127.0.0.1:{dns}")])
            .args(["-management", &format!("127.0.0.1:{dns_management}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Command::new(tools.join("pebble"))
            .args(["-strict", "-dnsserver", &format!("127.0.0.1:{dns}"), "-config"])
            .arg(path("config.json"))
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_WFE_NONCEREJECT", options.bad_nonces.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let [orders, issued, invalid] = std::array::from_fn(|_| Arc::new(AtomicUsize::new(0)));
        let (ready, wait) = mpsc::channel();
        let lines = server.stdout.take().unwrap();
        let counted = [
            ("Added order", Arc::clone(&orders)),
            ("Issued certificate serial", Arc::clone(&issued)),
            ("set INVALID by invalid authz", Arc::clone(&invalid)),
        ];
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                for (_, count) in counted.iter().filter(|(words, _)| line.contains(words)) {
                    count.fetch_add(1, SeqCst);
                }
                if line.contains("ACME directory available") {
                    let _ = ready.send(());
                }
            }
        });
        let pebble = Self {
            directory: format!("https://localhost:{port}/dir"),
            ca,
            http_port,
            tls_port,
            management: format!("https://localhost:{management}"),
            ca_file: path("ca.crt"),
            dns_management: format!("http://127.0.0.1:{dns_management}"),
            orders,
            issued,
            invalid,
            children: vec![resolver, server],
            _folder: folder,
        };
        wait.recv_timeout(Duration::from_secs(30)).expect("Pebble did not start");
        pebble
    }

    /// How many orders were made of it.
    pub(crate) fn orders(&self) -> usize {
        self.orders.load(SeqCst)
    }

    /// How many certificates it made.
    pub(crate) fn issued(&self) -> usize {
        self.issued.load(SeqCst)
    }

    /// How many orders came to nothing because a name was not proved.
    pub(crate) fn invalid(&self) -> usize {
        self.invalid.load(SeqCst)
    }

    /// Vouches for Pebble's own server.
    pub(crate) fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    /// Has its DNS server fail for a name.
    pub(crate) fn fail_name(&self, name: &str) {
        let body = serde_json::json!({ "host": format!("{name}.") }).to_string();
        self.ask(&["-f", "-d", &body, &format!("{}/set-servfail", self.dns_management)]);
    }

    /// The root of what it issues.
    pub(crate) fn root(&self) -> String {
        self.ask(&["-f", &format!("{}/roots/0", self.management)])
    }

    /// Has it say from when to when a certificate is to be renewed.
    pub(crate) fn suggest(&self, certificate: &str, [start, end]: [&str; 2]) {
        let window = format!(r#"{{"suggestedWindow":{{"start":"{start}","end":"{end}"}}}}"#);
        let body = serde_json::json!({ "certificate": certificate, "ariResponse": window }).to_string();
        self.ask(&["-f", "-d", &body, &format!("{}/set-renewal-info/", self.management)]);
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let asked =
            Command::new("curl").arg("-s").arg("--cacert").arg(&self.ca_file).args(arguments).output();
        let asked = asked.unwrap();
        assert!(asked.status.success(), "{arguments:?}: {asked:?}");
        String::from_utf8(asked.stdout).unwrap()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let sockets: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

fn write_certificates(folder: &Path) -> Vec<u8> {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Pebble's own");
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let server =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    for (name, content) in
        [("ca.crt", &ca), ("server.crt", &server.pem()), ("server.key", &key.serialize_pem())]
    {
        fs::write(folder.join(name), content).unwrap();
    }
    ca.into_bytes()
}
