//! However a hello is cut, by TCP, by TLS or by both, it reads the same, and a part of it reads as nothing.

use proptest::prelude::*;
use tidegate_hello::{HelloError, Limits, Reader};

use crate::build::{
    Fields, MAX_RECORD, PATIENT, Said, read_at_once, read_dripped, record, records, step, typical_said,
};

#[test]
fn every_size_of_record_and_every_byte_of_each() {
    let message = Fields::typical().message();
    for size in 1..=message.len() {
        let wire = records(&message, size);
        assert_eq!(read_dripped(&wire, PATIENT), (wire.len(), Ok(Some(typical_said()))), "records of {size}");
    }
}

#[test]
fn every_pair_of_records_times_every_pair_of_segments() {
    let message = Fields::typical().message();
    for cut in 1..message.len() {
        let wire = [record(22, &message[..cut]), record(22, &message[cut..])].concat();
        for end in 0..wire.len() {
            let mut reader = Reader::new(Limits::default());
            assert_eq!(step(&mut reader, &wire[..end]), Ok(None), "record cut {cut}, segment cut {end}");
            assert_eq!(
                step(&mut reader, &wire),
                Ok(Some(typical_said())),
                "record cut {cut}, segment cut {end}"
            );
        }
    }
}

#[test]
fn a_part_shown_to_a_fresh_reader_is_never_an_answer() {
    let message = Fields::typical().message();
    for size in [1, 2, 3, 4, 5, 7, 64, 100, MAX_RECORD] {
        let wire = records(&message, size);
        for end in 0..wire.len() {
            assert_eq!(read_at_once(&wire[..end], PATIENT), Ok(None), "records of {size}, {end} bytes");
        }
    }
}

#[test]
fn post_quantum_and_larger_hellos() {
    for len in [1_800, MAX_RECORD - 1, MAX_RECORD, MAX_RECORD + 1, 20_000, 2 * MAX_RECORD, 64 * 1024] {
        let fields = Fields::typical().padded_to(len);
        assert_eq!(fields.message().len(), len);
        let wire = fields.wire();
        assert_eq!(read_at_once(&wire, Limits::default()), Ok(Some(typical_said())), "{len} bytes at once");
        // Would take minutes if every call began again at the front.
        assert_eq!(
            read_dripped(&wire, Limits::default()),
            (wire.len(), Ok(Some(typical_said()))),
            "{len} bytes dripped"
        );
    }
}

#[test]
fn what_follows_the_hello_is_not_looked_at() {
    let message = Fields::typical().message();
    let followers: [&[u8]; 5] = [
        b"\x17\x03\x03\x00\x05early",
        b"\x14\x03\x03\x00\x01\x01",
        b"\x16\x03\x03",
        b"GET / HTTP/1.1",
        &[0; 99],
    ];
    for size in [1, 50, MAX_RECORD] {
        for follower in followers {
            let wire = [records(&message, size), follower.to_vec()].concat();
            assert_eq!(read_at_once(&wire, PATIENT), Ok(Some(typical_said())));
        }
    }
}

#[test]
fn answers_are_final() {
    let wire = Fields::typical().wire();
    for (wire, later) in [(&wire[..], &b"more"[..]), (&b"GET "[..], &b"/ HTTP/1.1"[..])] {
        let mut reader = Reader::new(Limits::default());
        let first = step(&mut reader, wire);
        assert_ne!(first, Ok(None));
        assert_eq!(step(&mut reader, &[wire, later].concat()), first);
        assert_eq!(step(&mut reader, wire), first);
    }
}

#[test]
fn a_shorter_buffer_than_before_is_no_panic() {
    let wire = records(&Fields::typical().message(), 40);
    for size in [MAX_RECORD, 40] {
        let wire = records(&Fields::typical().message(), size);
        let mut reader = Reader::new(Limits::default());
        assert_eq!(step(&mut reader, &wire), Ok(Some(typical_said())));
        let _ = step(&mut reader, &[]);
    }
    let mut reader = Reader::new(Limits::default());
    assert_eq!(step(&mut reader, &wire[..100]), Ok(None));
    assert_eq!(step(&mut reader, &wire[..3]), Ok(None));
    assert_eq!(step(&mut reader, &wire), Ok(Some(typical_said())));
}

