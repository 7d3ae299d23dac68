//! Pairs of files: what a Gateway asks for, and all that is made for it. `UPDATE=1` writes them anew.

use std::fs;
use std::path::Path;

use tidegate_api::{Node, Object, read_object, to_yaml, yaml};
use tidegate_translate::{Resources, Settings as TranslateSettings, translate};

use super::*;
use crate::settings::LinkAddress;

fn settings() -> Settings {
    Settings {
        controller_name: "gateway.tidegate.io/controller".into(),
        namespace: "tidegate-system".to_owned(),
        identity: "controller-1".to_owned(),
        is_pod: true,
        lease: "tidegate".to_owned(),
        image: "tidegate:1.0".to_owned(),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        image_pull_secrets: Vec::new(),
        link: LinkAddress::Service("tidegate-link".to_owned()),
        cert_manager: None,
        link_listen: SocketAddr::from(([0, 0, 0, 0], 9443)),
        issuing: None,
    }
}

/// The objects for all Gateways of a file.
fn objects(source: &str) -> Vec<Managed> {
    let (nodes, problems) = yaml::documents(source);
    assert!(problems.is_empty(), "{problems:?}");
    let mut resources = Resources::default();
    for node in &nodes {
        let reading = read_object(node);
        let problems: Vec<String> = reading.problems.iter().map(ToString::to_string).collect();
        resources.insert(reading.object.unwrap_or_else(|| panic!("{}", problems.join("\n"))));
    }
    let translation = translate(&resources, &TranslateSettings::cluster());
    let settings = settings();
    let of_gateway = |(gateway, asked): (&ObjectName, &std::sync::Arc<Infrastructure>)| {
        let plan = translation.plan.of_gateway(gateway);
        let ports = plan.listeners().map(|listener| (listener.port, listener.handling.transport())).collect();
        let plane = Plane {
            gateway,
            asked,
            ports: &ports,
            settings: &settings,
            link: SocketAddr::from(([10, 96, 0, 7], 9443)),
            authorities: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
        };
        plane.objects()
    };
    translation.infrastructure.iter().flat_map(of_gateway).collect()
}

#[test]
fn what_is_made_for_a_gateway_is_as_written() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut cases = 0;
    for entry in fs::read_dir("tests/planes").expect("the cases are there") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let Some(case) = name.strip_suffix(".in.yaml") else { continue };
        cases += 1;
        let found: String = objects(&fs::read_to_string(&path).expect("a text"))
            .iter()
            .map(|managed| format!("---\n{}", to_yaml(&managed.body)))
            .collect();
        let beside = Path::new("tests/planes").join(format!("{case}.out.yaml"));
        if update {
            fs::write(&beside, &found).expect("the case can be written");
        }
        let written = fs::read_to_string(&beside).unwrap_or_default();
        if written != found {
            let diff = similar::TextDiff::from_lines(&written, &found);
            panic!("{case} is not as written:\n{}", diff.unified_diff());
        }
    }
    assert!(cases >= 5, "{cases} cases");
}

#[test]
fn everything_carries_what_the_gateway_asks_for() {
    let source = fs::read_to_string("tests/planes/metadata.in.yaml").expect("a text");
    let all = objects(&source);
    assert!(all.len() >= 5);
    for managed in &all {
        let templates = [&managed.body["metadata"], &managed.body["spec"]["template"]["metadata"]];
        for metadata in templates.into_iter().filter(|metadata| !metadata.is_null()) {
            assert_eq!(metadata["labels"]["team"], "shop", "{:?}", managed.key());
            assert_eq!(metadata["annotations"]["example.com/cost"], "42", "{:?}", managed.key());
        }
        assert_eq!(managed.body["metadata"]["ownerReferences"][0]["uid"], "0000-1111");
    }
}

/// Nothing but this tells that a field is to be taken away.
#[test]
fn what_is_no_longer_written_shows() {
    let with = fs::read_to_string("tests/planes/in-the-hosts-network.in.yaml").expect("a text");
    let written = |source: &str| -> Vec<Json> {
        let objects = objects(source).into_iter();
        objects.map(|managed| managed.body["metadata"]["annotations"][WRITTEN_ANNOTATION].clone()).collect()
    };
    let without = with.replace(", nodeSelector: {edge: \"true\"}", "");
    assert_ne!(with, without);
    assert_eq!(written(&with), written(&with));
    let pairs: Vec<_> = written(&with).into_iter().zip(written(&without)).collect();
    assert_eq!(pairs.iter().filter(|(before, after)| before != after).count(), 1, "{pairs:?}");
}

/// What is generated must itself be readable where it is of a kind that we read.
#[test]
fn services_are_valid() {
    for entry in fs::read_dir("tests/planes").expect("the cases are there") {
        let path = entry.expect("the folder can be read").path();
        if !path.to_string_lossy().ends_with(".in.yaml") {
            continue;
        }
        for managed in objects(&fs::read_to_string(&path).expect("a text")) {
            if managed.kind == ManagedKind::Service {
                let reading = read_object(&Node::from(&managed.body));
                assert!(matches!(reading.object, Some(Object::Service(_))), "{:?}", reading.problems);
                assert!(reading.problems.is_empty(), "{:?}", reading.problems);
            }
        }
    }
}
