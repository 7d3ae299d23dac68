//! However the bytes are cut, what is heard is the same.

use std::sync::LazyLock;

use proptest::prelude::*;
use tidegate_plan::TlsVersion;

use super::support::{End, World};

/// The sizes of reads, used over and over.
fn cuts() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![3 => 1..8_usize, 3 => 8..600_usize, 1 => 600..40_000_usize];
    prop::collection::vec(size, 1..8)
}

fn writes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![0..200_usize, 16_380..16_390_usize, 30_000..70_000_usize], 0..4)
}

/// Carries what one end has for the other in reads of these sizes.
fn carry(from: &mut End, to: &mut End, cuts: &mut impl Iterator<Item = usize>) {
    let bytes = std::mem::take(&mut from.wire);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (read, behind) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
        to.read(read).unwrap();
        rest = behind;
    }
}

fn settle(client: &mut End, server: &mut End, cuts: &mut impl Iterator<Item = usize>) {
    while !(client.wire.is_empty() && server.wire.is_empty()) {
        carry(client, server, cuts);
        carry(server, client, cuts);
    }
}

fn conversation(version: TlsVersion, cuts: &[usize], up: &[usize], down: &[usize]) {
    static CONFIGS: LazyLock<[(std::sync::Arc<rustls::ServerConfig>, crate::tls::Client); 2]> =
        LazyLock::new(|| [World::new().pair(TlsVersion::V1_2), World::new().pair(TlsVersion::V1_3)]);
    let (config, policy) = &CONFIGS[usize::from(version == TlsVersion::V1_3)];
    let (mut client, mut server) = (End::of(policy, None), End::server(config));
    let cuts = &mut cuts.iter().copied().cycle();
    client.read(&[]).unwrap();
    settle(&mut client, &mut server, cuts);

    let bytes = |count: usize| (0..count).map(|n| (n * 7) as u8).collect::<Vec<u8>>();
    for count in up {
        client.send(&bytes(*count));
    }
    for count in down {
        server.send(&bytes(*count));
    }
    client.codec.close(&mut client.wire);
    settle(&mut client, &mut server, cuts);
    server.codec.close(&mut server.wire);
    settle(&mut client, &mut server, cuts);

    let all = |counts: &[usize]| counts.iter().flat_map(|count| bytes(*count)).collect::<Vec<u8>>();
    assert!(server.plain == all(up), "the server heard something else");
    assert!(client.plain == all(down), "the client heard something else");
    for end in [&client, &server] {
        assert!(end.codec.peer_has_closed());
        assert_eq!(end.codec.carried(&mut []), 0);
    }
}

#[test]
fn byte_by_byte() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        conversation(version, &[1], &[1, 300, 0, 20_000], &[3]);
    }
}

#[test]
fn all_at_once() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        conversation(version, &[usize::MAX], &[200_000, 1, 200_000], &[400_000]);
    }
}

/// A handshake message may be in many records and a record in many reads; in between the codec must be able to send.
#[test]
fn sending_in_the_middle_of_a_message() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let (config, policy) = World::new().pair(version);
        let mut config = config.as_ref().clone();
        config.max_fragment_size = Some(64);
        let (mut client, mut server) = (End::of(&policy, None), End::server(&config.into()));
        client.read(&[]).unwrap();
        let mut sent = 0;
        while !(client.wire.is_empty() && server.wire.is_empty()) {
            carry(&mut client, &mut server, &mut std::iter::repeat(1));
            for byte in std::mem::take(&mut server.wire) {
                client.read(&[byte]).unwrap();
                if !client.codec.is_handshaking() {
                    client.send(b"x");
                    sent += 1;
                }
            }
        }
        // The tickets of TLS 1.3 come after the handshake; in TLS 1.2 it ends with the last byte.
        assert!(sent > if version == TlsVersion::V1_3 { 200 } else { 0 });
        assert_eq!(server.plain, vec![b'x'; sent]);
        assert!(client.codec.agreed().version.is_some());
    }
}

/// A conversation with one bit of a record turned.
fn flipped(cuts: &[usize], at: usize, bit: u32) {
    let (config, policy) = World::new().pair(TlsVersion::V1_3);
    let (mut client, mut server) = (End::of(&policy, None), End::server(&config));
    client.read(&[]).unwrap();
    settle(&mut client, &mut server, &mut [usize::MAX].into_iter().cycle());
    let said = vec![42; 40_000];
    client.send(&said);
    client.wire[at] ^= 1 << bit;
    let bytes = std::mem::take(&mut client.wire);
    let mut rest = &bytes[..];
    let mut error = None;
    for cut in cuts.iter().cycle() {
        let (read, behind) = rest.split_at((*cut).min(rest.len()));
        error = server.read(read).err();
        rest = behind;
        if rest.is_empty() || error.is_some() {
            break;
        }
    }
    assert!(said.starts_with(&server.plain));
    // A length that was made larger may make the server wait for more.
    assert!(error.is_some() || server.plain.len() < said.len(), "byte {at}, bit {bit}");
}

#[test]
fn flipped_bits_of_lengths() {
    for at in [3, 4] {
        for bit in 0..8 {
            flipped(&[usize::MAX], at, bit);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_cut(modern: bool, cuts in cuts(), up in writes(), down in writes()) {
        let version = if modern { TlsVersion::V1_3 } else { TlsVersion::V1_2 };
        conversation(version, &cuts, &up, &down);
    }

    /// Whatever is flipped, it is noticed, and nothing but a prefix of what was said is heard.
    #[test]
    fn any_flipped_bit(cuts in cuts(), at: prop::sample::Index, bit in 0..8_u32) {
        let record = 16 * 1024 + 22;
        let at = at.index(2 * record);
        // Type and version in a record's header mean nothing in TLS 1.3.
        prop_assume!(at % record > 2);
        flipped(&cuts, at, bit);
    }

    /// Bytes of no sense never do worse than an error.
    #[test]
    fn any_garbage(bytes in prop::collection::vec(any::<u8>(), 0..600), cuts in cuts()) {
        let (config, _) = World::new().pair(TlsVersion::V1_3);
        let mut server = End::server(&config);
        let mut rest = &bytes[..];
        for cut in cuts.into_iter().cycle() {
            let (read, behind) = rest.split_at(cut.min(rest.len()));
            if server.read(read).is_err() || behind.is_empty() {
                break;
            }
            rest = behind;
        }
        prop_assert!(server.plain.is_empty() && server.codec.is_handshaking());
    }
}
