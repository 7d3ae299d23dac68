//! Controllers and data planes of versions that are one apart, and of others; and data planes that do not keep up.

use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tidegate_plan::*;
use tonic::Code;

use super::plans::*;
use super::raw::{Another, Following, Raw, capabilities};
use super::stage::*;
use crate::wire::{Digest, PROTOCOL, proto};
use crate::*;

async fn follow(
    controller: &Controller,
    authority: &Authority,
    protocol: u32,
) -> Result<Following, tonic::Status> {
    let key = KeyPair::generate().unwrap();
    let request = CertificateParams::default().serialize_request(&key).unwrap();
    let identity = ProxyIdentity { gateway: gateway(), pod: "raw".to_owned() };
    let (certificate, _) = authority.proxy(&identity, request.der(), Duration::from_secs(3600)).unwrap();
    let bundle = authority.certificate_pem();
    Raw::connect(controller.address, &bundle, Some((certificate, &key))).await.unwrap().follow(protocol).await
}

#[tokio::test]
async fn a_newer_data_plane_follows_an_older_controller() {
    let authority = authority();
    let mut controller = Controller::start(again(&authority)).await;
    controller.publisher.publish(version(4, &plan(&gateway(), 1)));
    let mut newer = follow(&controller, &authority, PROTOCOL + 1).await.unwrap();
    let batch = newer.batch().await;
    assert!(batch.last);
    newer.answer(&batch).await;
    controller.served(4).await;
    let error = follow(&controller, &authority, PROTOCOL + 2).await.err().unwrap();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
}

/// A batch as tomorrow's controller may write it: unknown fields, an unknown capability, an unknown kind of fragment.
fn of_tomorrow() -> proto::Batch {
    let item = |id: serde_json::Value, needs: &[&str], body: serde_json::Value| {
        let content = serde_json::to_vec(&body).unwrap();
        proto::Item {
            kind: proto::Kind::Fragment.into(),
            id: id.to_string(),
            hash: Digest::of(&content).0.to_vec(),
            needs: needs.iter().map(|&need| need.to_owned()).collect(),
            content: content.into(),
            more: false,
        }
    };
    let id = |name: &str| json!({ "gateway": { "namespace": "default", "name": "gw" }, "name": name });
    let listener = |name: &str, port: u16| json!({ "listener": { "id": id(name), "port": port, "handling": "tcp", "mood": "good" } });
    proto::Batch {
        version: 9,
        sequence: 1,
        items: vec![
            item(json!({ "Listener": id("safe") }), &["tcp"], listener("safe", 1)),
            item(json!({ "Listener": id("unsafe") }), &["tcp", "mood"], listener("unsafe", 2)),
            item(json!({ "Wormhole": "x" }), &[], json!({ "wormhole": {} })),
        ],
        removed: vec![],
        last: true,
    }
}

#[tokio::test]
async fn an_older_data_plane_follows_a_newer_controller() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let (address, mut answers, _running) = Another::start(authority, PROTOCOL + 1, of_tomorrow()).await;
    let proxy = Start::new(address, &bundle, "default/gw/a")
        .change(|options| options.capabilities = capabilities(&[Capability::Tcp]))
        .run();
    let answer = loop {
        let answer = answers.recv().await.unwrap();
        if answer.received == 1 {
            break answer;
        }
    };
    assert_eq!((answer.version, answer.failed.as_str(), answer.refused.len()), (9, "", 2));
    let seen = proxy.look(|seen| seen.plan.clone());
    let served: Vec<_> = seen.listeners().map(|of| (of.port, of.refuse.is_none())).collect();
    assert_eq!(served, [(1, true), (2, false)]);
}

#[tokio::test]
async fn versions_too_far_apart_say_so() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let (address, _answers, _running) = Another::start(authority, PROTOCOL + 2, of_tomorrow()).await;
    let proxy = Start::new(address, &bundle, "default/gw/a").run();
    proxy.lost("only versions one apart").await;
    assert_eq!(proxy.look(|seen| seen.plan.clone()), Plan::default());
}

#[tokio::test]
async fn a_slow_data_plane_skips_versions_and_holds_nobody_up() {
    let authority = authority();
    let mut controller = Controller::start(again(&authority)).await;
    let limits = 200;
    controller.publisher.publish(version(1, &plan(&gateway(), 1000)));
    let mut slow = follow(&controller, &authority, PROTOCOL).await.unwrap();
    let _quick = Start::new(controller.address, &authority.certificate_pem(), "default/gw/quick").run();
    for number in 2..=limits {
        let mut wanted = plan(&gateway(), 1000);
        add_route(&mut wanted, &format!("only-{number}"), &listener_id(&gateway(), "tcp"), &[1]);
        controller.publisher.publish(version(number, &wanted));
    }
    controller
        .event("the quick one at the newest", |event| match event {
            Event::Report(report) if report.proxy == "quick" && report.version == limits => Some(()),
            _ => None,
        })
        .await;
    // Now the slow one begins to read: it gets what was newest when it came, and then what is newest.
    let mut versions = Vec::new();
    while versions.last() != Some(&limits) {
        let batch = slow.batch().await;
        if batch.last {
            slow.answer(&batch).await;
            versions.push(batch.version);
        }
    }
    assert!(versions.len() <= 3, "{versions:?}");
}

#[tokio::test]
async fn one_that_does_not_answer_is_reported() {
    let authority = authority();
    let limits = Limits { answer_time: Duration::from_millis(50), ..Limits::default() };
    let mut controller = Controller::start_with(again(&authority), limits).await;
    controller.publisher.publish(version(3, &plan(&gateway(), 1)));
    let mut silent = follow(&controller, &authority, PROTOCOL).await.unwrap();
    let batch = silent.batch().await;
    let is_silent = |event: &Event| matches!(event, Event::Silent { version: 3, .. }).then_some(());
    controller.event("silence", is_silent).await;
    silent.answer(&batch).await;
    controller.served(3).await;
}

#[tokio::test]
async fn a_second_stream_of_a_data_plane_takes_the_place_of_the_first() {
    let authority = authority();
    let mut controller = Controller::start(again(&authority)).await;
    let mut first = follow(&controller, &authority, PROTOCOL).await.unwrap();
    let mut second = follow(&controller, &authority, PROTOCOL).await.unwrap();
    let error = first.incoming.message().await.unwrap_err();
    assert_eq!(error.code(), Code::Aborted, "{error}");
    controller.publisher.publish(version(1, &plan(&gateway(), 1)));
    let batch = second.batch().await;
    second.answer(&batch).await;
    controller.served(1).await;
}
