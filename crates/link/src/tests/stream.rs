//! Plans on their way, and what comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_plan::*;

use super::plans::*;
use super::stage::*;
use crate::*;

#[tokio::test]
async fn a_snapshot_and_then_only_what_changes() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let mut controller = Controller::start(authority).await;
    let mut wanted = plan(&gateway(), 3);
    add_terminating(&mut wanted, &gateway(), "tls", b"key");
    controller.publisher.publish(version(1, &wanted));
    let proxy = Start::new(controller.address, &bundle, "default/gw/a").run();
    let report = controller.served(1).await;
    assert_eq!((&*report.proxy, report.failed, report.refused.len()), ("a", None, 0));
    assert_eq!(report.listeners.len(), 2);
    assert!(report.listeners.values().all(Result::is_ok));
    assert_eq!(proxy.look(|seen| seen.plan.clone()), wanted);

    // Endpoints travel alone, empty ones too.
    wanted.endpoints.insert(endpoints_id("web-1"), endpoints("web-1", &[]));
    controller.publisher.publish(version(2, &wanted));
    controller.served(2).await;
    let endpoints = [endpoints_id("web-1")].into();
    let expected = Changed { endpoints, ..Changed::default() };
    assert_eq!(proxy.look(|seen| seen.changes.last().cloned()), Some(expected));

    let gone = RouteId { kind: RouteKind::Tcp, object: ObjectName::new("default", "web-0") };
    wanted.fragments.remove(&FragmentId::Route(gone.clone()));
    wanted.fragments.remove(&FragmentId::Listener(listener_id(&gateway(), "tls")));
    wanted.blobs.clear();
    let mut next = version(3, &wanted);
    next.settings.log_level = Some(LogLevel::Warning);
    next.settings.bounds.connections = Some(5);
    controller.publisher.publish(next.clone());
    controller.served(3).await;
    let seen = proxy.look(Clone::clone);
    assert_eq!((seen.plan, seen.settings), (wanted, next.settings));
    let fragments = [FragmentId::Listener(listener_id(&gateway(), "tls")), FragmentId::Route(gone)].into();
    let expected = Changed { fragments, settings: true, ..Changed::default() };
    assert_eq!(seen.changes.last(), Some(&expected));
}

#[tokio::test]
async fn a_listener_that_fails_later_is_told() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let mut controller = Controller::start(authority).await;
    controller.publisher.publish(version(1, &plan(&gateway(), 0)));
    let proxy = Start::new(controller.address, &bundle, "default/gw/a").run();
    controller.served(1).await;
    let id = listener_id(&gateway(), "tcp");
    proxy.listener_becomes(&id, Some("port 9000 is taken"));
    let is = |wanted: Result<(), String>| {
        let id = id.clone();
        move |event: &Event| match event {
            Event::Report(report) if report.listeners.get(&id) == Some(&wanted) => Some(report.version),
            _ => None,
        }
    };
    assert_eq!(controller.event("failure", is(Err("port 9000 is taken".to_owned()))).await, 1);
    proxy.listener_becomes(&id, None);
    assert_eq!(controller.event("recovery", is(Ok(()))).await, 1);
}

#[tokio::test]
async fn after_a_break_only_differences_travel() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let mut controller = Controller::start(again(&authority)).await;
    let address = controller.address;
    let mut wanted = plan(&gateway(), 50);
    controller.publisher.publish(version(7, &wanted));
    let proxy = Start::new(address, &bundle, "default/gw/a").run();
    controller.served(7).await;
    controller.server.stop().await;
    assert_eq!(controller.reports.next().await.map(|event| matches!(event, Event::Gone(_))), Some(true));
    assert_eq!(controller.reports.next().await, None);
    proxy.lost("").await;
    assert_eq!(proxy.look(|seen| seen.plan.clone()), wanted, "it goes on with what it has");

    // Another controller counts anew, and has one route more and one less.
    let mut controller = Controller::start_at(address, authority, Limits::default()).await;
    let gone = RouteId { kind: RouteKind::Tcp, object: ObjectName::new("default", "web-7") };
    wanted.fragments.remove(&FragmentId::Route(gone.clone()));
    add_route(&mut wanted, "more", &listener_id(&gateway(), "tcp"), &[1]);
    controller.publisher.publish(version(1, &wanted));
    controller.served(1).await;
    let seen = proxy.look(Clone::clone);
    assert_eq!(seen.plan, wanted);
    let changed = seen.changes.last().unwrap();
    assert_eq!((changed.fragments.len(), changed.endpoints.len(), changed.settings), (3, 1, false));
    assert!(changed.fragments.contains(&FragmentId::Route(gone)));
}

