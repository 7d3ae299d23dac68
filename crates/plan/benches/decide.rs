//! What a decision costs, with few and with many names and routes.
//!
//! Names are asked for at random, so that tables that do not fit into a cache pay for it. The questions themselves
//! are made just before they are asked, a few at a time and out of the measured time, whatever the number of names:
//! they are at hand as a ClientHello is that was just read, and take no part of the caches from the tables.

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use support::*;
use tidegate_plan::*;

fn server_names(c: &mut Criterion) {
    let mut bench = c.benchmark_group("sni");
    for count in [10, 1_000, 100_000] {
        let routes = tables_of(count, |n| format!("host-{n:05}.apps.example.com"));
        let names = Asked::new(count, |n| format!("host-{n:05}.apps.example.com"));
        bench
            .bench_function(BenchmarkId::new("exact", count), |b| names.each(b, |name| admit(&routes, name)));

        // The same tables, of which only a thousand names are asked for: what is left is the cost of the lookup
        // itself without that of reading memory that was not read for long.
        if count == 100_000 {
            let busy = Asked::new(1_000, |n| format!("host-{:05}.apps.example.com", n * 97));
            bench.bench_function("exact/1000-busy-of-100000", |b| busy.each(b, |name| admit(&routes, name)));
        }

        // One in four exact, the others wildcards of three depths, asked for from two labels below: each lookup
        // misses the exact names first, and most of them a wildcard of another depth.
        let under = ["", "deep.", "very.deep."];
        let mixed = |n: usize| match n % 4 {
            0 => format!("host-{n:05}.apps.example.com"),
            depth => format!("*.host-{n:05}.{}apps.example.com", under[depth - 1]),
        };
        let wildcards = tables_of(count, mixed);
        let names = Asked::new(count, |n| mixed(n + usize::from(n % 4 == 0)).replace('*', "a.b"));
        bench.bench_function(BenchmarkId::new("wildcard", count), |b| {
            names.each(b, |name| admit(&wildcards, name));
        });

        // The exact ones of the same tables: whether they pay for wildcards that they do not need.
        let names = Asked::new(count.div_ceil(4), |n| mixed(n * 4));
        bench.bench_function(BenchmarkId::new("exact-beside-wildcards", count), |b| {
            names.each(b, |name| admit(&wildcards, name));
        });

        let each = |n: usize| format!("host-{n:05}.apps.example.com");
        let listeners = (0..count).map(|n| passthrough(&format!("l{n}"), &each(n)));
        let routes = (0..count).map(|n| tls_route(&format!("r{n}"), &format!("l{n}"), &[&each(n)]));
        let tables = tables(listeners.chain(routes));
        let names = Asked::new(count, each);
        bench.bench_function(BenchmarkId::new("listener-each", count), |b| {
            names.each(b, |name| admit(&tables, name));
        });
    }
}

fn tables_of(count: usize, name: impl Fn(usize) -> String) -> Tables {
    let routes = (0..count).map(|n| tls_route(&format!("r{n}"), "tls", &[&name(n)]));
    tables(routes.chain([passthrough("tls", "")]))
}

fn admit(tables: &Tables, name: &str) -> bool {
    tables.admit(&hello_to(([10, 0, 0, 1], 443).into(), Some(name)), &mut ()).is_ok()
}

fn requests(c: &mut Criterion) {
    let mut bench = c.benchmark_group("http");
    for count in [10, 10_000] {
        let route =
            |n: usize, host: &str, path: HttpMatch| http_route(&format!("r{n}"), "web", &[host], &[&[path]]);
        let build = |route: &dyn Fn(usize) -> Body| tables((0..count).map(route).chain([http("web", "")]));

        let tables = build(&|n| route(n, &format!("host-{n:05}.example.com"), prefix("/")));
        let hosts = Asked::new(count, |n| format!("host-{n:05}.example.com"));
        bench.bench_function(BenchmarkId::new("hosts", count), |b| {
            hosts.each(b, |host| ask(&tables, &get(host, "/a/b/c")));
        });

        let tables = build(&|n| route(n, "example.com", exact(&format!("/shop/item-{n:05}"))));
        let paths = Asked::new(count, |n| format!("/shop/item-{n:05}"));
        bench.bench_function(BenchmarkId::new("exact-paths", count), |b| {
            paths.each(b, |path| ask(&tables, &get("example.com", path)));
        });

        let tables = build(&|n| route(n, "example.com", prefix(&format!("/shop/item-{n:05}"))));
        let paths = Asked::new(count, |n| format!("/shop/item-{n:05}/details/large"));
        bench.bench_function(BenchmarkId::new("prefixes", count), |b| {
            paths.each(b, |path| ask(&tables, &get("example.com", path)));
        });
    }
}

fn ask(tables: &Tables, request: &Request<'_>) -> bool {
    let inbound = Inbound { local: ([10, 0, 0, 1], 80).into(), https: None };
    tables.matched(&inbound, request, &mut ()).is_ok()
}

fn updates(c: &mut Criterion) {
    let mut bench = c.benchmark_group("update");
    for count in [10, 100_000] {
        let name = |n: usize| format!("host-{n:05}.apps.example.com");
        let tables = tables_of(count, name);
        let one = Arc::new(Fragment::new(tls_route("one-more", "tls", &["one-more.apps.example.com"])));
        bench.bench_function(BenchmarkId::new("tls-route", count), |b| {
            b.iter(|| tables.updated([Change::Upsert(Arc::clone(&one))]));
        });

        let routes = (0..count).map(|n| http_route(&format!("r{n}"), "web", &[&name(n)], &[&[prefix("/")]]));
        let tables = support::tables(routes.chain([http("web", "")]));
        let rules: &[&[HttpMatch]] = &[&[prefix("/a"), exact("/b")], &[prefix("/")]];
        let one =
            Arc::new(Fragment::new(http_route("one-more", "web", &["one-more.apps.example.com"], rules)));
        bench.bench_function(BenchmarkId::new("http-route", count), |b| {
            b.iter(|| tables.updated([Change::Upsert(Arc::clone(&one))]));
        });
    }
    let routes =
        (0..100_000).map(|n| tls_route(&format!("r{n}"), "tls", &[&format!("host-{n:05}.example.com")]));
    let plan = plan(routes.chain([passthrough("tls", "")]));
    bench.sample_size(10).bench_function("from-nothing/100000", |b| b.iter(|| Tables::new(&plan)));
}

/// Asks for one of so many names, each as likely as any other.
struct Asked<N> {
    count: usize,
    name: N,
}

impl<N: Fn(usize) -> String> Asked<N> {
    const fn new(count: usize, name: N) -> Self {
        Self { count, name }
    }

    fn each(&self, bench: &mut criterion::Bencher<'_>, ask: impl Fn(&str) -> bool) {
        assert!((0..self.count).all(|n| ask(&(self.name)(n))));
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut some = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % self.count
        };
        let mut asked = Vec::with_capacity(BATCH);
        bench.iter_custom(|times| {
            let mut took: Vec<Duration> = (0..times.div_ceil(BATCH as u64))
                .map(|_| {
                    asked.clear();
                    asked.extend((0..BATCH).map(|_| (self.name)(some())));
                    let start = Instant::now();
                    for name in &asked {
                        black_box(ask(black_box(name)));
                    }
                    start.elapsed()
                })
                .collect();
            took.sort();
            took[took.len() / 2].mul_f64(times as f64 / BATCH as f64)
        });
    }
}

/// Questions are made and answered in small batches, of which the median counts: one in which another process had
/// the core does not.
const BATCH: usize = 256;

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = server_names, requests, updates
}
criterion_main!(benches);