#[test]
fn alpn_is_borrowed_from_the_callers_buffer() {
    let wire = Fields::typical().wire();
    let mut reader = Reader::new(Limits::default());
    let Ok(tidegate_hello::Progress::Hello(hello)) = reader.advance(&wire) else {
        panic!("a typical hello was not read");
    };
    let first = hello.alpn.iter().next().unwrap();
    assert!(wire.as_ptr_range().contains(&first.as_ptr()));
}

proptest! {
    #[test]
    fn any_records_times_any_segments(
        sizes in prop::collection::vec(1_usize..400, 1..40),
        segments in prop::collection::vec(1_usize..500, 1..40),
        padding in 0_usize..3_000,
        follower in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let message = Fields::typical().with(0xffaa, vec![0; padding]).message();
        let hello = uneven_records(&message, &sizes);
        let wire = [hello.as_slice(), &follower].concat();
        let mut reader = Reader::new(PATIENT);
        let mut end = 0;
        let mut sizes = segments.iter().cycle();
        let answer: Said = loop {
            let answer = step(&mut reader, &wire[..end]);
            prop_assert!(answer.is_ok(), "{answer:?} at {end}");
            match answer.unwrap() {
                Some(said) => break said,
                None => prop_assert!(end < hello.len()),
            }
            end = wire.len().min(end + sizes.next().unwrap());
        };
        prop_assert!(end >= hello.len());
        prop_assert_eq!(answer, typical_said());
    }

    #[test]
    fn the_callers_buffer_is_bounded(
        sizes in prop::collection::vec(1_usize..40, 1..20),
        announced in 0_u32..400,
        max_hello in 0_usize..300,
        max_records in 0_usize..12,
    ) {
        let limits = Limits { max_hello, max_records };
        let message = [&[1], &announced.to_be_bytes()[1..], &[3; 500]].concat();
        let wire = uneven_records(&message, &sizes);
        let (taken, answer) = read_dripped(&wire, limits);
        prop_assert!(answer.is_err());
        prop_assert!(taken <= limits.max_wire(), "{} bytes", taken);
    }

    #[test]
    fn dripping_changes_no_answer(wire in almost_tls()) {
        let at_once = read_at_once(&wire, Limits::default());
        let (taken, dripped) = read_dripped(&wire, Limits::default());
        // The guess at the other protocol may be better with more bytes; that it is another one may not change.
        let not_tls = |answer: &Result<Option<Said>, HelloError>| matches!(answer, Err(
            HelloError::LooksLikeHttp | HelloError::LooksLikeSsh | HelloError::LooksLikeProxyProtocol
                | HelloError::LooksLikePostgres | HelloError::LooksLikeSslv2 | HelloError::NotTls { .. }
        ));
        if not_tls(&at_once) {
            prop_assert!(not_tls(&dripped));
            prop_assert_eq!(taken, 1);
        } else {
            prop_assert_eq!(at_once, dripped);
        }
    }
}

fn uneven_records(mut message: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut wire = Vec::new();
    for &size in sizes.iter().cycle() {
        let (payload, rest) = message.split_at(size.min(message.len()));
        wire.extend(record(22, payload));
        message = rest;
        if message.is_empty() {
            break;
        }
    }
    wire
}

/// Bytes, and records of bytes, and a hello in records with bytes of it changed.
fn almost_tls() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..60);
    let framed = (bytes(), 20_u8..25, bytes())
        .prop_map(|(payload, content_type, rest)| [record(content_type, &payload), rest].concat());
    let changed = (1_usize..300, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3))
        .prop_map(|(size, changes)| {
            let mut wire = records(&Fields::typical().message(), size);
            for (at, byte) in changes {
                let at = at.index(wire.len());
                wire[at] = byte;
            }
            wire
        });
    prop_oneof![1 => bytes(), 1 => framed, 4 => changed]
}