#[tokio::test]
async fn a_batch_that_is_not_whole_is_not_taken() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let mut controller = Controller::start(authority).await;
    let good = plan(&gateway(), 1);
    controller.publisher.publish(version(1, &good));
    let proxy = Start::new(controller.address, &bundle, "default/gw/a").run();
    controller.served(1).await;
    let mut bad = plan(&gateway(), 5);
    bad.blobs.insert(BlobId("0123".into()), Arc::new(Blob::Bundle(vec![b"of another".to_vec()])));
    controller.publisher.publish(version(2, &bad));
    let failed = |event: &Event| match event {
        Event::Report(report) => report.failed.clone().map(|why| (report.version, why)),
        _ => None,
    };
    let (served, why) = controller.event("failure", failed).await;
    assert_eq!((served, why.contains("0123")), (1, true), "{why}");
    assert_eq!(proxy.look(|seen| seen.plan.clone()), good);
    bad.blobs.clear();
    controller.publisher.publish(version(3, &bad));
    assert_eq!(controller.served(3).await.failed, None);
    assert_eq!(proxy.look(|seen| seen.plan.clone()), bad);
}

#[tokio::test]
async fn what_a_data_plane_cannot_do_it_refuses_and_the_rest_serves() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let mut controller = Controller::start(authority).await;
    let mut wanted = plan(&gateway(), 1);
    wanted.insert(listener(&gateway(), "udp", 53, Handling::Udp));
    controller.publisher.publish(version(1, &wanted));
    let proxy = Start::new(controller.address, &bundle, "default/gw/a")
        .change(|options| _ = options.capabilities.remove(&Capability::Udp))
        .run();
    let report = controller.served(1).await;
    let id = listener_id(&gateway(), "udp");
    let why = &report.refused[&FragmentId::Listener(id.clone())];
    assert!(why.contains("udp"), "{why}");
    assert_eq!(report.listeners[&id].as_ref(), Err(why));
    assert_eq!(report.listeners[&listener_id(&gateway(), "tcp")], Ok(()));
    let refusing = proxy.look(|seen| seen.plan.listeners().find(|of| of.id == id).unwrap().refuse);
    assert_eq!(refusing, Some(Reason::ListenerInvalid));

    wanted.fragments.remove(&FragmentId::Listener(id));
    controller.publisher.publish(version(2, &wanted));
    assert!(controller.served(2).await.refused.is_empty());
}

#[tokio::test]
async fn each_gateway_has_its_own() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let mut controller = Controller::start(authority).await;
    let other = ObjectName::new("default", "other");
    let (own, others) = (plan(&gateway(), 1), plan(&other, 2));
    controller.publisher.publish(version(1, &own));
    controller.publisher.publish(GatewayPlan { gateway: other, ..version(1, &others) });
    let one = Start::new(controller.address, &bundle, "default/gw/a").run();
    let two = Start::new(controller.address, &bundle, "default/other/a").run();
    controller.served(1).await;
    controller.served(1).await;
    assert_eq!(one.look(|seen| seen.plan.clone()), own);
    assert_eq!(two.look(|seen| seen.plan.clone()), others);
    controller.publisher.forget(&gateway());
    assert_eq!(one.look(|seen| seen.plan.clone()), own, "it is ended by others");
}

#[tokio::test]
async fn the_last_plan_can_be_kept_without_its_keys() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let folder = tempfile::tempdir().unwrap();
    let keep = |options: &mut ClientOptions| options.cache = Some(folder.path().join("cache"));
    let mut controller = Controller::start(again(&authority)).await;
    let address = controller.address;
    let mut wanted = plan(&gateway(), 2);
    add_terminating(&mut wanted, &gateway(), "tls", b"a very private key");
    let secret = Some(SharedSecret::new([0xab; 32]));
    let settings = DataPlaneSettings { secret: secret.clone(), ..DataPlaneSettings::default() };
    let published = GatewayPlan { settings, ..version(1, &wanted) };
    controller.publisher.publish(published.clone());
    let proxy = Start::new(address, &bundle, "default/gw/a").change(keep).run();
    controller.served(1).await;
    let file = folder.path().join("cache/plan");
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(proxy);
    controller.server.stop().await;
    let written = std::fs::read(&file).unwrap();
    assert!(!written.windows(12).any(|window| window == b"very private"), "a key is on the disk");
    assert!(!written.windows(12).any(|window| window == b"abababababab"), "the secret is on the disk");

    let proxy = Start::new(address, &bundle, "default/gw/a").change(keep).run();
    proxy.until(Note::Restored, |seen| seen.notes.contains(&Note::Restored).then_some(())).await;
    let seen = proxy.look(|seen| seen.plan.clone());
    assert_eq!((&seen.fragments, &seen.endpoints), (&wanted.fragments, &wanted.endpoints));
    assert!(seen.blobs.is_empty());
    assert_eq!(proxy.look(|seen| seen.settings.secret.clone()), None);
    let mut controller = Controller::start_at(address, authority, Limits::default()).await;
    controller.publisher.publish(published);
    controller.served(1).await;
    let seen = proxy.look(Clone::clone);
    assert_eq!(seen.plan, wanted);
    // The listener has its key now, and is looked at again.
    let fragments = [FragmentId::Listener(listener_id(&gateway(), "tls"))].into();
    assert_eq!(seen.changes.last(), Some(&Changed { fragments, settings: true, ..Changed::default() }));
    assert_eq!(seen.settings.secret, secret);
}

