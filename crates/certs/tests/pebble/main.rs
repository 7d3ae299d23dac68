//! Orders against Pebble, a real CA made for tests, in its strict mode. `make integration` runs them.
#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

mod answers;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use answers::Answers;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use server::{Options, Pebble};
use tidegate_certs::{
    Acme, AcmeSettings, Certificate, ChallengeKind, DAY, Demand, ExternalAccount, FolderStore, Issuance,
    Issuer, Issuers, Picture, Policies, Policy, Seconds, State, Want, WantedName,
};
use tidegate_plan::{Hostname, ObjectName};
use tokio::sync::watch;

const BOTH: [ChallengeKind; 2] = [ChallengeKind::Http01, ChallengeKind::TlsAlpn01];

fn now() -> Seconds {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

fn secret(name: &str) -> ObjectName {
    ObjectName::new("infra", name)
}

fn host(name: &str) -> Hostname {
    Hostname::parse(name).unwrap()
}

/// Names in their Secrets.
fn demand(wanted: &[(String, Vec<String>)]) -> Arc<Demand> {
    let wants = wanted.iter().map(|(name, names)| Want {
        secret: secret(name),
        gateway: secret("edge"),
        issuer: Issuer::acme(),
        names: names.iter().map(|name| WantedName { name: host(name), namespace: "shop".into() }).collect(),
    });
    Arc::new(Demand::new(wants, BTreeSet::new()))
}

fn one(name: &str, names: &[&str]) -> Arc<Demand> {
    demand(&[(name.to_owned(), names.iter().map(|name| (*name).to_owned()).collect())])
}

fn policy() -> Policy {
    Policy { gather: 0, budgets: None, ..Policy::acme() }
}

/// Issuance on its way, and what it shows.
struct Running {
    demand: watch::Sender<Arc<Demand>>,
    picture: watch::Receiver<Arc<Picture>>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn start(
        state: &Path,
        settings: AcmeSettings,
        policy: Policy,
        answers: &Arc<Answers>,
        wanted: Arc<Demand>,
    ) -> Self {
        let store = Arc::new(FolderStore::open(state).unwrap());
        let acme = Acme::new(settings).unwrap();
        let issuers = Issuers { embedded: None, acme: BTreeMap::from([("default".into(), acme)]) };
        let policies = Policies::from([(Issuer::acme(), policy)]);
        let complain = &mut |error: &tidegate_certs::StoreError| panic!("{error}");
        let challenges = Arc::clone(answers) as _;
        let issuance = Issuance::open(store, issuers, challenges, policies, now, complain).await.unwrap();
        let (demand, wants) = watch::channel(wanted);
        let (show, picture) = watch::channel(Arc::new(issuance.picture()));
        let task = tokio::spawn(async move { issuance.keep(wants, &show).await });
        Self { demand, picture, task }
    }

    async fn until(&mut self, what: &str, mut seen: impl FnMut(&Picture) -> bool) -> Arc<Picture> {
        let mut last = Arc::clone(&self.picture.borrow());
        let waited = tokio::time::timeout(Duration::from_secs(600), async {
            while !seen(&last) {
                self.picture.changed().await.unwrap();
                last = Arc::clone(&self.picture.borrow_and_update());
            }
        });
        if waited.await.is_err() {
            panic!("{what} did not happen: {:?}, {:?}", last.missing, last.last_failure);
        }
        last
    }

    /// Ends it, so that its folder is free again.
    async fn end(self) {
        drop((self.demand, self.picture));
        self.task.abort();
        let _ = self.task.await;
    }
}

fn settings(pebble: &Pebble) -> AcmeSettings {
    let profile = Some("default".to_owned());
    AcmeSettings { roots: Some(pebble.ca.clone()), profile, ..AcmeSettings::new(&pebble.directory) }
}

/// By the verifier that clients have.
fn verify(certificate: &Certificate, root: &str, name: &str) {
    use rustls::client::danger::ServerCertVerifier;
    use rustls_pki_types::pem::PemObject;
    use rustls_pki_types::{CertificateDer, UnixTime};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(certificate.chain.as_bytes()).map(Result::unwrap).collect();
    let name = name.to_owned().try_into().unwrap();
    let verified =
        verifier.build().unwrap().verify_server_cert(&chain[0], &chain[1..], &name, &[], UnixTime::now());
    verified.unwrap();
}

#[tokio::test]
#[ignore = "make integration gets Pebble"]
async fn by_either_challenge_and_a_restart_asks_for_nothing_again() {
    let pebble = Pebble::start(&Options { bad_nonces: 20, ..Options::default() });
    let root = pebble.root();
    let answers = Answers::start(pebble.http_port, pebble.tls_port, &BOTH);
    let state = tempfile::tempdir().unwrap();
    let wanted = one("tls", &["a.example.com", "b.example.com"]);
    let mut running =
        Running::start(state.path(), settings(&pebble), policy(), &answers, Arc::clone(&wanted)).await;
    let picture = running.until("a certificate", |picture| picture.certificates.len() == 1).await;
    let certificate = &picture.certificates[&secret("tls")];
    verify(certificate, &root, "a.example.com");
    verify(certificate, &root, "b.example.com");
    assert!(certificate.held.not_after > now() + 80 * DAY);
    assert!(picture.missing.is_empty() && answers.is_empty(), "answers are taken back");
    running.end().await;
    let orders = pebble.orders();

    let mut again = Running::start(state.path(), settings(&pebble), policy(), &answers, wanted).await;
    let picture = again.until("a look", |picture| !picture.demand.targets.is_empty()).await;
    assert_eq!(&picture.certificates[&secret("tls")], certificate);
    assert_eq!(pebble.orders(), orders);
    again.demand.send(one("tls", &["a.example.com", "b.example.com", "c.example.com"])).unwrap();
    let joined = |picture: &Picture| picture.certificates[&secret("tls")].held.names.len() == 3;
    again.until("the new name", joined).await;
    again.end().await;
}

#[tokio::test]
#[ignore = "make integration gets Pebble"]
async fn by_tls_alpn_with_a_profile_and_an_external_account() {
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let options = Options { external_account: Some(("kid-1", KEY)), ..Options::default() };
    let pebble = Pebble::start(&options);
    let answers = Answers::start(pebble.http_port, pebble.tls_port, &BOTH[1..]);
    let state = tempfile::tempdir().unwrap();
    let key = URL_SAFE_NO_PAD.decode(KEY).unwrap();
    let settings = AcmeSettings {
        external_account: Some(ExternalAccount { id: "kid-1".to_owned(), key }),
        profile: Some("shortlived".to_owned()),
        contacts: vec!["admin@example.com".to_owned()],
        ..settings(&pebble)
    };
    let wanted = one("tls", &["a.example.com"]);
    let mut running = Running::start(state.path(), settings, policy(), &answers, wanted).await;
    let picture = running.until("a certificate", |picture| picture.certificates.len() == 1).await;
    let held = &picture.certificates[&secret("tls")].held;
    assert!(held.not_after < now() + 7 * DAY, "the profile's lifetime");
    running.end().await;
}

#[tokio::test]
#[ignore = "make integration gets Pebble"]
async fn a_name_that_fails_is_set_aside() {
    let pebble = Pebble::start(&Options::default());
    let answers = Answers::start(pebble.http_port, pebble.tls_port, &BOTH);
    answers.broken.lock().unwrap().push(host("b.example.com"));
    let state = tempfile::tempdir().unwrap();
    let wanted = one("tls", &["a.example.com", "b.example.com", "c.example.com"]);
    let mut running = Running::start(state.path(), settings(&pebble), policy(), &answers, wanted).await;
    let picture = running.until("a certificate", |picture| picture.certificates.len() == 1).await;
    assert_eq!(
        picture.certificates[&secret("tls")].held.names,
        [host("a.example.com"), host("c.example.com")]
    );
    let why = &picture.missing[&(secret("tls"), host("b.example.com"))];
    assert!(matches!(why, State::SetAside { message, .. } if message.contains("unauthorized")), "{why:?}");
    assert_eq!(pebble.orders(), 2);
    running.end().await;
}

#[tokio::test]
#[ignore = "make integration gets Pebble"]
async fn what_the_ca_wants_renewed_is_renewed_at_once() {
    let pebble = Pebble::start(&Options::default());
    let (first, renewed) = renewed_after(&pebble, async |_, first| {
        let leaf = first.chain.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
        pebble.suggest(leaf, server::LONG_AGO);
    })
    .await;
    assert_ne!(renewed.key, first.key, "with a key of its own");
}

/// A certificate, and the one that takes its place when this has happened to it while nobody was there.
async fn renewed_after(
    pebble: &Pebble,
    happens: impl AsyncFnOnce(&Path, &Certificate),
) -> (Arc<Certificate>, Arc<Certificate>) {
    let answers = Answers::start(pebble.http_port, pebble.tls_port, &BOTH);
    let state = tempfile::tempdir().unwrap();
    let wanted = one("tls", &["a.example.com"]);
    let mut running =
        Running::start(state.path(), settings(pebble), policy(), &answers, Arc::clone(&wanted)).await;
    let picture = running.until("a certificate", |picture| picture.certificates.len() == 1).await;
    let first = picture.certificates[&secret("tls")].clone();
    running.end().await;
    happens(state.path(), &first).await;
    let mut again = Running::start(state.path(), settings(pebble), policy(), &answers, wanted).await;
    let renewed = |picture: &Picture| picture.certificates[&secret("tls")].held.serial != first.held.serial;
    let picture = again.until("the renewal", renewed).await;
    let renewed = picture.certificates[&secret("tls")].clone();
    again.end().await;
    (first, renewed)
}

/// By the account that has it, beside the process.
async fn revoke(pebble: &Pebble, state: &Path, certificate: &Certificate) {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let file = std::fs::read_dir(state.join("accounts")).unwrap().next().unwrap().unwrap().path();
    let mut account: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let credentials = serde_json::from_value(account["credentials"].take()).unwrap();
    let builder = instant_acme::Account::builder_with_root(pebble.ca_file()).unwrap();
    let account = builder.from_credentials(credentials).await.unwrap();
    let leaf = CertificateDer::from_pem_slice(certificate.chain.as_bytes()).unwrap();
    let request = instant_acme::RevocationRequest { certificate: &leaf, reason: None };
    // Pebble refuses nonces at random.
    for _ in 0..20 {
        if account.revoke(&request).await.is_ok() {
            return;
        }
    }
    panic!("it cannot be revoked");
}

#[tokio::test]
#[ignore = "make integration gets Pebble"]
async fn what_is_revoked_is_renewed_at_once() {
    let pebble = Pebble::start(&Options::default());
    renewed_after(&pebble, async |state, first| revoke(&pebble, state, first).await).await;
}

#[tokio::test]
#[ignore = "make integration gets Pebble"]
async fn a_ca_that_is_down_is_asked_again() {
    let [port] = server::free_ports();
    let pebble = Pebble::start(&Options::default());
    let answers = Answers::start(pebble.http_port, pebble.tls_port, &BOTH);
    let state = tempfile::tempdir().unwrap();
    let away = AcmeSettings { directory: format!("https://localhost:{port}/dir"), ..settings(&pebble) };
    let wanted = one("tls", &["a.example.com"]);
    let mut running = Running::start(state.path(), away, policy(), &answers, wanted).await;
    let held =
        |picture: &Picture| picture.missing.values().any(|state| matches!(state, State::IssuerHeld { .. }));
    let picture = running.until("the failure", held).await;
    let told = picture.last_failure.clone().unwrap();
    assert!(told.starts_with("the CA cannot be asked") && told.contains("refused"), "{told}");
    running.end().await;
}
