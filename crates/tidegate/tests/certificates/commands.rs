//! `tidegate certs`.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{GATEWAY, route};

fn certs(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("certs").args(arguments).output().unwrap()
}

fn manifests(routes: &[String]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("gateway.yaml"), GATEWAY).unwrap();
    for (number, route) in routes.iter().enumerate() {
        fs::write(folder.path().join(format!("{number}.yaml")), route).unwrap();
    }
    folder
}

#[test]
fn plan_tells_what_would_be_asked_and_what_is_left_out() {
    let folder = manifests(&[
        route("HTTPRoute", "a", "https", "a.example.com, b.example.com"),
        route("HTTPRoute", "wide", "https", "\"*.example.org\""),
    ]);
    let path = folder.path().to_str().unwrap();
    let told = certs(&["plan", path, "--certs=acme", "-o", "json"]);
    assert_eq!(told.status.code(), Some(1), "a name is left out");
    let plan: Value = serde_json::from_slice(&told.stdout).unwrap();
    let https = plan["listeners"].as_array().unwrap().iter().find(|each| each["listener"]["name"] == "https");
    let https = https.unwrap();
    assert_eq!(https["orders"][0]["names"], serde_json::json!(["a.example.com", "b.example.com"]));
    assert_eq!(https["orders"].as_array().unwrap().len(), 1);
    assert_eq!(https["leftOut"][0]["why"], "wildcardOfRoute");
    assert_eq!((&https["gatherSeconds"], &https["there"]), (&10.into(), &serde_json::json!([])));
    assert_eq!(https["challenges"], serde_json::json!(["HTTP-01", "TLS-ALPN-01"]));
    assert_eq!(https["directory"], "https://acme-v02.api.letsencrypt.org/directory");
    assert!(https["renewed"].as_str().unwrap().contains("ARI"), "{https}");

    let each = certs(&["plan", path, "--certs=acme", "--certificate-per=name"]);
    let text = String::from_utf8(each.stdout).unwrap();
    assert!(text.contains("one certificate for each name") && text.contains("not *.example.org"), "{text}");
    assert!(text.contains("new names wait 10 s for others"), "{text}");
    let none = certs(&["plan", path]);
    assert!(String::from_utf8(none.stderr).unwrap().contains("no Gateway has an issuer"));
}