#[tokio::test]
async fn a_file_that_is_no_plan_is_not_used() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan"), b"tidegate plan 1\n\xff\xff").unwrap();
    let mut controller = Controller::start(authority).await;
    controller.publisher.publish(version(1, &plan(&gateway(), 1)));
    let proxy = Start::new(controller.address, &bundle, "default/gw/a")
        .change(|options| options.cache = Some(folder.path().to_owned()))
        .run();
    controller.served(1).await;
    proxy.look(|seen| assert!(matches!(seen.notes[0], Note::NotRestored(_)), "{:?}", seen.notes));
}

/// The figures are for docs/link.md: `cargo test -p tidegate-link --release many_fragments -- --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_fragments() {
    let routes = std::env::var("ROUTES").map_or(10_000, |routes| routes.parse().unwrap());
    let authority = authority();
    let bundle = authority.certificate_pem();
    let mut controller = Controller::start(authority).await;
    let mut wanted = plan(&gateway(), routes);
    let start = Instant::now();
    controller.publisher.publish(version(1, &wanted));
    let proxy = Start::new(controller.address, &bundle, "default/gw/a").run();
    controller.served(1).await;
    println!("{} fragments, first: {:?}", wanted.fragments.len(), start.elapsed());
    assert_eq!(proxy.look(|seen| seen.plan.clone()), wanted);
    let start = Instant::now();
    add_route(&mut wanted, "more", &listener_id(&gateway(), "tcp"), &[1]);
    controller.publisher.publish(version(2, &wanted));
    controller.served(2).await;
    println!("one route more: {:?}", start.elapsed());
    assert_eq!(proxy.look(|seen| seen.changes.last().unwrap().fragments.len()), 2);
}

#[tokio::test]
async fn a_challenge_is_shown_by_those_that_can_and_refused_by_others() {
    let authority = authority();
    let bundle = authority.certificate_pem();
    let mut controller = Controller::start(authority).await;
    let blob = Blob::Key(CertifiedKey { chain: vec![vec![1]], key: vec![2] });
    let name = Hostname::parse("a.example.com").unwrap();
    let without = plan(&gateway(), 1);
    let mut wanted = without.clone();
    wanted.insert(Body::Challenge(Challenge { name: name.clone(), proof: Proof::Certificate(blob.id()) }));
    wanted.blobs.insert(blob.id(), Arc::new(blob));
    controller.publisher.publish(version(1, &wanted));
    let able = Start::new(controller.address, &bundle, "default/gw/able").run();
    assert!(controller.served(1).await.refused.is_empty());
    assert_eq!(able.look(|seen| seen.plan.clone()), wanted);

    let older = Start::new(controller.address, &bundle, "default/gw/older")
        .change(|options| _ = options.capabilities.remove(&Capability::AcmeChallenges))
        .run();
    let of_older = |event: &Event| match event {
        Event::Report(report) if report.proxy == "older" && report.version == 1 => {
            Some(report.refused.clone())
        }
        _ => None,
    };
    let refused = controller.event("a refusal", of_older).await;
    assert_eq!(refused.keys().collect::<Vec<_>>(), [&FragmentId::Challenge(name)]);
    assert_eq!(older.look(|seen| seen.plan.fragments.clone()), without.fragments, "all else is served");

    controller.publisher.publish(version(2, &without));
    for proxy in [able, older] {
        proxy.until("it is over", |seen| (seen.plan == without).then_some(())).await;
    }
}
