//! A backend over HTTP/2 that says what it has not looked at: that goes to somebody else, whatever it is. What it may
//! have looked at does not.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tidegate_plan::{Protocol, Retry};

use crate::client::{Answer, Connection};
use crate::gate::{Gate, rule};

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;

const PREFACE: usize = 24;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// 200.
    Served,
    Reset(u32),
    /// The connection takes no more: this request, too, is none of its business.
    GoneBefore,
    /// The same with an error.
    FailedBefore,
    /// The connection takes no more and ends; the request is one that it had taken.
    GoneAfter,
    /// The same with an error.
    FailedAfter,
}

/// One fate after the other, and then the last of them for all. Says how many requests it had.
fn backend(fates: &'static [Fate]) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = Arc::clone(&counted);
            // It ends with the connection, in whatever way.
            std::thread::spawn(move || {
                let _ = serve(stream, fates, &asked);
            });
        }
    });
    (port, asked)
}

fn serve(mut stream: TcpStream, fates: &[Fate], asked: &AtomicUsize) -> io::Result<()> {
    stream.read_exact(&mut [0; PREFACE])?;
    send(&mut stream, SETTINGS, 0, 0, &[])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match head[3] {
            SETTINGS if head[4] & ACK == 0 => send(&mut stream, SETTINGS, ACK, 0, &[])?,
            HEADERS => {
                let nth = asked.fetch_add(1, SeqCst);
                meet(&mut stream, id, *fates.get(nth).or(fates.last()).unwrap())?;
            }
            _ => {}
        }
    }
}

fn meet(stream: &mut TcpStream, id: u32, fate: Fate) -> io::Result<()> {
    let go_away = |last: u32, code: u32| [last.to_be_bytes(), code.to_be_bytes()].concat();
    match fate {
        // 200 has a number of its own.
        Fate::Served => send(stream, HEADERS, END_HEADERS | END_STREAM, id, &[0x88]),
        Fate::Reset(code) => send(stream, RST_STREAM, 0, id, &code.to_be_bytes()),
        Fate::GoneBefore => send(stream, GOAWAY, 0, 0, &go_away(id.saturating_sub(2), NO_ERROR)),
        Fate::FailedBefore => send(stream, GOAWAY, 0, 0, &go_away(id.saturating_sub(2), INTERNAL_ERROR)),
        Fate::GoneAfter | Fate::FailedAfter => {
            let code = if fate == Fate::GoneAfter { NO_ERROR } else { INTERNAL_ERROR };
            send(stream, GOAWAY, 0, 0, &go_away(id, code))?;
            stream.shutdown(std::net::Shutdown::Both)
        }
    }
}

fn send(stream: &mut TcpStream, kind: u8, flags: u8, id: u32, payload: &[u8]) -> io::Result<()> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&id.to_be_bytes());
    frame.extend_from_slice(payload);
    stream.write_all(&frame)
}

/// Asks so many times, one after the other, and tells the answers and what the backend was asked.
fn ask(fates: &'static [Fate], retry: Option<Retry>, requests: &[&str]) -> (Vec<Answer>, usize) {
    let (port, asked) = backend(fates);
    // One worker, so that all have the same connections.
    let mut gate = Gate::with(tidegate_proxy::Bounds::default(), 1);
    let id = gate.backend_with("a", &[port], |backend| backend.protocol = Protocol::Http2);
    let mut retried = rule("/", &id);
    retried.retry = retry;
    gate.route("web", vec![retried]);
    let gate = gate.serving();
    let mut connection = Connection::to(gate.address());
    let answers = requests.iter().map(|request| connection.ask(request)).collect();
    (answers, asked.load(SeqCst))
}

fn statuses(answers: &[Answer]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n";
const BODY: &str = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello";

fn attempts(attempts: u32) -> Option<Retry> {
    Some(Retry {
        codes: vec![],
        attempts: Some(attempts),
        backoff: Some(std::time::Duration::from_millis(1)),
    })
}

const REFUSED: Fate = Fate::Reset(REFUSED_STREAM);

/// POST is asked again as well: nobody has looked at it.
#[test]
fn a_refused_stream_is_asked_again() {
    for (fates, retry, status, asked) in [
        (&[REFUSED, Fate::Served][..], None, 200, 2),
        (&[REFUSED, REFUSED, REFUSED, Fate::Served], None, 200, 4),
        (&[REFUSED], None, 502, 4),
        (&[REFUSED, REFUSED, Fate::Served], attempts(2), 200, 3),
        (&[REFUSED], attempts(2), 502, 3),
        (&[REFUSED, Fate::Served], attempts(0), 502, 1),
        (&[Fate::Reset(INTERNAL_ERROR), Fate::Served], attempts(2), 502, 1),
    ] {
        let (answers, count) = ask(fates, retry.clone(), &[POST]);
        assert_eq!((statuses(&answers), count), (vec![status], asked), "{fates:?} {retry:?}");
    }
}

/// With a body, if the rule has it kept.
#[test]
fn a_refused_stream_with_a_body_is_asked_again_where_it_is_kept() {
    let (answers, asked) = ask(&[REFUSED, Fate::Served], attempts(1), &[BODY]);
    assert_eq!((statuses(&answers), asked), (vec![200], 2));
}

#[test]
fn a_request_that_goaway_left_out_is_asked_again() {
    for fate in [Fate::GoneBefore, Fate::FailedBefore] {
        let fates: &'static [Fate] = match fate {
            Fate::GoneBefore => &[Fate::Served, Fate::GoneBefore, Fate::Served],
            _ => &[Fate::Served, Fate::FailedBefore, Fate::Served],
        };
        let (answers, asked) = ask(fates, None, &[GET, POST, GET]);
        assert_eq!((statuses(&answers), asked), (vec![200, 200, 200], 4), "{fate:?}");
    }
}

/// GOAWAY had it among those that were taken: it may have been done.
#[test]
fn a_request_that_goaway_names_is_asked_once() {
    for fates in
        [&[Fate::Served, Fate::GoneAfter, Fate::Served][..], &[Fate::Served, Fate::FailedAfter, Fate::Served]]
    {
        let (answers, asked) = ask(fates, None, &[GET, POST, POST]);
        assert_eq!((statuses(&answers), asked), (vec![200, 502, 200], 3), "{fates:?}");
        // Once more would do no harm, and the connection was an old one.
        let (answers, asked) = ask(fates, None, &[GET, GET, GET]);
        assert_eq!((statuses(&answers), asked), (vec![200, 200, 200], 4), "{fates:?}");
    }
}
