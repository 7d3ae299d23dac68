//! HTTP/2 that costs a server more than the client: each flood is ended by its bound or held up, others are served
//! meanwhile, and memory stays.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::loopback::Tidegate;
use crate::loopback::h2::{
    ACK, Answer, CONTINUATION, Client, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PING, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, block, request,
};
use crate::loopback::manifests::{gateway, http, http_route, service};
use crate::support::web::{Version, web};

const PORT: u16 = 20_080;
/// More than any client needs, and within seconds.
const MANY: u32 = 20_000;
/// What a flood may leave in memory: buffers of the connection, and what the allocator keeps.
const MOST: u64 = 16 << 20;

const CANCEL: [u8; 4] = 8_u32.to_be_bytes();

struct Site {
    tidegate: Tidegate,
    before: u64,
}

impl Site {
    fn start(flags: &[&str]) -> Self {
        let text = gateway(&[http("web", PORT)])
            + &http_route("all", "web", &[], "/", &[("backend", 1)])
            + &service("backend", &[web("a", Version::Http1)]);
        let tidegate = Tidegate::start(&[("all.yaml", &text)], flags);
        // What every later connection needs as well is there before memory is looked at.
        for _ in 0..20 {
            assert_eq!(ask(&tidegate), Some(200));
            let mut client = Client::start(tidegate.connect(PORT), &[]);
            client.ask(1, &request("GET", "/bytes/60000", "a.test"), END_STREAM).unwrap();
            assert_eq!(client.answer(1).unwrap(), Answer::Status(200));
        }
        let before = tidegate.memory();
        Self { tidegate, before }
    }

    fn client(&self) -> Client {
        Client::start(self.tidegate.connect(PORT), &[])
    }

    /// Others are served, and memory is what it was.
    #[track_caller]
    fn assert_well(&self) {
        assert_eq!(ask(&self.tidegate), Some(200), "others are served");
        let more = self.tidegate.memory().saturating_sub(self.before);
        assert!(more < MOST, "{} KB more", more / 1024);
    }
}

/// A request of somebody else, on a connection of its own.
fn ask(tidegate: &Tidegate) -> Option<u16> {
    let mut stream = tidegate.connect(PORT);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.get(9..12)?.parse().ok()
}

/// Sends what `flood` makes until the connection is ended. Gives how many that took, and with which error.
#[track_caller]
fn until_ended(
    site: &Site,
    client: &mut Client,
    most: u32,
    mut flood: impl FnMut(u32) -> Vec<u8>,
) -> (u32, Option<u32>) {
    client.socket().set_nonblocking(true).unwrap();
    for number in 0..most {
        if number % (most / 4) == 1 {
            site.assert_well();
        }
        let bytes = flood(number);
        if let Some(code) = push(client, &bytes) {
            return (number, code);
        }
    }
    panic!("not ended after {most}");
}

/// Writes all of it and reads what is there in between; the error code once the connection is ended.
fn push(client: &mut Client, mut bytes: &[u8]) -> Option<Option<u32>> {
    let mut quiet = 0;
    loop {
        match client.next() {
            Ok(Some(frame)) if frame.kind == crate::loopback::h2::GOAWAY => return Some(frame.code()),
            Ok(Some(_)) => continue,
            Ok(None) => return Some(None),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        match client.socket().write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                quiet += 1;
                assert!(quiet < 6_000, "held up for too long");
                std::thread::sleep(Duration::from_millis(5));
            }
            // What it said before it went is still to be read.
            Err(_) => {
                client.socket().set_nonblocking(false).unwrap();
                while let Ok(Some(frame)) = client.next() {
                    if frame.kind == crate::loopback::h2::GOAWAY {
                        return Some(frame.code());
                    }
                }
                return Some(None);
            }
        }
        if bytes.is_empty() {
            return None;
        }
    }
}

fn headers(stream: u32, flags: u8) -> Vec<u8> {
    Frame::new(HEADERS, END_HEADERS | flags, stream, block(&request("GET", "/", "a.test"))).bytes()
}

/// CVE-2023-44487.
#[test]
fn rapid_reset() {
    let site = Site::start(&[]);
    let mut client = site.client();
    let (count, code) = until_ended(&site, &mut client, MANY, |number| {
        let stream = 2 * number + 1;
        [headers(stream, END_STREAM), Frame::new(RST_STREAM, 0, stream, CANCEL).bytes()].concat()
    });
    println!("ended after {count} streams with {code:?}");
    site.assert_well();
}

/// CVE-2025-8671: the client does what makes the server reset the stream.
#[test]
fn made_you_reset() {
    type Way = fn(u32) -> Frame;
    let ways: [(&str, Way); 3] = [
        ("a window that grows by nothing", |stream| Frame::new(WINDOW_UPDATE, 0, stream, [0; 4])),
        ("a window that grows too far", |stream| {
            Frame::new(WINDOW_UPDATE, 0, stream, [0x7f, 0xff, 0xff, 0xff])
        }),
        ("data behind the end", |stream| Frame::new(DATA, 0, stream, *b"more")),
    ];
    for (name, wrong) in ways {
        let site = Site::start(&[]);
        let mut client = site.client();
        let (count, code) = until_ended(&site, &mut client, MANY, |number| {
            let stream = 2 * number + 1;
            [headers(stream, END_STREAM), wrong(stream).bytes()].concat()
        });
        println!("{name}: ended after {count} streams with {code:?}");
        site.assert_well();
    }
}

