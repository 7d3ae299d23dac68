//! The fuzz target's body as an ordinary test: over requests of every kind, and over thousands of mutations of them.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod body;

use proptest::prelude::*;
use proptest::sample::Index;

const REQUESTS: [&str; 14] = [
    "GET /a/b?c=d 1.1\nhost: a.test\naccept: */*",
    "GET /a/../b//%2e%2e/%2f?c=//.. 1.1\nhost: a.test:8080",
    "GET http://a.test/a/./b 1.1\nhost: a.test",
    "OPTIONS * 1.1\nhost: a.test",
    "GET / 1.0",
    "POST https://a.test/a 2\nte: trailers\ncontent-type: application/grpc+proto",
    "CONNECT a.test:443 1.1\nhost: a.test:443",
    "GET /a 1.1\nhost: a.test\nconnection: keep-alive, x-a, Upgrade\nupgrade: websocket\nx-a: 1\nkeep-alive: 5",
    "GET /a 1.1\nhost: a.test\nx-forwarded-for: 1.1.1.1\nx-forwarded-for: 2.2.2.2\nforwarded: for=x",
    "GET /a 1.1\nhost: a.test\nconnection: x-forwarded-for, host, content-length\ncontent-length: 5",
    "OPTIONS /a 1.1\nhost: a.test\norigin: https://b.test\naccess-control-request-method: PUT\naccess-control-request-headers: x-a",
    "GET /a/c 1.1\nhost: a.test\norigin: https://b.test:443\ncookie: a=b",
    "GET /{id}/%c3%a4 1.1\nhost: [::1]:80\nte: gzip, trailers\nproxy-authorization: Basic x",
    "GET /a 1.1\nhost: a.test\nhost: b.test\ntransfer-encoding: chunked\ncontent-length: 1",
];

#[test]
fn every_request_holds() {
    REQUESTS.iter().for_each(|request| body::check(request.as_bytes()));
}

#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Remove(Index, usize),
    Insert(Index, &'static str),
    /// A piece of another request.
    Splice(Index, Index, Index, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let words = vec![
        "/",
        "//",
        "/..",
        "/.",
        "%2f",
        "%2E",
        "%00",
        "%",
        "\\",
        "?",
        "#",
        "*",
        "@",
        ":",
        "[::1]",
        "\u{e4}",
        "\0",
        "\r",
        "\n",
        "\nhost: b.test",
        "\nconnection: host",
        "\nte: trailers",
        "\norigin: null",
        ", ",
        "\t",
        "2",
        "1.0",
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Edit::Flip(at, byte)),
        (any::<Index>(), 1..20usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        (any::<Index>(), prop::sample::select(words)).prop_map(|(at, word)| Edit::Insert(at, word)),
        (any::<Index>(), any::<Index>(), any::<Index>(), 1..40usize)
            .prop_map(|(at, other, from, length)| Edit::Splice(at, other, from, length)),
    ]
}

fn apply(edit: &Edit, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match edit {
        Edit::Flip(at, byte) => bytes[at.index(length)] = *byte,
        Edit::Remove(at, count) => {
            let at = at.index(length);
            bytes.drain(at..(at + count).min(length));
        }
        Edit::Insert(at, word) => {
            let at = at.index(length);
            bytes.splice(at..at, word.bytes());
        }
        Edit::Splice(at, other, from, count) => {
            let other = REQUESTS[other.index(REQUESTS.len())].as_bytes();
            let from = from.index(other.len());
            let piece = other[from..(from + count).min(other.len())].to_vec();
            let at = at.index(length);
            bytes.splice(at..at, piece);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_requests_hold(which in any::<Index>(), edits in prop::collection::vec(edit(), 1..6)) {
        let mut bytes = REQUESTS[which.index(REQUESTS.len())].as_bytes().to_vec();
        edits.iter().for_each(|edit| apply(edit, &mut bytes));
        body::check(&bytes);
    }
}
