//! Manifests that change while traffic flows: how files are replaced, what stays, what drains.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::loopback::Tidegate;
use crate::loopback::manifests::{gateway, service, tcp, tcp_route};
use crate::loopback::traffic::{greeter, round_trip, wait_end};
use crate::support::wait_for;

const PORT: u16 = 20_001;

fn route_to(backend: SocketAddr) -> String {
    tcp_route("route", "tcp", &[("backend", 1)]) + &service("backend", &[backend])
}

/// A connection, with the name of the backend that it got to.
fn arrive(tidegate: &Tidegate) -> (TcpStream, u8) {
    let mut stream = tidegate.connect(PORT);
    let mut name = [0];
    stream.read_exact(&mut name).unwrap();
    (stream, name[0])
}

fn wait_served_by(tidegate: &Tidegate, name: u8) {
    wait_for(format!("backend {}", name as char), || (arrive(tidegate).1 == name).then_some(()));
}

#[test]
fn every_way_to_replace_a_file() {
    let (a, b) = (route_to(greeter(b'a')), route_to(greeter(b'b')));
    let edge = gateway(&[tcp("tcp", PORT)]);
    let tidegate = Tidegate::start(&[("edge.yaml", &edge), ("route.yaml", &a)], &[]);
    let (mut live, name) = arrive(&tidegate);
    assert_eq!(name, b'a');
    let file = tidegate.folder().join("route.yaml");

    tidegate.write("route.yaml", &b);
    wait_served_by(&tidegate, b'b');
    fs::write(&file, &a).unwrap();
    wait_served_by(&tidegate, b'a');
    // As editors do: a swap file, a backup, a probe for permissions; then the new file under the old name.
    fs::write(tidegate.folder().join(".route.yaml.swp"), "b0VIM 9.0\0").unwrap();
    fs::write(tidegate.folder().join("4913"), "").unwrap();
    fs::remove_file(tidegate.folder().join("4913")).unwrap();
    fs::rename(&file, tidegate.folder().join("route.yaml~")).unwrap();
    fs::write(&file, &b).unwrap();
    fs::remove_file(tidegate.folder().join("route.yaml~")).unwrap();
    fs::remove_file(tidegate.folder().join(".route.yaml.swp")).unwrap();
    wait_served_by(&tidegate, b'b');
    // A part at a time: what is open is not read.
    let mut open = fs::File::create(&file).unwrap();
    for piece in a.as_bytes().chunks(100) {
        open.write_all(piece).unwrap();
        assert_eq!(arrive(&tidegate).1, b'b');
    }
    drop(open);
    wait_served_by(&tidegate, b'a');
    round_trip(&mut live, b"all the while").unwrap();
    assert_eq!(tidegate.ended("drained"), 0);
}

