//! Renewal when the CA says so (ARI, RFC 9773), against Pebble. `make integration` runs it.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::acme::{flags, root, start};
use crate::loopback::own_address;
use crate::pebble::{LONG_AGO, Options, Pebble};
use crate::support::{backend, port, wait_for};
use crate::{GATEWAY, certs, route, service, shown};

fn days_from_now(days: u64) -> String {
    humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(days * 86_400)).to_string()
}

/// The only certificate, as `certs list` has it.
fn listed(state: &Path) -> Value {
    let (code, told) = certs(&["list", "--state", state.to_str().unwrap(), "-o", "json"]);
    assert_eq!(code, Some(0), "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["certificates"].as_array().unwrap().len(), 1, "{told}");
    told["certificates"][0].clone()
}

#[test]
#[ignore = "make integration gets Pebble"]
fn what_the_ca_says_about_a_renewal_is_kept_shown_and_followed() {
    let (ip, folder) = (own_address(), tempfile::tempdir().unwrap());
    let pebble = Pebble::start(&Options { names_at: Some(ip), ..Options::default() });
    let (state, root) = (folder.path().join("state"), root(&pebble, folder.path()));
    let (backend, web) = (service(backend::site()), route("HTTPRoute", "web", "https", "a.example.com"));
    let files = [("gateway.yaml", GATEWAY), ("service.yaml", &*backend), ("web.yaml", &*web)];
    let mut flags = flags(&pebble, &state);
    flags.push("--acme-profile=default".to_owned());
    let tidegate = start(ip, &files, &flags);
    let first = wait_for("the certificate", || shown(&tidegate, 443, "a.example.com", &root));
    wait_for("the CA's word", || (listed(&state)["renewBy"] == "ari").then_some(()));
    drop(tidegate);

    // Another word, which whoever starts anew hears.
    let leaf = format!("-----BEGIN CERTIFICATE-----{first}-----END CERTIFICATE-----\n");
    let (from, to) = (days_from_now(10), days_from_now(11));
    pebble.suggest(&leaf, [&from, &to]);
    let is_as_said = || {
        let listed = listed(&state);
        let at = listed["renewAt"].as_str().unwrap();
        (listed["renewBy"] == "ari" && *from <= *at && *at <= *to).then(|| at.to_owned())
    };
    let tidegate = start(ip, &files, &flags);
    let at = wait_for("the CA's other word", is_as_said);
    drop(tidegate);
    // A CA that is away has not taken it back.
    let mut away = flags.clone();
    away.push(format!("--acme-directory=https://localhost:{}/dir", port::free()));
    away.retain(|flag| !flag.contains(&pebble.directory));
    let tidegate = start(ip, &files, &away);
    assert_eq!(shown(&tidegate, 443, "a.example.com", &root).as_ref(), Some(&first));
    assert_eq!(is_as_said(), Some(at));
    drop(tidegate);
    assert_eq!((pebble.orders(), pebble.issued()), (1, 1));

    pebble.suggest(&leaf, LONG_AGO);
    let tidegate = start(ip, &files, &flags);
    wait_for("the renewal", || shown(&tidegate, 443, "a.example.com", &root).filter(|now| *now != first));
    wait_for("the CA's word about it", || {
        let listed = listed(&state);
        (listed["renewBy"] == "ari" && listed["renewAt"].as_str() > Some(&*days_from_now(30))).then_some(())
    });
    assert_eq!((pebble.orders(), pebble.issued()), (2, 2));
}
