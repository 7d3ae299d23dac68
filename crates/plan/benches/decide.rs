//! What a decision costs, with few and with many names and routes.
//!
//! Names are asked for in a shuffled order, so that tables that do not fit into a cache pay for it; the names
//! themselves lie in that order in one block, as a ClientHello that was just read would be at hand.

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use support::*;
use tidegate_plan::*;

fn server_names(c: &mut Criterion) {
    let mut bench = c.benchmark_group("sni");
    for count in [10, 1_000, 100_000] {
        let routes = tables_of(count, |n| format!("host-{n}.apps.example.com"));
        let names = Asked::new(count, |n| format!("host-{n}.apps.example.com"));
        bench
            .bench_function(BenchmarkId::new("exact", count), |b| names.each(b, |name| admit(&routes, name)));

        // The same tables, of which only a thousand names are asked for: what is left is the cost of the lookup
        // itself without that of reading memory that was not read for long.
        if count == 100_000 {
            let busy = Asked::new(1_000, |n| format!("host-{}.apps.example.com", n * 97));
            bench.bench_function("exact/1000-busy-of-100000", |b| busy.each(b, |name| admit(&routes, name)));
        }

        // One in four exact, the others wildcards of three depths, asked for from two labels below: each lookup
        // misses the exact names first, and most of them a wildcard of another depth.
        let under = ["", "deep.", "very.deep."];
        let mixed = |n: usize| match n % 4 {
            0 => format!("host-{n}.apps.example.com"),
            depth => format!("*.host-{n}.{}apps.example.com", under[depth - 1]),
        };
        let wildcards = tables_of(count, mixed);
        let names = Asked::new(count, |n| mixed(n + usize::from(n % 4 == 0)).replace('*', "a.b"));
        bench.bench_function(BenchmarkId::new("wildcard", count), |b| {
            names.each(b, |name| admit(&wildcards, name));
        });

        let each = |n: usize| format!("host-{n}.apps.example.com");
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

        let tables = build(&|n| route(n, &format!("host-{n}.example.com"), prefix("/")));
        let hosts = Asked::new(count, |n| format!("host-{n}.example.com"));
        bench.bench_function(BenchmarkId::new("hosts", count), |b| {
            hosts.each(b, |host| ask(&tables, &get(host, "/a/b/c")));
        });

        let tables = build(&|n| route(n, "example.com", exact(&format!("/shop/item-{n}"))));
        let paths = Asked::new(count, |n| format!("/shop/item-{n}"));
        bench.bench_function(BenchmarkId::new("exact-paths", count), |b| {
            paths.each(b, |path| ask(&tables, &get("example.com", path)));
        });

        let tables = build(&|n| route(n, "example.com", prefix(&format!("/shop/item-{n}"))));
        let paths = Asked::new(count, |n| format!("/shop/item-{n}/details/large"));
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
        let name = |n: usize| format!("host-{n}.apps.example.com");
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
        (0..100_000).map(|n| tls_route(&format!("r{n}"), "tls", &[&format!("host-{n}.example.com")]));
    let plan = plan(routes.chain([passthrough("tls", "")]));
    bench.sample_size(10).bench_function("from-nothing/100000", |b| b.iter(|| Tables::new(&plan)));
}

/// Names to ask for, in shuffled order, one after the other in memory.
struct Asked {
    text: String,
    ends: Vec<(u32, u32)>,
}

impl Asked {
    fn new(count: usize, name: impl Fn(usize) -> String) -> Self {
        let mut order: Vec<usize> = (0..count).collect();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for last in (1..count).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(last, (random >> 33) as usize % (last + 1));
        }
        let mut asked = Self { text: String::new(), ends: Vec::new() };
        for n in order {
            let start = asked.text.len();
            asked.text += &name(n);
            asked.ends.push((start as u32, asked.text.len() as u32));
        }
        asked
    }

    fn each(&self, bench: &mut criterion::Bencher<'_>, ask: impl Fn(&str) -> bool) {
        assert!(self.ends.iter().all(|(start, end)| ask(&self.text[*start as usize..*end as usize])));
        let mut next = 0;
        bench.iter(|| {
            let (start, end) = self.ends[next];
            next = if next + 1 == self.ends.len() { 0 } else { next + 1 };
            black_box(ask(&self.text[start as usize..end as usize]))
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(std::time::Duration::from_millis(500)).measurement_time(std::time::Duration::from_secs(2));
    targets = server_names, requests, updates
}
criterion_main!(benches);
