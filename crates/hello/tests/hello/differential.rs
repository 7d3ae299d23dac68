//! Generated and mutated hellos for the oracle, and one hello for each difference that it knows, so that its
//! table cannot outlive the difference.

use proptest::prelude::*;
use proptest::sample::Index;
use rustls::{Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};
use tidegate_hello::HelloError;

use crate::build::{
    ALPN, ECH, Fields, PRE_SHARED_KEY, SERVER_NAME, SIGNATURE_ALGORITHMS, SUPPORTED_VERSIONS, host_name,
    names, protocols, record, records, versions,
};
use crate::captured::real;
use crate::oracle::{LIMITS, Verdict, ask_rustls, check, ours};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn generated_hellos(fields in fields(), size in record_size()) {
        check(&records(&fields.message(), size));
    }

    #[test]
    fn mutated_messages(fields in fields(), size in record_size(), edits in edits()) {
        let mut message = fields.message();
        edits.iter().for_each(|edit| edit.apply(&mut message));
        check(&records(&message, size));
    }

    #[test]
    fn mutated_wire(fields in fields(), size in record_size(), edits in edits()) {
        let mut wire = records(&fields.message(), size);
        edits.iter().for_each(|edit| edit.apply(&mut wire));
        check(&wire);
    }

    #[test]
    fn mutated_real_hellos(which in any::<Index>(), edits in edits()) {
        let mut wire = which.get(real()).wire.clone();
        edits.iter().for_each(|edit| edit.apply(&mut wire));
        check(&wire);
    }

    #[test]
    fn names_alone(name in name()) {
        let fields = Fields::default().with(SIGNATURE_ALGORITHMS, vec![0, 2, 4, 3]);
        check(&fields.with(SERVER_NAME, host_name(&name)).wire());
    }
}

#[test]
fn every_byte_of_a_hello_changed_to_every_value() {
    let wire = Fields::typical().wire();
    for at in 0..wire.len() {
        for value in 0..=u8::MAX {
            let mut wire = wire.clone();
            wire[at] = value;
            check(&wire);
        }
    }
}

#[test]
fn where_this_crate_is_stricter() {
    let signed = || Fields::default().with(SIGNATURE_ALGORITHMS, vec![0, 2, 4, 3]);
    let cases = [
        (signed().with(SERVER_NAME, host_name(b"192.0.2.1")).wire(), HelloError::ServerNameIsIpAddress),
        (
            signed().with(SERVER_NAME, names(&[(0, b"a.example"), (9, b"b.example")])).wire(),
            HelloError::SeveralServerNames,
        ),
        (record(22, &signed().padded_to(17_000).message()), HelloError::RecordTooLong),
        (Fields { version: [9, 9], ..signed() }.wire(), HelloError::HelloVersion { version: 0x0909 }),
        (
            records(&signed().padded_to(5_000).message(), 1),
            HelloError::TooManyRecords { max: LIMITS.max_records },
        ),
    ];
    for (wire, error) in cases {
        assert!(matches!(ask_rustls(&wire), Verdict::Accepted(_)), "rustls no longer accepts: {error}");
        assert_eq!(ours(&wire), Verdict::Refused(error));
        check(&wire);
    }
}

#[test]
fn where_rustls_is_stricter() {
    let signed = || Fields::default().with(SIGNATURE_ALGORITHMS, vec![0, 2, 4, 3]);
    let longest = format!("{0}.{0}.{0}.{1}.", "a".repeat(63), "b".repeat(61));
    let cases = [
        (
            signed().with(SERVER_NAME, host_name(longest.as_bytes())),
            Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName),
        ),
        (Fields::default(), Error::PeerIncompatible(PeerIncompatible::SignatureAlgorithmsExtensionRequired)),
        (
            signed().with(10, vec![0, 0]),
            Error::InvalidMessage(InvalidMessage::IllegalEmptyList("NamedGroups")),
        ),
    ];
    for (fields, error) in cases {
        assert!(matches!(ours(&fields.wire()), Verdict::Accepted(_)), "no longer accepted here: {error}");
        assert_eq!(ask_rustls(&fields.wire()), Verdict::Refused(error));
        check(&fields.wire());
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Set(Index, u8),
    Add(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    Truncate(Index),
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let range = |at: &Index, len: usize| {
            let start = at.index(bytes.len());
            start..bytes.len().min(start + len)
        };
        match self {
            Self::Set(at, value) => *at.get_mut(bytes) = *value,
            Self::Add(at, value) => {
                let byte = at.get_mut(bytes);
                *byte = byte.wrapping_add(*value);
            }
            Self::Insert(at, more) => drop(bytes.splice(range(at, 0), more.iter().copied())),
            Self::Remove(at, len) => drop(bytes.drain(range(at, *len))),
            Self::Repeat(at, len) => {
                let range = range(at, *len);
                let part = bytes[range.clone()].to_vec();
                drop(bytes.splice(range.start..range.start, part));
            }
            Self::Truncate(at) => bytes.truncate(at.index(bytes.len())),
        }
    }
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = any::<Index>;
    let nearby = prop_oneof![Just(1_u8), Just(2), Just(255), Just(254)];
    let edit = prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, value)| Edit::Set(at, value)),
        4 => (at(), nearby).prop_map(|(at, value)| Edit::Add(at, value)),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..5)).prop_map(|(at, more)| Edit::Insert(at, more)),
        1 => (at(), 1_usize..5).prop_map(|(at, len)| Edit::Remove(at, len)),
        1 => (at(), 1_usize..40).prop_map(|(at, len)| Edit::Repeat(at, len)),
        1 => at().prop_map(Edit::Truncate),
    ];
    prop::collection::vec(edit, 1..4)
}