/// CVE-2024-27316 and its like: a head without an end, in large pieces, small ones and empty ones.
#[test]
fn continuation() {
    for size in [16_000, 100, 0] {
        let site = Site::start(&[]);
        let mut client = site.client();
        let start = Frame::new(HEADERS, END_STREAM, 1, block(&request("GET", "/", "a.test")));
        client.send(&start).unwrap();
        let piece = if size == 0 { Vec::new() } else { block(&[("x", "a".repeat(size))]) };
        let (count, code) =
            until_ended(&site, &mut client, MANY, |_| Frame::new(CONTINUATION, 0, 1, piece.clone()).bytes());
        println!("pieces of {size} bytes: ended after {count} frames with {code:?}");
        site.assert_well();
    }
}

/// What must be answered, from a client that does not read: it is held up or ended, and nothing piles up.
#[test]
fn settings_and_pings_that_nobody_reads_answers_of() {
    for (name, frame) in [
        ("settings", Frame::new(SETTINGS, 0, 0, [])),
        ("pings", Frame::new(PING, 0, 0, [7; 8])),
        ("resets by the server", Frame::new(HEADERS, END_HEADERS, 0, [])),
    ] {
        let site = Site::start(&[]);
        let client = site.client();
        let ended = pour(client.socket(), &frame.bytes(), 2_000_000);
        println!("{name}: {ended}");
        site.assert_well();
    }
}

/// The same from a client that does read: it is served as long as it likes, and others as well.
#[test]
fn pings_with_answers() {
    let site = Site::start(&[]);
    let mut client = site.client();
    let mut answered = 0;
    for number in 0..MANY {
        client.send(&Frame::new(PING, 0, 0, u64::from(number).to_be_bytes())).unwrap();
        if number % 1000 == 0 {
            site.assert_well();
        }
    }
    while answered < MANY {
        match client.next().unwrap() {
            Some(frame) if frame.kind == PING && frame.flags & ACK != 0 => answered += 1,
            Some(frame) if frame.kind == crate::loopback::h2::GOAWAY => break,
            Some(_) => {}
            None => break,
        }
    }
    println!("{answered} of {MANY} answered");
    site.assert_well();
}

/// Writes the same bytes over and over until nobody takes them for a while, or the connection is ended.
fn pour(mut socket: &TcpStream, bytes: &[u8], most: usize) -> String {
    socket.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let many = bytes.repeat(1000);
    for turn in 0..most / 1000 {
        if let Err(error) = socket.write_all(&many) {
            return format!("after {turn} thousand: {error}");
        }
    }
    format!("all {most} were taken")
}

/// A header of 4 KB that is sent once and then referred to, a byte each time.
#[test]
fn header_bomb() {
    let site = Site::start(&[]);
    for references in [100, 1_000, 16_000] {
        let mut client = site.client();
        let mut bomb = block(&request("GET", "/", "a.test"));
        // Literal, to be remembered: the first entry of the table from then on.
        bomb.extend_from_slice(&[0x40, 1, b'x', 0x7f]);
        let length = 3900 - 127;
        bomb.extend_from_slice(&[(length & 127) as u8 | 128, (length >> 7) as u8]);
        bomb.extend(std::iter::repeat_n(b'a', 3900));
        bomb.extend(std::iter::repeat_n(0x80 | 62, references));
        for (at, piece) in bomb.chunks(16_000).enumerate() {
            let kind = if at == 0 { HEADERS } else { CONTINUATION };
            let is_last = (at + 1) * 16_000 >= bomb.len();
            let flags = if at == 0 { END_STREAM } else { 0 } | if is_last { END_HEADERS } else { 0 };
            let _ = client.send(&Frame::new(kind, flags, 1, piece));
        }
        let answer = client.answer(1).unwrap();
        println!("{references} references to 4 KB: {answer:?}");
        assert!(matches!(answer, Answer::Status(431) | Answer::Reset(_) | Answer::Gone(_)), "{answer:?}");
        site.assert_well();
    }
}

/// A client that asks for much and takes nothing. Each of its streams has the time of any silent connection.
#[test]
fn windows_of_zero() {
    const INITIAL_WINDOW: u16 = 4;
    const CLIENTS: u32 = 10;
    const STREAMS: u32 = 30;
    let site = Site::start(&["--idle-time=3s"]);
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|_| {
            let mut client = Client::start(site.tidegate.connect(PORT), &[(INITIAL_WINDOW, 0)]);
            for stream in 0..STREAMS {
                let asked = request("GET", "/bytes/1000000", "a.test");
                client.ask(2 * stream + 1, &asked, END_STREAM).unwrap();
            }
            client
        })
        .collect();
    let mut most = 0;
    for client in &mut clients {
        most = most.max(site.tidegate.memory());
        assert_eq!(ask(&site.tidegate), Some(200), "others are served");
        // They end without a byte of any answer.
        let mut resets = 0;
        while resets < STREAMS {
            let Some(frame) = client.next().unwrap() else { break };
            assert!(frame.kind != DATA || frame.payload.is_empty(), "a window of zero was ignored");
            resets += u32::from(frame.kind == RST_STREAM);
        }
    }
    drop(clients);
    let each = most.saturating_sub(site.before) / u64::from(CLIENTS * STREAMS);
    println!("{each} bytes for each answer that nobody takes");
    assert!(each < 512 * 1024, "{each} bytes for each");
    site.tidegate.wait_active(0);
    assert_eq!(ask(&site.tidegate), Some(200));
}
