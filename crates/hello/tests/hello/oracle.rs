//! rustls as the oracle, for any bytes at all. It uses nothing of the other test modules, so that a fuzz target
//! can take this file in with `#[path]` and call [`check`].
//!
//! Where rustls accepts, this crate reads the same name and the same protocols. The known differences:
//!
//! | rustls | here | because |
//! |---|---|---|
//! | an IP address as server name counts as no name | refused | "no name" would choose weaker rules |
//! | ignores what follows the host name if its type is unknown | refused | servers differ in what they ignore |
//! | records up to 18431 bytes | up to 16384 | the larger size is for ciphertext |
//! | any version in the hello's version field | `3.x` | nothing else is TLS |
//! | messages up to 65539 bytes, any number of records | `Limits` | the caller sets its bounds |
//! | gives GREASE among the protocols | leaves it out | nobody routes by it |
//! | keeps the dot at the end of a name | takes it off | routing compares one spelling |
//! | a name of 253 bytes and a dot is too long | accepted | the dot is not part of the name |
//! | refuses a hello without signature_algorithms | accepted | the server behind may do without |
//! | reads the contents of all extensions it knows | only of those it needs | the server behind reads its own |
//! | waits for a whole record before it looks | refuses at the first wrong byte | clients wait for an answer |

use std::io::{self, Read};

use rustls::server::Acceptor;
use rustls::{Error, InvalidMessage, PeerMisbehaved};
use tidegate_hello::{HelloError, Limits, Progress, Reader};

/// Records enough that hellos cut to single bytes are compared and not merely refused.
pub(crate) const LIMITS: Limits = Limits { max_hello: 64 * 1024, max_records: 4096 };

const SERVER_NAME: u16 = 0;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;

/// Panics where this crate and rustls differ in a way that is not in the table above, and where dripped bytes
/// read differently from the same bytes at once.
pub(crate) fn check(wire: &[u8]) {
    let ours = ours(wire);
    check_dripped(wire, &ours);
    match (ask_rustls(wire), ours) {
        (Verdict::BufferFull, _) => {
            assert!(wire.len() > 0xffff, "rustls keeps no more than {} bytes", wire.len());
        }
        (Verdict::Accepted(theirs), Verdict::Accepted(ours)) => assert_eq!(ours, theirs),
        (Verdict::Accepted(_), Verdict::Refused(error)) => {
            assert!(is_stricter_here(error), "rustls accepts, but: {error}");
        }
        (Verdict::Refused(error), Verdict::Accepted(ours)) => check_more_tolerant_here(wire, &error, &ours),
        (Verdict::NeedMore | Verdict::Refused(_), Verdict::Refused(_))
        | (Verdict::NeedMore, Verdict::NeedMore) => {}
        (theirs, ours) => panic!("rustls says {theirs:?}, but here it is {ours:?}"),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict<E> {
    NeedMore,
    Accepted(Asked),
    Refused(E),
    /// rustls was shown more than it keeps.
    BufferFull,
}

/// What both parsers can be asked for, in the spelling of this crate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: Option<String>,
    pub(crate) alpn: Vec<Vec<u8>>,
}

pub(crate) fn ours(wire: &[u8]) -> Verdict<HelloError> {
    one_step(&mut Reader::new(LIMITS), wire)
}

fn one_step(reader: &mut Reader, seen: &[u8]) -> Verdict<HelloError> {
    match reader.advance(seen) {
        Ok(Progress::NeedMore) => Verdict::NeedMore,
        Ok(Progress::Hello(hello)) => Verdict::Accepted(Asked {
            name: hello.server_name.map(|name| name.to_string()),
            alpn: hello.alpn.iter().map(<[u8]>::to_vec).collect(),
        }),
        Err(error) => Verdict::Refused(error),
    }
}

fn check_dripped(wire: &[u8], at_once: &Verdict<HelloError>) {
    let mut reader = Reader::new(LIMITS);
    let dripped = (0..=wire.len())
        .map(|end| one_step(&mut reader, &wire[..end]))
        .find(|verdict| *verdict != Verdict::NeedMore)
        .unwrap_or(Verdict::NeedMore);
    match (&dripped, at_once) {
        // The guess at another protocol can be better with more bytes.
        (Verdict::Refused(_), Verdict::Refused(_)) => {}
        _ => assert_eq!(dripped, *at_once, "dripped bytes read differently"),
    }
}

pub(crate) fn ask_rustls(mut wire: &[u8]) -> Verdict<Error> {
    let mut acceptor = Acceptor::default();
    loop {
        match acceptor.read_tls(&mut wire as &mut dyn Read) {
            Ok(0) => return Verdict::NeedMore,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Other, "{error}");
                return Verdict::BufferFull;
            }
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let name = hello.server_name().map(|name| name.strip_suffix('.').unwrap_or(name).to_owned());
                let alpn = hello.alpn().into_iter().flatten().filter(|name| !is_grease(name));
                return Verdict::Accepted(Asked { name, alpn: alpn.map(<[u8]>::to_vec).collect() });
            }
            Err((error, _)) => return Verdict::Refused(error),
        }
    }
}