fn record_size() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1 << 14), 1_usize..10, 10_usize..300]
}

/// Hellos mostly right, each field of which is sometimes not.
fn fields() -> impl Strategy<Value = Fields> {
    let version =
        prop_oneof![8 => Just([3, 3]), 1 => (0_u8..6).prop_map(|minor| [3, minor]), 1 => any::<[u8; 2]>()];
    let compression = prop_oneof![9 => Just(vec![0]), 1 => prop::collection::vec(0_u8..3, 0..3)];
    let suites = prop_oneof![9 => Just(vec![0x13, 0x01]), 1 => prop::collection::vec(any::<u8>(), 0..7)];
    let session_id = prop::collection::vec(any::<u8>(), 0..34);
    let extensions = prop_oneof![
        1 => Just(None),
        15 => prop::collection::vec(extension(), 0..7).prop_map(|mut extensions| {
            extensions.push((SIGNATURE_ALGORITHMS, vec![0, 2, 4, 3]));
            Some(extensions)
        }),
    ];
    let trailing = prop_oneof![15 => Just(vec![]), 1 => Just(vec![0])];
    (version, session_id, suites, compression, extensions, trailing).prop_map(
        |(version, session_id, cipher_suites, compression_methods, extensions, trailing)| Fields {
            version,
            session_id,
            cipher_suites,
            compression_methods,
            extensions,
            trailing,
        },
    )
}

fn extension() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let entry = (prop_oneof![4 => Just(0_u8), 1 => any::<u8>()], name());
    let several = prop::collection::vec(entry, 0..3).prop_map(|entries| {
        let entries: Vec<_> = entries.iter().map(|(name_type, name)| (*name_type, name.as_slice())).collect();
        names(&entries)
    });
    let protocol = prop_oneof![
        Just(b"h2".to_vec()),
        Just(b"\x4a\x4a".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
        prop::collection::vec(any::<u8>(), 1..255),
    ];
    let offered = prop::collection::vec(protocol, 0..5)
        .prop_map(|list| protocols(&list.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    let anything = (any::<u16>(), prop::collection::vec(any::<u8>(), 0..20));
    let known =
        (prop_oneof![0_u16..60, Just(PRE_SHARED_KEY), Just(ECH)], prop::collection::vec(any::<u8>(), 0..20));
    prop_oneof![
        4 => name().prop_map(|name| (SERVER_NAME, host_name(&name))),
        1 => several.prop_map(|list| (SERVER_NAME, list)),
        4 => offered.prop_map(|list| (ALPN, list)),
        2 => prop::collection::vec(any::<u16>(), 0..5).prop_map(|list| (SUPPORTED_VERSIONS, versions(&list))),
        4 => anything,
        1 => known,
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => "[a-zA-Z0-9_-]{1,12}(\\.[a-zA-Z0-9_-]{1,12}){0,4}\\.?",
        2 => "[a-z]{60,64}(\\.[a-z]{60,64}){3}\\.?",
        2 => "[0-9]{1,3}(\\.[0-9]{1,3}){0,4}\\.?",
        1 => "\\[?[0-9a-f:]{2,20}(%[a-z0-9]{1,4})?\\]?",
        1 => "[a-z.-]{0,8}",
        1 => "\\PC{0,8}",
    ]
    .prop_map(String::into_bytes)
}