#[test]
fn plan_tells_what_stands_in_the_way() {
    let asking = |name: &str, annotations: &str, port: u16| {
        GATEWAY
            .replace(
                "{name: edge}",
                &format!("{{name: {name}, annotations: {{gateway.tidegate.io/{annotations}}}}}"),
            )
            .replace("  - {name: http, port: 80, protocol: HTTP}\n", "")
            .replace("443", &port.to_string())
    };
    let folder = tempfile::tempdir().unwrap();
    let route = |gateway: &str, name: &str| {
        route("HTTPRoute", name, "https", &format!("{name}.example.com"))
            .replace("name: edge", &format!("name: {gateway}"))
    };
    let documents = [
        asking("edge", "issuer: embedded", 444),
        asking("other", "issuer: acme", 445),
        asking("corp", "issuer: acme, gateway.tidegate.io/acme-account: corp", 446)
            .replace("name: web", "name: corp"),
        route("edge", "a"),
        route("other", "b"),
        route("corp", "c"),
    ];
    fs::write(folder.path().join("all.yaml"), documents.join("---\n")).unwrap();
    let path = folder.path().to_str().unwrap();
    let told = |arguments: &[&str]| {
        let told = certs(&[&["plan", path, "--gateway"], arguments].concat());
        let text = String::from_utf8(told.stdout).unwrap();
        (told.status.code(), text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (status, text) = told(&["edge"]);
    assert!(status == Some(0) && text.contains("Secret default/web of embedded: a.example.com"), "{text}");
    assert!(!text.contains("b.example.com"), "{text}");
    let (status, text) = told(&["other"]);
    assert!(status == Some(1) && text.contains("is made by the issuer of another Gateway"), "{text}");
    let (status, text) = told(&["corp"]);
    assert!(status == Some(1) && text.contains("c.example.com there is no ACME account corp here"), "{text}");
    let (status, text) = told(&["corp", "--acme-account=corp,directory=https://ca.example/dir"]);
    assert!(text.contains("Secret default/corp of acme (corp): c.example.com"), "{text}");
    assert!(
        status == Some(1) && text.contains("no challenge can be answered"),
        "on no port of a CA's: {text}"
    );
    fs::write(folder.path().join("on-443.yaml"), asking("open", "issuer: none", 443)).unwrap();
    let (status, text) = told(&["corp", "--acme-account=corp,directory=https://ca.example/dir"]);
    let asked = "asked of https://ca.example/dir; names are proved by TLS-ALPN-01";
    assert!(status == Some(0) && text.contains(asked), "{text}");
    let (status, text) = told(&["corp", "--acme-account=corp,namespace=bank"]);
    assert!(
        status == Some(1) && text.contains("ACME account corp is not for Gateways of namespace default"),
        "{text}"
    );
    assert_eq!(told(&["edge", "-n", "elsewhere"]), (Some(0), String::new()));
}

#[test]
fn plan_tells_the_certificates_that_cert_manager_would_be_asked_for() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cert-manager");
    let told = certs(&["plan", example]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.status.code(), Some(0), "{text}");
    let certificate = "Certificate default/front of cert-manager's ClusterIssuer ca, into Secret default/front: notes.example.com";
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(certificate), "{text}");
    assert!(words.contains("cert-manager's gateway-shim makes it"), "{text}");
    assert!(words.contains("together: names of one namespace, 100 at most; new names wait 3 s"), "{text}");
    let told = certs(&["plan", example, "--names-per-certificate=2", "--gather-names=1m"]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("together: names of one namespace, 2 at most; new names wait 60 s"), "{text}");
    let text = String::from_utf8(certs(&["plan", example, "--certificate-per=listener"]).stdout).unwrap();
    assert!(text.contains("together: all names of a Secret, 100 at most"), "{text}");

    // On one machine there is no cert-manager: who else is named makes them.
    let text = String::from_utf8(certs(&["plan", example, "--certs=embedded"]).stdout).unwrap();
    assert!(text.contains("Secret default/front of embedded: notes.example.com"), "{text}");

    let told = certs(&["plan", example, "-o", "json"]);
    let plan: Value = serde_json::from_slice(&told.stdout).unwrap();
    let of = |name: &str| {
        let listeners = plan["listeners"].as_array().unwrap();
        listeners.iter().find(|each| each["listener"]["name"] == name).unwrap()["certificates"].clone()
    };
    let front = serde_json::json!({ "namespace": "default", "name": "front" });
    let asked = serde_json::json!([{ "name": front, "secret": front, "dnsNames": ["notes.example.com"] }]);
    let together = "names of one namespace, 100 at most";
    let expected =
        serde_json::json!({ "asked": asked, "whyNot": null, "together": together, "gatherSeconds": 3 });
    assert_eq!(of("https"), expected);
    assert_eq!(of("shop")["asked"], serde_json::json!([]));

    // A Secret that is there already is somebody's.
    let folder = tempfile::tempdir().unwrap();
    for file in ["gateway.yaml", "notes.yaml"] {
        fs::copy(format!("{example}/{file}"), folder.path().join(file)).unwrap();
    }
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: front}\n";
    fs::write(folder.path().join("secret.yaml"), secret).unwrap();
    let text = String::from_utf8(certs(&["plan", folder.path().to_str().unwrap()]).stdout).unwrap();
    assert!(text.contains("was not made for a"), "{text}");
}

#[test]
fn synth_writes_a_listener_for_each_name() {
    let folder = manifests(&[route("HTTPRoute", "a", "https", "a.example.com, b.example.com")]);
    let told = certs(&["synth", folder.path().to_str().unwrap()]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("hostname: a.example.com") && text.contains("name: https.b.example.com"), "{text}");
    // What comes out is valid.
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("gateway.yaml"), &text).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("check").arg(out.path()).output().unwrap();
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_ne!(checked.status.code(), Some(2), "{told}");
    assert!(told.contains("https.a.example.com"), "{told}");
}

/// What comes out for more names than a Gateway has room for serves every one of them.
#[test]
fn synth_of_many_names_attaches_every_route_to_a_listener_with_its_name() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: site}\nspec: {ports: [{port: 80}]}\n";
    let mut routes: Vec<String> = (0..70)
        .map(|number| {
            let route = route("HTTPRoute", &format!("r{number}"), "https", &format!("n{number}.example.com"));
            // With and without a section.
            if number % 2 == 0 { route } else { route.replace(", sectionName: https", "") }
        })
        .collect();
    // A ListenerSet that somebody wrote, with an open listener of its own.
    let own_set = "apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more}
