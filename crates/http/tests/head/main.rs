//! The fuzz target's body as an ordinary test: over messages of every kind, and over thousands of mutations of them.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod body;
#[path = "../mutated/mod.rs"]
mod mutated;

use proptest::prelude::*;

const MESSAGES: [&str; 12] = [
    "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "GET http://a.test/a?b#c HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a.test\r\nX-A:\t1 \r\nx-a:\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
    "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nExpect: 100-continue\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello",
    "HTTP/1.0 404\nServer: old\n\nnot here",
    "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    "5\r\nhello\r\n6;x=\"y\"\r\n there\r\n0\r\n\r\n",
    "A \r\n0123456789\r\n0\r\nX-Sum: 1\r\nx-sum: 2\r\n\r\nrest",
    "5\nhello\n0\nx: y\n\n",
];

/// What is put into them.
const WORDS: [&str; 23] = [
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    " ",
    "\t",
    ":",
    ": ",
    "0",
    "5",
    "f",
    ";",
    "\0",
    "\u{7f}",
    "\u{e4}",
    "HTTP/1.1",
    "/",
    "#",
    "?",
    "Content-Length: 5\r\n",
    "content-length: 6\r\n",
    "Transfer-Encoding: chunked\r\n",
    "a: b\r\n",
];

#[test]
fn every_message_holds() {
    MESSAGES.iter().for_each(|message| body::check(message.as_bytes()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_messages_hold(bytes in mutated::mutated(&MESSAGES, &WORDS)) {
        body::check(&bytes);
    }
}
