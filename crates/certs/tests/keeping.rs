//! Issuance over stores that are damaged, littered or wrong.
#![allow(clippy::unwrap_used, reason = "a test that panics has said what is wrong")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_certs::{
    Acme, AcmeSettings, Answer, Authority, Boxed, ChallengeKind, Challenges, DAY, Demand, Document,
    EmbeddedSettings, FolderStore, HOUR, Intent, Issuance, Issuer, Issuers, Ledger, Order, Picture, Policies,
    Policy, Seconds, Shelf, State, Store, StoreError, Want, WantedName, Why,
};
use tidegate_plan::{Hostname, ObjectName};
use tokio::sync::watch;

fn now() -> Seconds {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

fn secret(name: &str) -> ObjectName {
    ObjectName::new("infra", name)
}

fn demand(name: &str, issuer: Issuer) -> Arc<Demand> {
    let names = vec![WantedName { name: Hostname::parse(name).unwrap(), namespace: "shop".into() }];
    Arc::new(Demand::new(
        [Want { secret: secret("tls"), gateway: secret("edge"), issuer, names }],
        BTreeSet::new(),
    ))
}

/// Nobody gets so far as to need an answer.
struct Nobody;

impl Challenges for Nobody {
    fn kinds(&self, _: &Hostname) -> Vec<ChallengeKind> {
        Vec::new()
    }

    fn answer<'a>(&'a self, _: &'a Hostname, _: Answer) -> Boxed<'a, Result<(), String>> {
        Box::pin(async { Err("nobody answers".to_owned()) })
    }

    fn withdraw(&self, _: &Hostname) {}
}

/// Keeps certificates over a store until something is seen; says what was complained of.
async fn keep_until(
    store: Arc<dyn Store>,
    wanted: Arc<Demand>,
    mut seen: impl FnMut(&Picture) -> bool,
) -> (Arc<Picture>, Vec<String>) {
    let authority = Authority::open(&*store, &EmbeddedSettings::default(), now()).await.unwrap();
    let acme = Acme::new(AcmeSettings::new("https://localhost:1/directory")).unwrap();
    let issuers = Issuers { embedded: Some(authority), acme: BTreeMap::from([("default".into(), acme)]) };
    let policies = Policies::from([
        (Issuer::Embedded, Policy::embedded()),
        (Issuer::acme(), Policy { gather: 0, ..Policy::acme() }),
    ]);
    let mut complaints = Vec::new();
    let complain = &mut |error: &StoreError| complaints.push(error.to_string());
    let issuance = Issuance::open(store, issuers, Arc::new(Nobody), policies, now, complain).await.unwrap();
    let (_wants, wants) = watch::channel(wanted);
    let (show, mut pictures) = watch::channel(Arc::new(issuance.picture()));
    let task = tokio::spawn(async move { issuance.keep(wants, &show).await });
    let waited = tokio::time::timeout(Duration::from_secs(120), async {
        loop {
            pictures.changed().await.unwrap();
            let picture = Arc::clone(&pictures.borrow_and_update());
            if seen(&picture) {
                return picture;
            }
        }
    });
    let picture = waited.await.unwrap();
    task.abort();
    let _ = task.await;
    (picture, complaints)
}

#[tokio::test]
async fn a_ledger_that_cannot_be_read_is_told_and_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let store = FolderStore::open(folder.path()).unwrap();
    std::fs::write(folder.path().join("ledger/ledger.json"), "{\"charges\": [").unwrap();
    let wanted = demand("a.example.com", Issuer::Embedded);
    let (_, complaints) =
        keep_until(Arc::new(store), wanted, |picture| picture.certificates.len() == 1).await;
    assert!(
        matches!(&complaints[..], [one] if one.starts_with("ledger/ledger cannot be read")),
        "{complaints:?}"
    );
}

