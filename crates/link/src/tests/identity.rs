//! Who gets in, who does not, and that changes of certificates break nothing.

use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};
use tonic::Code;

use super::plans::*;
use super::raw::Raw;
use super::stage::*;
use crate::{Trust, *};

fn identity(pod: &str) -> ProxyIdentity {
    ProxyIdentity { gateway: gateway(), pod: pod.to_owned() }
}

fn is_note(wanted: &Note) -> impl Fn(&Seen) -> Option<()> {
    move |seen| seen.notes.contains(wanted).then_some(())
}

#[tokio::test]
async fn nobody_follows_without_a_certificate_of_ours() {
    let own = authority();
    let bundle = own.certificate_pem();
    let controller = Controller::start(again(&own)).await;
    controller.publisher.publish(version(1, &plan(&gateway(), 1)));
    let error = Raw::connect(controller.address, &bundle, None).await.unwrap().follow(1).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");

    let key = KeyPair::generate().unwrap();
    let request = CertificateParams::default().serialize_request(&key).unwrap();
    let hour = Duration::from_secs(3600);
    // Of another authority, and one that has expired.
    let (foreign, _) = authority().proxy(&identity("a"), request.der(), hour).unwrap();
    let (expired, _) = own.proxy(&identity("a"), request.der(), Duration::from_nanos(1)).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for certificate in [foreign, expired] {
        let refused = match Raw::connect(controller.address, &bundle, Some((certificate, &key))).await {
            Ok(raw) => raw.follow(1).await.map(|_| ()).is_err(),
            Err(_) => true,
        };
        assert!(refused);
    }
    let (good, _) = own.proxy(&identity("a"), request.der(), hour).unwrap();
    let raw = Raw::connect(controller.address, &bundle, Some((good, &key))).await.unwrap();
    assert!(raw.follow(1).await.is_ok());
}

#[tokio::test]
async fn a_data_plane_trusts_only_its_controllers() {
    let controller = Controller::start(authority()).await;
    let other = authority().certificate_pem();
    let proxy = Start::new(controller.address, &other, "default/gw/a").run();
    proxy.lost("certificate").await;
}

#[tokio::test]
async fn a_token_must_be_good_and_its_own() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let controller = Controller::start(authority).await;
    let nobody = Start::new(controller.address, &bundle, "nobody").run();
    nobody.lost("this token is nobody's").await;
    let other = Start::new(controller.address, &bundle, "default/gw/a")
        .change(|options| options.name = "b".to_owned())
        .run();
    other.lost("the token is that of a, not of b").await;
    let odd = Start::new(controller.address, &bundle, "default/gw/A").run();
    odd.lost("not a name").await;
    let none = Start::new(controller.address, &bundle, "").run();
    none.lost("is empty").await;
}

#[tokio::test]
async fn a_token_is_read_again() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let mut controller = Controller::start(authority).await;
    controller.publisher.publish(version(1, &plan(&gateway(), 1)));
    let proxy = Start::new(controller.address, &bundle, "a").run();
    proxy.lost("nobody's").await;
    std::fs::write(proxy.file("token"), "default/gw/a").unwrap();
    controller.served(1).await;
}

#[tokio::test]
async fn enrolments_have_a_bound() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let limits = Limits { enrolments_at_once: 1, enrolments_per_second: 0, ..Limits::default() };
    let mut controller = Controller::start_with(authority, limits).await;
    controller.publisher.publish(version(1, &plan(&gateway(), 1)));
    let _first = Start::new(controller.address, &bundle, "default/gw/a").run();
    controller.served(1).await;
    let second = Start::new(controller.address, &bundle, "default/gw/b").run();
    second.lost("too many").await;
}

#[tokio::test]
async fn certificates_are_renewed_and_no_stream_breaks() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let lifetime = Duration::from_secs(3);
    let limits = Limits { proxy_certificate: lifetime, grace: Duration::ZERO, ..Limits::default() };
    let mut controller = Controller::start_with(authority, limits).await;
    controller.publisher.publish(version(1, &plan(&gateway(), 1)));
    let start = Instant::now();
    let proxy = Start::new(controller.address, &bundle, "default/gw/a").run();
    controller.served(1).await;
    let renewed =
        |seen: &Seen| (seen.notes.iter().filter(|note| **note == Note::Renewed).count() >= 3).then_some(());
    proxy.until("three renewals", renewed).await;
    assert!(start.elapsed() > lifetime, "the first certificate has run out by now");
    controller.publisher.publish(version(2, &plan(&gateway(), 2)));
    controller.served(2).await;
    assert!(!proxy.was_lost());

    // Who cannot renew is not let stay.
    std::fs::write(proxy.file("token"), "nobody").unwrap();
    proxy.lost("certificate has expired").await;
    assert_eq!(proxy.look(|seen| seen.plan.clone()), plan(&gateway(), 2));
}

#[tokio::test]
async fn authorities_are_replaced_and_no_stream_breaks() {
    let (old, new) = (authority(), authority());
    let (old_pem, new_pem) = (old.certificate_pem(), new.certificate_pem());
    let mut controller = Controller::start(old).await;
    controller.publisher.publish(version(1, &plan(&gateway(), 1)));
    let proxy = Start::new(controller.address, &old_pem, "default/gw/a").run();
    controller.served(1).await;
    controller.server.trust(Trust::new(again(&new)).and(&old_pem).unwrap()).unwrap();
    controller.publisher.publish(version(2, &plan(&gateway(), 2)));
    controller.served(2).await;
    // Those who come later have the new bundle.
    let later = Start::new(controller.address, &new_pem, "default/gw/b").run();
    let report = controller.served(2).await;
    assert_eq!(report.proxy, "b");
    assert!(!proxy.was_lost() && !later.was_lost());
    // And those who know only the old one are told.
    let late = Start::new(controller.address, &old_pem, "default/gw/c").run();
    late.lost("certificate").await;
    std::fs::write(late.file("ca.pem"), format!("{old_pem}{new_pem}")).unwrap();
    let report = controller.served(2).await;
    assert_eq!(report.proxy, "c");
    controller.server.trust(Trust::new(new)).unwrap();
    controller.publisher.publish(version(3, &plan(&gateway(), 3)));
    for _ in 0..3 {
        controller.served(3).await;
    }
    assert!(!proxy.was_lost(), "streams outlive the authority that made them, until their certificate ends");
    proxy.until("no renewal was due", |seen| is_note(&Note::Renewed)(seen).is_none().then_some(())).await;
}

#[tokio::test]
async fn a_gateway_has_so_many_data_planes() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let limits = Limits { streams_per_gateway: 1, ..Limits::default() };
    let mut controller = Controller::start_with(authority, limits).await;
    controller.publisher.publish(version(1, &plan(&gateway(), 1)));
    let first = Start::new(controller.address, &bundle, "default/gw/a").run();
    controller.served(1).await;
    let second = Start::new(controller.address, &bundle, "default/gw/b").run();
    second.lost("too many data planes").await;
    drop(first);
    controller.event("end of the first", |event| (*event == Event::Gone(identity("a"))).then_some(())).await;
    assert_eq!(controller.served(1).await.proxy, "b");
}