spec:
  parentRef: {name: edge}
  listeners: [{name: extra, port: 9443, protocol: HTTPS, tls: {certificateRefs: [{name: extra}]}}]
";
    let extra = route("HTTPRoute", "extra", "extra", "extra.example.com")
        .replace("{name: edge", "{name: more, kind: ListenerSet");
    routes.extend([own_set.to_owned(), extra]);
    let folder = manifests(&routes);
    let gateway = GATEWAY.replace("spec:\n", "spec:\n  allowedListeners: {namespaces: {from: Same}}\n");
    fs::write(folder.path().join("gateway.yaml"), gateway).unwrap();
    let told = certs(&["synth", folder.path().to_str().unwrap()]);
    let text = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.status.code(), Some(0), "{}", String::from_utf8_lossy(&told.stderr));

    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("all.yaml"), &text).unwrap();
    fs::write(out.path().join("service.yaml"), service).unwrap();
    let path = out.path().to_str().unwrap();
    let told = certs(&["plan", path, "--certs=embedded", "-o", "json"]);
    let plan: Value = serde_json::from_slice(&told.stdout).unwrap();
    let listeners = plan["listeners"].as_array().unwrap();
    let mut secrets = std::collections::BTreeMap::new();
    for (name, listener) in (0..70)
        .map(|number| (format!("n{number}.example.com"), "https"))
        .chain([("extra.example.com".to_owned(), "extra")])
    {
        let section = format!("{listener}.{name}");
        let found = listeners.iter().find(|each| each["listener"]["name"] == *section);
        let found = found.unwrap_or_else(|| panic!("no listener {section}"));
        let set = found["listener"]["listenerSet"].to_string();
        assert_eq!(secrets.entry(found["secret"].to_string()).or_insert_with(|| set.clone()), &set, "{name}");
    }
    assert_eq!(secrets.len(), 3, "{secrets:?}");
    for number in 0..70 {
        let asked = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["explain", path, &format!("HTTPRoute/r{number}")])
            .output()
            .unwrap();
        let text = String::from_utf8(asked.stdout).unwrap();
        let listener = format!("/https.n{number}.example.com (");
        let attached = text.lines().find(|line| line.starts_with("  +") && line.contains(&listener));
        // The object's own line, and one for each parent; what else stands there is indented.
        let parents = text.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with(' '));
        let refused: Vec<&str> = parents.filter(|line| !line.ends_with(": accepted")).collect();
        assert!(attached.is_some() && refused.is_empty(), "{number}: {refused:?}: {text}");
    }
}

#[test]
fn root_and_list_without_a_state_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let away = folder.path().join("none");
    for command in ["root", "list"] {
        let told = certs(&[command, "--state", away.to_str().unwrap()]);
        assert_eq!(told.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&told.stderr).contains("cannot read"), "{told:?}");
    }
    let told = certs(&["root", "--state", folder.path().to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&told.stderr).contains("has no root yet"), "{told:?}");
    assert!(told.stdout.is_empty());
}

#[test]
fn check_takes_a_secret_that_an_issuer_is_to_make_for_no_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = |annotations: &str| {
        let text = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: tidegate}}\n\
             spec: {{controllerName: gateway.tidegate.io/controller}}\n---\n\
             apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
             metadata: {{name: web, annotations: {{{annotations}}}}}\nspec:\n  gatewayClassName: tidegate\n  listeners:\n\
             \x20 - {{name: https, port: 443, protocol: HTTPS, hostname: a.example.com, tls: {{certificateRefs: [{{name: web}}]}}}}\n"
        );
        fs::write(folder.path().join("gateway.yaml"), text).unwrap();
        let checked =
            Command::new(env!("CARGO_BIN_EXE_tidegate")).arg("check").arg(folder.path()).output().unwrap();
        // Lines are broken anywhere.
        let told = String::from_utf8(checked.stdout).unwrap();
        (checked.status.code(), told.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let (status, told) = gateway("gateway.tidegate.io/issuer: embedded");
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains("Pending") && told.contains("the Gateway's issuer is to make it"), "{told}");
    let (status, told) = gateway("");
    assert_eq!(status, Some(1), "{told}");
    assert!(told.contains("does not exist; create it"), "{told}");
}