#[tokio::test]
async fn a_failure_is_not_remembered_once_there_is_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FolderStore::open(folder.path()).unwrap());
    let since = now() - 10;
    let failed = format!(r#"{{"count": 1, "since": {since}, "wait": 1, "message": "no"}}"#);
    let ledger = format!(r#"{{"aside": [[["embedded", "a.example.com"], {failed}]]}}"#);
    std::fs::write(folder.path().join("ledger/ledger.json"), ledger).unwrap();
    let wanted = demand("a.example.com", Issuer::Embedded);
    keep_until(Arc::clone(&store) as _, wanted, |picture| picture.certificates.len() == 1).await;
    let stored = &store.documents(Shelf::Ledger).unwrap()[0].content;
    let ledger: Ledger = serde_json::from_slice(stored).unwrap();
    assert_eq!(ledger.setbacks().count(), 0);
}

/// A clock that a test sets.
static CLOCK: AtomicI64 = AtomicI64::new(1_800_000_000);

#[tokio::test]
async fn whoever_starts_next_learns_until_when_somebody_was_here() {
    let clock: fn() -> Seconds = || CLOCK.load(SeqCst);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(FolderStore::open(folder.path()).unwrap());
    let charge = format!(
        r#"{{"at": {}, "issuer": {{"acme": "default"}}, "gateways": [], "namespaces": [], "domains": ["example.com"]}}"#,
        clock()
    );
    let file = folder.path().join("ledger/ledger.json");
    std::fs::write(&file, format!(r#"{{"charges": [{charge}]}}"#)).unwrap();
    let (issuers, policies) = (Issuers::default(), Policies::from([(Issuer::acme(), Policy::acme())]));
    let complain = &mut |error: &StoreError| panic!("{error}");
    let issuance = Issuance::open(store, issuers, Arc::new(Nobody), policies, clock, complain).await.unwrap();
    let (wants, wanted) = watch::channel(Arc::<Demand>::default());
    let (show, mut pictures) = watch::channel(Arc::new(issuance.picture()));
    let task = tokio::spawn(async move { issuance.keep(wanted, &show).await });
    pictures.changed().await.unwrap();
    let mut stored = Vec::new();
    for _ in 0..4 {
        let ledger: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        stored.push(clock() - ledger["seen"].as_i64().unwrap());
        CLOCK.fetch_add(5 * HOUR, SeqCst);
        // Has it look.
        pictures.mark_unchanged();
        wants.send(Arc::default()).unwrap();
        pictures.changed().await.unwrap();
    }
    assert_eq!(stored, [0, 5 * HOUR, 0, 5 * HOUR], "not each time, but before it would be taken for away");
    task.abort();
}

/// Goes wrong when an order's task asks for accounts.
struct Broken(FolderStore);

impl Store for Broken {
    fn all(&self, shelf: Shelf) -> Boxed<'_, Result<Vec<Document>, StoreError>> {
        assert_ne!(shelf, Shelf::Accounts, "a mistake");
        self.0.all(shelf)
    }

    fn put<'a>(
        &'a self,
        shelf: Shelf,
        name: &'a str,
        content: &'a [u8],
    ) -> Boxed<'a, Result<(), StoreError>> {
        self.0.put(shelf, name, content)
    }

    fn remove<'a>(&'a self, shelf: Shelf, name: &'a str) -> Boxed<'a, Result<(), StoreError>> {
        self.0.remove(shelf, name)
    }
}

#[tokio::test]
async fn an_order_that_panics_gives_its_place_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Broken(FolderStore::open(folder.path()).unwrap()));
    let wanted = demand("a.example.com", Issuer::acme());
    let (picture, _) = keep_until(Arc::clone(&store) as _, wanted, |picture| picture.failures == 1).await;
    let state = picture.missing.values().next().unwrap();
    assert!(matches!(state, State::SetAside { message, .. } if message.contains("mistake")), "{state:?}");
    assert_eq!((picture.in_flight, picture.orders), (0, 1));
    assert!(store.0.documents(Shelf::Orders).unwrap().is_empty());
}

fn leave_order(root: &Path, begun: Seconds) -> Arc<FolderStore> {
    let name = Hostname::parse("gone.example.com").unwrap();
    let order = Order {
        secret: secret("old"),
        target: secret("old"),
        issuer: Issuer::acme(),
        names: vec![name.clone()],
        asked: vec![name],
        why: Why::NewNames,
    };
    let intent = Intent::new(order, begun).unwrap();
    std::fs::create_dir_all(root.join("orders")).unwrap();
    std::fs::write(root.join("orders/infra_old.json"), serde_json::to_vec(&intent).unwrap()).unwrap();
    Arc::new(FolderStore::open(root).unwrap())
}

#[tokio::test]
async fn an_order_whose_names_nobody_wants_any_more_does_not_stay() {
    for (begun, wanted, stays) in [
        (now() - 2 * DAY, demand("a.example.com", Issuer::Embedded), false),
        // It may come back, and before anybody has said what is wanted nothing is unwanted.
        (now() - DAY / 2, demand("a.example.com", Issuer::Embedded), true),
        (now() - 2 * DAY, Arc::default(), true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = leave_order(folder.path(), begun);
        let count = wanted.targets.len();
        keep_until(Arc::clone(&store) as _, wanted, |picture| picture.certificates.len() == count).await;
        let left = store.documents(Shelf::Orders).unwrap();
        assert_eq!(left.len(), usize::from(stays), "begun {begun}");
    }
}