/// As the kubelet does for ConfigMaps: files are links into `..data`, which is a link that is swapped.
#[test]
fn a_swapped_link_changes_all_files_at_once() {
    let (a, b) = (route_to(greeter(b'a')), route_to(greeter(b'b')));
    let tidegate = Tidegate::start(&[("edge.yaml", &gateway(&[tcp("tcp", PORT)]))], &[]);
    let folder = tidegate.folder();
    let publish = |version: &str, text: &str| {
        fs::create_dir(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("route.yaml"), text).unwrap();
        symlink(version, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    publish("..2026_1", &a);
    symlink("..data/route.yaml", folder.join("route.yaml")).unwrap();
    wait_for("the route is there", || {
        let mut stream = tidegate.connect(PORT);
        matches!(stream.read(&mut [0]), Ok(1)).then_some(())
    });
    for (version, text, name) in [("..2026_2", &b, b'b'), ("..2026_3", &a, b'a')] {
        publish(version, text);
        wait_served_by(&tidegate, name);
    }
    fs::remove_dir_all(folder.join("..2026_1")).unwrap();
    assert_eq!(arrive(&tidegate).1, b'a');
}

#[test]
fn a_bad_file_keeps_what_was_good() {
    let (a, b) = (greeter(b'a'), greeter(b'b'));
    let edge = gateway(&[tcp("tcp", PORT)]);
    let mut tidegate = Tidegate::start(&[("edge.yaml", &edge), ("route.yaml", &route_to(a))], &[]);
    let (mut live, _) = arrive(&tidegate);
    for bad in [
        "kind: [",
        &route_to(b).replace("port: 80", "port: eighty"),
        &route_to(b).replace("kind: TCPRoute", "kind: TCPRoute\n  bad: indent"),
    ] {
        tidegate.write("route.yaml", bad);
        wait_for("a problem is counted", || {
            (tidegate.metric("tidegate_manifest_problems") > 0.0).then_some(())
        });
        assert_eq!(arrive(&tidegate).1, b'a', "{bad}");
        tidegate.write("route.yaml", &route_to(a));
        wait_for("no problem", || (tidegate.metric("tidegate_manifest_problems") == 0.0).then_some(()));
    }
    tidegate.wait_told("last good state");
    round_trip(&mut live, b"not touched").unwrap();
    tidegate.write("route.yaml", &route_to(b));
    wait_served_by(&tidegate, b'b');
}

#[test]
fn a_removed_route_drains_with_a_deadline() {
    let edge = gateway(&[tcp("tcp", PORT)]);
    let tidegate =
        Tidegate::start(&[("edge.yaml", &edge), ("route.yaml", &route_to(greeter(b'a')))], &["--drain=2s"]);
    let (mut live, _) = arrive(&tidegate);
    let began = Instant::now();
    tidegate.change(|tidegate| tidegate.remove("route.yaml"));
    let mut late = tidegate.connect(PORT);
    wait_end(&mut late);
    assert_eq!(tidegate.ending_of(late.local_addr().unwrap()), "no_route");
    assert_drains(&tidegate, &mut live, began);
}

#[test]
fn a_removed_listener_drains_with_a_deadline() {
    let (with, without) =
        (gateway(&[tcp("tcp", PORT), tcp("other", PORT + 1)]), gateway(&[tcp("other", PORT + 1)]));
    let route = route_to(greeter(b'a'));
    let tidegate = Tidegate::start(&[("edge.yaml", &with), ("route.yaml", &route)], &["--drain=2s"]);
    let (mut live, _) = arrive(&tidegate);
    let began = Instant::now();
    tidegate.change(|tidegate| tidegate.write("edge.yaml", &without));
    assert!(TcpStream::connect(tidegate.at(PORT)).is_err(), "the port is closed");
    assert_drains(&tidegate, &mut live, began);
}

#[test]
fn a_removed_grant_stops_new_connections_and_drains_the_live_ones() {
    let grant = "apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: grant, namespace: other}
spec:
  from: [{group: gateway.networking.k8s.io, kind: TCPRoute, namespace: default}]
  to: [{group: \"\", kind: Service}]
";
    let text = gateway(&[tcp("tcp", PORT)])
        + &tcp_route("route", "tcp", &[("other/backend", 1)])
        + &service("other/backend", &[greeter(b'a')]);
    let tidegate = Tidegate::start(&[("all.yaml", &text), ("grant.yaml", grant)], &["--drain=2s"]);
    let (mut live, _) = arrive(&tidegate);
    let began = Instant::now();
    tidegate.change(|tidegate| tidegate.remove("grant.yaml"));
    let mut late = tidegate.connect(PORT);
    wait_end(&mut late);
    assert_eq!(tidegate.ending_of(late.local_addr().unwrap()), "backend_not_permitted");
    assert_drains(&tidegate, &mut live, began);
}

/// It is served for two seconds more, and no longer.
fn assert_drains(tidegate: &Tidegate, live: &mut TcpStream, began: Instant) {
    if began.elapsed() < Duration::from_secs(1) {
        round_trip(live, b"still served").unwrap();
    }
    wait_end(live);
    assert!(began.elapsed() > Duration::from_millis(1800), "cut off after {:?}", began.elapsed());
    assert_eq!(tidegate.ending_of(live.local_addr().unwrap()), "drained");
    assert_eq!(tidegate.limit_reached("drain_time"), 1);
    tidegate.wait_active(0);
}

#[test]
fn a_hangup_reads_what_is_not_watched() {
    let (a, b) = (route_to(greeter(b'a')), route_to(greeter(b'b')));
    let edge = gateway(&[tcp("tcp", PORT)]);
    let tidegate = Tidegate::start(&[("edge.yaml", &edge), ("route.yaml", &a)], &["--once"]);
    let (mut live, _) = arrive(&tidegate);
    tidegate.write("route.yaml", &b);
    assert_eq!(arrive(&tidegate).1, b'a');
    tidegate.signal(Signal::HUP);
    wait_served_by(&tidegate, b'b');
    round_trip(&mut live, b"not touched").unwrap();
}
