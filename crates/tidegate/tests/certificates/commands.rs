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

    let each = certs(&["plan", path, "--certs=acme", "--certificate-per=name"]);
    let text = String::from_utf8(each.stdout).unwrap();
    assert!(text.contains("one certificate for each name") && text.contains("not *.example.org"), "{text}");
    let none = certs(&["plan", path]);
    assert!(String::from_utf8(none.stderr).unwrap().contains("no Gateway has an issuer"));
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

    let told = certs(&["plan", example, "-o", "json"]);
    let plan: Value = serde_json::from_slice(&told.stdout).unwrap();
    let of = |name: &str| {
        let listeners = plan["listeners"].as_array().unwrap();
        listeners.iter().find(|each| each["listener"]["name"] == name).unwrap()["certificates"].clone()
    };
    let front = serde_json::json!({ "namespace": "default", "name": "front" });
    let asked = serde_json::json!([{ "name": front, "secret": front, "dnsNames": ["notes.example.com"] }]);
    assert_eq!(of("https"), serde_json::json!({ "asked": asked, "whyNot": null }));
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