fn is_grease(name: &[u8]) -> bool {
    matches!(name, [high, low] if high == low && high & 0x0f == 0x0a)
}

fn is_stricter_here(error: HelloError) -> bool {
    matches!(
        error,
        HelloError::ServerNameIsIpAddress
            | HelloError::SeveralServerNames
            | HelloError::RecordTooLong
            | HelloError::HelloVersion { .. }
            | HelloError::HelloTooLong { .. }
            | HelloError::TooManyRecords { .. }
    )
}

/// Only two things may explain that rustls refuses what is accepted here: the longest of names, or extensions
/// that are not read here, in which case rustls must accept the hello without them.
fn check_more_tolerant_here(wire: &[u8], error: &Error, ours: &Asked) {
    let of_the_whole = matches!(
        error,
        Error::InvalidMessage(
            InvalidMessage::DuplicateExtension(_)
                | InvalidMessage::InvalidServerName
                | InvalidMessage::PreSharedKeyIsNotFinalExtension
                | InvalidMessage::TrailingData("ClientHelloPayload")
        )
    );
    assert!(!of_the_whole, "rustls refuses with {error:?}, but here it is accepted");
    let reduced = only_what_is_read_here(wire).expect("an accepted hello can be taken apart");
    match ask_rustls(&reduced) {
        Verdict::Accepted(theirs) => assert_eq!(*ours, theirs),
        Verdict::Refused(Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName))
            if ours.name.as_ref().is_some_and(|name| name.len() == 253) => {}
        other => panic!("rustls refuses with {error:?}, and without the extensions not read here: {other:?}"),
    }
}

/// The hello in records as few as can be, with the extensions that this crate reads and signature_algorithms.
fn only_what_is_read_here(wire: &[u8]) -> Option<Vec<u8>> {
    let message = join_records(wire)?;
    let body = message.get(4..)?;
    let mut at = 2 + 32;
    at += 1 + usize::from(*body.get(at)?);
    at += 2 + be16(body, at)?;
    at += 1 + usize::from(*body.get(at)?);
    let mut kept = vec![0, SIGNATURE_ALGORITHMS.to_be_bytes()[1], 0, 4, 0, 2, 4, 3];
    let mut list = body.get(at + 2..).unwrap_or_default();
    while !list.is_empty() {
        let (extension, rest) = list.split_at_checked(4 + be16(list, 2)?)?;
        let extension_type = u16::try_from(be16(extension, 0)?).ok()?;
        if [SERVER_NAME, ALPN, EARLY_DATA, SUPPORTED_VERSIONS].contains(&extension_type) {
            kept.extend_from_slice(extension);
        }
        list = rest;
    }
    let len = u16::try_from(kept.len()).ok()?.to_be_bytes();
    let body = [body.get(..at)?, &len, &kept].concat();
    let len = u32::try_from(body.len()).ok()?.to_be_bytes();
    let message = [&[1], &len[1..], &body].concat();
    Some(message.chunks(1 << 14).flat_map(|payload| [&record_header(payload), payload].concat()).collect())
}

fn join_records(mut wire: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let (record, rest) = wire.split_at_checked(5 + be16(wire, 3)?)?;
        message.extend_from_slice(&record[5..]);
        wire = rest;
        let announced =
            message.get(1..4).map(|len| usize::from(len[0]) << 16 | be16(len, 1).unwrap_or_default());
        if announced.is_some_and(|announced| message.len() == 4 + announced) {
            return Some(message);
        }
    }
}

fn record_header(payload: &[u8]) -> [u8; 5] {
    let [.., high, low] = payload.len().to_be_bytes();
    [22, 3, 1, high, low]
}

fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    let pair = bytes.get(at..at + 2)?;
    Some(usize::from(pair[0]) << 8 | usize::from(pair[1]))
}
