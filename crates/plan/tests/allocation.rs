//! A decision without a trace allocates nothing: shown by an allocator that counts.

// A global allocator cannot be written without it; this file is the only place.
#![allow(unsafe_code)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use support::*;
use tidegate_plan::*;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; counting is all that is added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(mut work: impl FnMut()) -> usize {
    // Once before: a pattern gets the memory it works in when it is first used.
    work();
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn admitting_and_matching_allocate_nothing() {
    let name = |n: usize| format!("host-{n}.example.com");
    let routes =
        (0..1_000).map(|n| tls_route(&format!("t{n}"), "tls", &[&name(n), &format!("*.{}", name(n))]));
    let matches = [
        exact("/a").method("POST").header("h", "a,b").query("q", "x y"),
        regex("/p[0-9]+").header("h", "~a.*"),
        prefix("/b/c"),
    ];
    let tables = tables(routes.chain([
        passthrough("tls", "*.example.com"),
        https("https", "www.example.com"),
        http("web", ""),
        http_route("h", "web", &["a.example.com", "*.example.com"], &[&matches]),
        http_route("any", "web", &[], &[&[prefix("/")]]),
        grpc_route("g", "web", &["a.example.com"], &[&[rpc("shop.Cart", "Get"), rpc("~shop.*", "*")]]),
        udp("udp", 53),
        udp_route("u", "udp"),
    ]));
    let several = [("h", "a"), ("H", "b"), ("content-type", "application/grpc")];
    let one = [("h", "abc")];
    let request = |path, query, headers| Request {
        host: Some("A.Example.com:80"),
        method: "POST",
        path,
        query: Some(query),
        headers,
    };
    let requests: [Request<'_>; 6] = [
        request("/a", "z=1&q=x%20y", &several),
        request("/p123", "", &one),
        request("/b/c/d/e", "q", &()),
        request("/shop.Cart/Get", "", &several),
        request("/shop.Other/Get", "", &several),
        request("/nothing/of/this", "", &()),
    ];
    let names = [
        "host-7.example.com",
        "X.Y.Host-7.Example.com.",
        "www.example.com",
        "unknown.example.com",
        "other.org",
    ];
    let work = || {
        for sni in names.iter().copied().map(Some).chain([None]) {
            let _ = tables.admit(&hello(sni), &mut ());
        }
        let _ = tables.admit(&bytes(53, Transport::Udp), &mut ());
        for request in &requests {
            let flow = Flow { connection: bytes(80, Transport::Tcp), request: Some(*request) };
            assert!(decide(&tables, &flow, &mut ()).is_ok());
        }
    };
    assert_eq!(allocations(work), 0);
}
