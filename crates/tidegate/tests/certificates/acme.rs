//! ACME with the data plane answering, against Pebble in its strict mode. `make integration` runs it.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_certs::{Certificate, DAY, FolderStore, Shelf};

use crate::loopback::{Tidegate, own_address};
use crate::pebble::{Options, Pebble};
use crate::support::{backend, wait_for};
use crate::{GATEWAY, condition, condition_of, route, service, shown};

/// Flags for a Tidegate that asks this CA and waits for nobody.
pub(crate) fn flags(pebble: &Pebble, state: &Path) -> Vec<String> {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    vec![
        "--certs=acme".to_owned(),
        format!("--acme-directory={}", pebble.directory),
        format!("--acme-ca={}", text(pebble.ca_file())),
        format!("--state={}", text(state)),
        "--gather-names=0s".to_owned(),
    ]
}

pub(crate) fn start(ip: Ipv4Addr, files: &[(&str, &str)], flags: &[String]) -> Tidegate {
    Tidegate::start_on(ip, files, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The root of what the CA issues, as a file.
pub(crate) fn root(pebble: &Pebble, folder: &Path) -> std::path::PathBuf {
    let path = folder.join("root.crt");
    fs::write(&path, pebble.root()).unwrap();
    path
}

fn without_http() -> String {
    GATEWAY.replace("  - {name: http, port: 80, protocol: HTTP}\n", "")
}

/// By HTTP-01 where there is an HTTP listener, by TLS-ALPN-01 where there is none.
#[test]
#[ignore = "make integration gets Pebble"]
fn names_are_proved_by_the_data_plane() {
    for (gateway, by_file) in [(GATEWAY.to_owned(), true), (without_http(), false)] {
        let (ip, folder) = (own_address(), tempfile::tempdir().unwrap());
        let pebble = Pebble::start(&Options { bad_nonces: 15, names_at: Some(ip), ..Options::default() });
        let (state, root) = (folder.path().join("state"), root(&pebble, folder.path()));
        let backend = service(backend::site());
        // The second Secret wants the same name: it is proved twice, one after the other.
        let web = route("HTTPRoute", "web", "https", "a.example.com");
        let bytes = route("TLSRoute", "bytes", "tls", "a.example.com");
        let files = [
            ("gateway.yaml", &*gateway),
            ("service.yaml", &backend),
            ("web.yaml", &web),
            ("bytes.yaml", &bytes),
        ];
        let flags = flags(&pebble, &state);
        let tidegate = start(ip, &files, &flags);
        wait_for("the certificate", || shown(&tidegate, 443, "a.example.com", &root));
        wait_for("the other", || shown(&tidegate, 8443, "a.example.com", &root));
        wait_for("the condition", || (condition(&tidegate, "https")["status"] == "True").then_some(()));
        assert_eq!(tidegate.metric("tidegate_certificate_failures_total") as u64, 0);
        let asked_for_a_file = || {
            let log = fs::read_to_string(tidegate.folder().with_file_name("access.log")).unwrap();
            log.contains("/.well-known/acme-challenge/")
        };
        assert_eq!(asked_for_a_file(), by_file);
        assert_eq!((pebble.orders(), pebble.issued()), (2, 2));

        // A name that cannot be proved takes nobody along.
        pebble.fail_name("lost.example.com");
        tidegate.write("more.yaml", &route("HTTPRoute", "more", "https", "b.example.com, lost.example.com"));
        wait_for("the name beside it", || shown(&tidegate, 443, "b.example.com", &root));
        wait_for("a word about it", || {
            let condition = condition(&tidegate, "https");
            let told = condition["message"].as_str()?;
            (condition["reason"] == "IssuanceFailed" && told.contains("lost.example.com: failed"))
                .then_some(())
        });
        assert!(shown(&tidegate, 443, "a.example.com", &root).is_some());

        // Killed and started again, it asks for nothing.
        let orders = pebble.orders();
        drop(tidegate);
        let again = start(ip, &files, &flags);
        assert!(shown(&again, 443, "a.example.com", &root).is_some(), "served when it is ready");
        assert_eq!(again.metric("tidegate_certificate_orders_total") as u64, 0);
        assert_eq!(pebble.orders(), orders);
    }
}

/// A Gateway that names an ACME account called as it is, with a route.
fn naming(account: &str, port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {account}, annotations: {{gateway.tidegate.io/acme-account: {account}}}}}
spec:
  gatewayClassName: tidegate
  listeners:
  - {{name: tls, port: {port}, protocol: TLS, tls: {{mode: Terminate, certificateRefs: [{{name: {account}}}]}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {{name: {account}}}
spec:
  parentRefs: [{{name: {account}}}]
  hostnames: [{account}.example.com]
  rules: [{{backendRefs: [{{name: site, port: 80}}]}}]
"
    )
}

/// Each with a CA, a key and whatever else of its own; one that cannot be had is not replaced by another.
#[test]
#[ignore = "make integration gets Pebble"]
fn a_gateway_names_one_of_several_accounts() {
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let (ip, folder) = (own_address(), tempfile::tempdir().unwrap());
    let usual = Pebble::start(&Options { names_at: Some(ip), ..Options::default() });
    let external_account = Some(("kid-1", KEY));
    let corp = Pebble::start(&Options { names_at: Some(ip), external_account, ..Options::default() });
    let (state, key) = (folder.path().join("state"), folder.path().join("key"));
    fs::write(&key, KEY).unwrap();
    let (directory, ca) = (&corp.directory, corp.ca_file().display());
    let mut flags = flags(&usual, &state);
    flags.push(format!(
        "--acme-account=corp,directory={directory},ca={ca},profile=shortlived,external-account=kid-1,external-key={},namespace=default",
        key.display()
    ));
    flags.push(format!("--acme-account=bank,directory={directory},ca={ca},namespace=bank"));
    let backend = service(backend::site());
    let web = route("HTTPRoute", "web", "https", "a.example.com");
    let (named, of_others, unknown) = (naming("corp", 9443), naming("bank", 9444), naming("nobodys", 9445));
    let files = [
        ("gateway.yaml", GATEWAY),
        ("service.yaml", &backend),
        ("web.yaml", &web),
        ("corp.yaml", &named),
        ("bank.yaml", &of_others),
        ("nobodys.yaml", &unknown),
    ];
    let tidegate = start(ip, &files, &flags);
    let usual_root = root(&usual, folder.path());
    wait_for("the usual account's", || shown(&tidegate, 443, "a.example.com", &usual_root));
    assert_eq!(shown(&tidegate, 9443, "corp.example.com", &usual_root), None, "it is of the other CA");
    let corp_root = root(&corp, folder.path());
    wait_for("the other account's", || shown(&tidegate, 9443, "corp.example.com", &corp_root));
    for (gateway, words) in [
        ("bank", "bank.example.com: ACME account bank is not for Gateways of namespace default;"),
        ("nobodys", "nobodys.example.com: there is no ACME account nobodys here;"),
    ] {
        let told = condition_of(&tidegate, gateway, "tls");
        assert_eq!((&told["status"], &told["reason"]), (&"False".into(), &"IssuanceFailed".into()));
        assert!(told["message"].as_str().unwrap().starts_with(words), "{told}");
    }
    assert_eq!((usual.orders(), corp.orders()), (1, 1), "for nobody else");

    let store = FolderStore::look(&state).unwrap();
    let held = store.documents(Shelf::Certificates).unwrap();
    let held = held.iter().map(|one| Certificate::parse(&one.name, &one.content).unwrap().held);
    let held: BTreeMap<String, _> = held.map(|held| (held.issuer.to_string(), held)).collect();
    assert_eq!(held.keys().collect::<Vec<_>>(), ["acme", "acme (corp)"]);
    let life = held["acme (corp)"].not_after - held["acme (corp)"].not_before;
    assert!(life < 7 * DAY, "{life}: the profile of the account");
    assert_eq!(store.documents(Shelf::Accounts).unwrap().len(), 2, "a key for each");
}

/// How often a number of the environment says, or `usual` times.
fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

fn wait_longer<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(900), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "make integration gets Pebble"]
fn killed_at_any_moment() {
    let kills = number("TIDEGATE_KILLS", 20);
    let (ip, folder) = (own_address(), tempfile::tempdir().unwrap());
    let pebble = Pebble::start(&Options { bad_nonces: 5, names_at: Some(ip), ..Options::default() });
    let state = folder.path().join("state");
    let mut flags = flags(&pebble, &state);
    flags.extend(
        ["--certificate-per=name", "--orders-per-domain=10000", "--orders-per-namespace=10000"]
            .map(str::to_owned),
    );
    flags.extend(["--orders-per-gateway=10000", "--workers=1", "--access-log=off"].map(str::to_owned));
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    fs::write(manifests.join("service.yaml"), service(backend::site())).unwrap();
    let limits = "metadata: {name: edge, annotations: {gateway.tidegate.io/certificate-limit-per-namespace: \"1000\"}}";
    let run = |gateway: &str, log: &str| {
        fs::write(manifests.join("gateway.yaml"), gateway.replace("metadata: {name: edge}", limits)).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("run").arg(&manifests).args([format!("--bind={ip}"), format!("--admin={ip}:9900")]);
        let log = fs::File::create(folder.path().join(log)).unwrap();
        command.args(&flags).stdout(std::process::Stdio::null()).stderr(log).spawn().unwrap()
    };
    let mut chance: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut keys = BTreeMap::new();
    let (mut before_the_answer, mut done) = (0, 0);
    for kill in 0..kills {
        let name = format!("n{kill}.example.com");
        fs::write(
            manifests.join(format!("{kill}.yaml")),
            route("HTTPRoute", &format!("n{kill}"), "https", &name),
        )
        .unwrap();
        let mut child = run(&if kill % 2 == 0 { GATEWAY.to_owned() } else { without_http() }, "killed.log");
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis((chance >> 33) % 3_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = Found::read(&state, &mut keys);
        before_the_answer += found.unanswered;
        done = found.certificates;
    }
    let mut child = run(GATEWAY, "last.log");
    wait_longer("all certificates", || {
        let ended = child.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "{ended:?}: {}",
            fs::read_to_string(folder.path().join("last.log")).unwrap()
        );
        (Found::read(&state, &mut keys).certificates == kills).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let (orders, issued, unproved) = (pebble.orders(), pebble.issued(), pebble.invalid());
    println!(
        "{kills} kills: {done} of {kills} certificates before the last start, {orders} orders, {issued} issued, \
         {before_the_answer} orders killed before their answer was recorded, {unproved} while the CA was looking"
    );
    // An order is over where the CA found nobody who would have proved the name.
    assert!(orders <= kills + before_the_answer + unproved, "an order that was recorded is gone on with");
    assert!(unproved <= kills, "{unproved}");
    assert_eq!(issued, kills, "none is made twice");
}

/// What a state folder holds.
struct Found {
    certificates: usize,
    /// Orders whose answer is not recorded.
    unanswered: usize,
}

impl Found {
    /// Every file is whole, every key fits, and the key of an order that the CA knows stays the same.
    fn read(state: &Path, keys: &mut BTreeMap<String, String>) -> Self {
        let mut found = Self { certificates: 0, unanswered: 0 };
        let Ok(store) = FolderStore::look(state) else { return found };
        for shelf in Shelf::ALL {
            for document in store.documents(shelf).unwrap() {
                let value: serde_json::Value = serde_json::from_slice(&document.content)
                    .unwrap_or_else(|error| panic!("{shelf:?} {}: {error}", document.name));
                if shelf != Shelf::Orders {
                    continue;
                }
                let key = value["key"].as_str().filter(|key| key.contains("PRIVATE KEY")).expect("a key");
                match value["url"].as_str() {
                    Some(url) => {
                        let known = keys.entry(url.to_owned()).or_insert_with(|| key.to_owned());
                        assert_eq!(known, key, "{url} has lost its key");
                    }
                    None => found.unanswered += 1,
                }
            }
        }
        for document in store.documents(Shelf::Certificates).unwrap() {
            let certificate = Certificate::parse(&document.name, &document.content).unwrap();
            assert!(certificate.held.usable, "{} has lost its key", document.name);
            found.certificates += 1;
        }
        found
    }
}

#[test]
#[ignore = "make integration gets Pebble"]
fn many_names_a_few_at_a_time() {
    let names = number("TIDEGATE_NAMES", 1_000);
    let (ip, folder) = (own_address(), tempfile::tempdir().unwrap());
    let pebble = Pebble::start(&Options { bad_nonces: 5, names_at: Some(ip), ..Options::default() });
    let (state, root) = (folder.path().join("state"), root(&pebble, folder.path()));
    let mut flags = flags(&pebble, &state);
    flags.extend(["--certificate-per=name", "--orders-per-domain=10000"].map(str::to_owned));
    flags.extend(["--orders-per-namespace=10000", "--orders-per-gateway=10000"].map(str::to_owned));
    let limits = "metadata: {name: edge, annotations: {gateway.tidegate.io/certificate-limit-per-namespace: \"10000\"}}";
    let gateway = GATEWAY.replace("metadata: {name: edge}", limits);
    let backend = service(backend::site());
    let name = |number: usize| format!("n{number}.example.com");
    let routes: Vec<String> =
        (0..names).map(|number| route("HTTPRoute", &format!("n{number}"), "https", &name(number))).collect();
    let start_time = Instant::now();
    let routes = routes.join("---\n");
    let tidegate = start(
        ip,
        &[("gateway.yaml", &gateway), ("service.yaml", &backend), ("routes.yaml", &routes)],
        &flags,
    );
    let mut most = 0;
    wait_longer("all certificates", || {
        most = most.max(tidegate.metric("tidegate_certificate_orders_in_flight") as usize);
        (tidegate.metric("tidegate_certificate_names_missing") as usize == 0 && pebble.issued() >= names)
            .then_some(())
    });
    println!(
        "{names} certificates in {:.1} s, {most} orders at a time, {} in all",
        start_time.elapsed().as_secs_f64(),
        pebble.orders()
    );
    assert!((1..=8).contains(&most), "{most} orders at a time");
    assert_eq!(pebble.issued(), names);
    for number in [0, names / 2, names - 1] {
        assert!(shown(&tidegate, 443, &name(number), &root).is_some(), "{}", name(number));
    }
}
