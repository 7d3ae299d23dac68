//! The fuzz target's body as an ordinary test: over messages of every kind, and over thousands of mutations of them.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod body;
#[path = "../mutated/mod.rs"]
mod mutated;

use proptest::prelude::*;

const MESSAGES: [&str; 14] = [
    "GET http://a.test/a?b=c 2\naccept: */*\ncookie: a=1\ncookie: b=2",
    "POST https://a.test/a 2\nte: trailers\ncontent-type: application/grpc\n\nhello|there\n\ngrpc-status: 0\nx-a: 1",
    "PUT https://a.test:8443/a/../b//c 2\ncontent-length: 10\nhost: a.test:8443\n\n01234|56789",
    "GET /a 1.1\nhost: a.test\nconnection: x-a, keep-alive\nx-a: 1\nx-b:\t 2 \t",
    "POST /a 1.1\nhost: a.test\ntransfer-encoding: chunked\ntrailer: x-sum\n\n0\r\n\r\nGET / HTTP/1.1\r\n|\n\nx-sum: 1\ncontent-length: 5",
    "OPTIONS * 1.1\nhost: a.test\ncontent-length: 5\n\nhello",
    "DELETE / 1.0\ncontent-length: 0",
    "200\ncontent-type: text/plain\ncontent-length: 10\n\nhello|there",
    "200\ntrailer: x-sum\nconnection: close\n\n|a||bc\n\nx-sum: 1\nx-sum: 2",
    "204\ncontent-length: 5\nset-cookie: a\nset-cookie: b",
    "304\ncontent-length: 5\netag: \"x\"\ndate: yesterday",
    "404\ntransfer-encoding: chunked\n\n5\r\nhello\r\n0\r\n\r\n",
    "206\ncontent-length: 5\ncontent-length: 6\n\nhello",
    "999\nconnection: x\nx: 1\nkeep-alive: 5\n\n",
];

/// What is put into them.
const WORDS: [&str; 28] = [
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\0",
    " ",
    "\t",
    ":",
    "|",
    "0",
    "5",
    "\u{e4}",
    "\u{7f}",
    "/",
    "?",
    "#",
    "*",
    "%",
    "HEAD ",
    "\ncontent-length: 5",
    "\ncontent-length: x",
    "\ntransfer-encoding: chunked",
    "\nconnection: close",
    "\nconnection: host, date",
    "\nhost: b.test",
    "\nexpect: 100-continue",
    "\nte: trailers",
    "\nupgrade: x",
];

#[test]
fn every_message_holds() {
    MESSAGES.iter().for_each(|message| body::check(message.as_bytes()));
}

/// Around the sizes at which pieces are written in another way.
#[test]
fn long_frames_hold() {
    for size in [4095, 4096, 4097, 20_000] {
        let frames = format!("{0}|x|{0}", "y".repeat(size));
        for first in ["POST https://a.test/ 2", "200"] {
            body::check(format!("{first}\nx-a: 1\n\n{frames}\n\nx-sum: 1").as_bytes());
        }
    }
}

/// As many trailers as are ever read, and more than that: these are written, and nobody is to read them back.
#[test]
fn many_trailers_hold() {
    for count in [100, 101] {
        let trailers = "x-sum: 1\n".repeat(count);
        body::check(format!("200\n\nhello\n\n{trailers}").as_bytes());
    }
    for size in [16_000, 17_000] {
        body::check(format!("200\n\nhello\n\nx-sum: {}", "1".repeat(size)).as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_messages_hold(bytes in mutated::mutated(&MESSAGES, &WORDS)) {
        body::check(&bytes);
    }
}
