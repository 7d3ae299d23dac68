//! What a translation costs: everything at once, one route of many, and the memory a route takes.
//!
//! `cargo bench -p tidegate-translate`

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use tidegate_api::{Node, Object, read_object};
use tidegate_translate::{Change, Resources, Settings, Translator, translate};

fn object(value: &Value) -> Object {
    read_object(&Node::from(value)).object.expect("the benchmark's objects are right")
}

fn route(index: usize, path: &str) -> Object {
    object(&json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": format!("route-{index}")},
        "spec": {
            "parentRefs": [{"name": "web"}],
            "hostnames": [format!("host-{index}.example.com")],
            "rules": [{
                "matches": [{"path": {"type": "PathPrefix", "value": path}}],
                "backendRefs": [{"name": format!("service-{}", index % 500), "port": 80}]
            }]
        }
    }))
}

fn world(routes: usize) -> Resources {
    let mut resources = Resources::default();
    resources.insert(object(&json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "tidegate"},
        "spec": {"controllerName": "gateway.tidegate.io/controller"}
    })));
    resources.insert(object(&json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "web"},
        "spec": {"gatewayClassName": "tidegate", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}
    })));
    for index in 0..500 {
        let name = format!("service-{index}");
        resources.insert(object(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"name": "web", "port": 80}]}
        })));
        resources.insert(object(&json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("{name}-slice"), "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "web", "port": 8080}], "endpoints": [{"addresses": ["10.0.0.1"]}]
        })));
    }
    for index in 0..routes {
        resources.insert(route(index, "/"));
    }
    resources
}

/// Asked before anything else, while the allocator has nothing to hand out again.
fn print_memory(routes: usize) {
    let resources = world(routes);
    let before = resident_kilobytes();
    let mut translator = Translator::new(Settings::folder());
    translator.apply(resources.iter().map(Change::Upsert));
    let grown = resident_kilobytes().saturating_sub(before);
    println!(
        "memory of {routes} routes: {grown} KB, {:.1} KB a route (the objects themselves not counted)",
        grown as f64 / routes as f64
    );
    drop(translator);
}

fn benchmarks(criterion: &mut Criterion) {
    print_memory(10_000);
    let mut group = criterion.benchmark_group("translate");
    group.sample_size(10);
    for routes in [100, 10_000] {
        let resources = world(routes);
        group.bench_with_input(BenchmarkId::new("everything", routes), &resources, |bencher, resources| {
            bencher.iter(|| translate(black_box(resources), &Settings::folder()));
        });
        let mut translator = Translator::new(Settings::folder());
        translator.apply(resources.iter().map(Change::Upsert));
        let mut turn = 0;
        group.bench_function(BenchmarkId::new("one route", routes), |bencher| {
            bencher.iter_batched(
                || {
                    turn += 1;
                    Change::Upsert(route(7, if turn % 2 == 0 { "/even" } else { "/odd" }))
                },
                |change| black_box(translator.apply([change])),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// What the process holds, as the kernel counts it.
fn resident_kilobytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0)
}

criterion_group!(benches, benchmarks);
criterion_main!(benches);
