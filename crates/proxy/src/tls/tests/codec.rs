//! The codec against itself and against rustls' own buffered connections.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};
use tidegate_plan::TlsVersion;

use super::support::{End, World, converse, exchange};
use crate::tls::{Codec, TlsError};

const BOTH: [TlsVersion; 2] = [TlsVersion::V1_2, TlsVersion::V1_3];

fn connected(version: TlsVersion) -> (End, End) {
    let (server, client) = World::new().pair(version);
    let (mut client, mut server) = (End::of(&client, None), End::server(&server));
    exchange(&mut client, &mut server).unwrap();
    (client, server)
}

#[test]
fn both_versions_are_spoken_and_told_of() {
    for version in BOTH {
        let (server, client) = World::new().pair(version);
        let (mut client, mut server) = (End::of(&client, None), End::server(&server));
        assert!(client.codec.is_handshaking() && server.codec.is_handshaking());
        converse(&mut client, &mut server).unwrap();
        for end in [&client, &server] {
            assert!(!end.codec.is_handshaking());
            let agreed = end.codec.agreed();
            assert_eq!(agreed.version, Some(version));
            assert!(!agreed.resumed && agreed.alpn.is_none() && agreed.cipher.is_some());
        }
        let expected = if version == TlsVersion::V1_3 { "X25519MLKEM768" } else { "X25519" };
        assert_eq!(server.codec.agreed().key_exchange, Some(expected));
    }
}

#[test]
fn nothing_can_be_sent_before_the_handshake_is_over() {
    let (_, client) = World::new().pair(TlsVersion::V1_3);
    let mut client = End::of(&client, None);
    client.read(&[]).unwrap();
    let hello = client.wire.len();
    assert_eq!(client.codec.send(b"early", &mut client.wire), Err(TlsError::NotReady));
    assert_eq!(client.wire.len(), hello);
}

#[test]
fn an_end_is_orderly_only_when_it_is_said() {
    for version in BOTH {
        let (mut client, mut server) = connected(version);
        client.send(b"last words");
        client.codec.close(&mut client.wire);
        client.codec.close(&mut client.wire);
        assert_eq!(client.codec.send(b"more", &mut client.wire), Err(TlsError::Closed));
        exchange(&mut client, &mut server).unwrap();
        assert_eq!(server.plain, b"last words");
        assert!(server.codec.peer_has_closed() && !client.codec.peer_has_closed());

        // The other direction goes on.
        server.send(&[9; 40_000]);
        exchange(&mut client, &mut server).unwrap();
        assert_eq!(client.plain, [9; 40_000]);
        server.codec.close(&mut server.wire);
        exchange(&mut client, &mut server).unwrap();
        assert!(client.codec.peer_has_closed());
    }
}

#[test]
fn what_comes_behind_the_end_is_left() {
    let (mut client, mut server) = connected(TlsVersion::V1_3);
    client.codec.close(&mut client.wire);
    let mut bytes = std::mem::take(&mut client.wire);
    bytes.extend_from_slice(&[0x16, 3, 1, 0, 100, 1, 2, 3]);
    server.read(&bytes).unwrap();
    server.read(b"and more of no sense").unwrap();
    assert!(server.codec.peer_has_closed() && server.plain.is_empty());
    assert_eq!(server.codec.carried(&mut [0; 100]), 0);
}

#[test]
fn closing_before_the_handshake_says_nothing_and_ends_it() {
    let (server, _) = World::new().pair(TlsVersion::V1_3);
    let mut server = End::server(&server);
    server.codec.close(&mut server.wire);
    assert!(server.wire.is_empty());
    assert!(server.codec.send(b"x", &mut server.wire).is_err());
}

#[test]
fn a_changed_record_ends_it_with_an_alert_and_for_good() {
    for version in BOTH {
        let (mut client, mut server) = connected(version);
        client.send(b"hello");
        let last = client.wire.len() - 1;
        client.wire[last] ^= 1;
        let bytes = std::mem::take(&mut client.wire);
        assert_eq!(server.read(&bytes), Err(TlsError::Forged));
        assert!(!server.wire.is_empty());
        assert_eq!(server.read(&[]), Err(TlsError::Forged));
        assert_eq!(server.codec.send(b"x", &mut Vec::new()), Err(TlsError::Forged));
        let alert = std::mem::take(&mut server.wire);
        assert_eq!(client.read(&alert), Err(TlsError::Alert("BadRecordMac")));
    }
}

#[test]
fn what_is_no_tls_is_malformed() {
    let (server, _) = World::new().pair(TlsVersion::V1_3);
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff, 1, 2], &[0x16, 3, 1, 0, 4, 1, 0, 0, 0]]
    {
        let mut server = End::server(&server);
        let error = server.read(bytes).unwrap_err();
        assert!(matches!(error, TlsError::Malformed | TlsError::TooLarge), "{error:?}");
        assert!(!server.wire.is_empty(), "an alert is sent");
    }
}

#[test]
fn a_handshake_message_in_a_great_many_records_is_bounded() {
    let (server, _) = World::new().pair(TlsVersion::V1_3);
    let mut server = End::server(&server);
    // A hello of 60,000 bytes, of which each comes in a record of its own.
    let header = [0x16, 3, 1, 0, 4, 1, 0, 0xea, 0x60];
    server.read(&header).unwrap();
    let mut sent = header.len();
    let failed = loop {
        match server.read(&[0x16, 3, 1, 0, 1, 3].repeat(1000)) {
            Ok(()) => sent += 6000,
            Err(error) => break error,
        }
        assert!(sent <= Codec::MOST_CARRIED);
    };
    assert_eq!(failed, TlsError::TooLarge);
}

#[test]
fn records_are_as_large_as_they_may_be() {
    let (mut client, mut server) = connected(TlsVersion::V1_3);
    let plain: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    client.send(&plain);
    let records = plain.len().div_ceil(16 * 1024);
    assert_eq!(client.wire.len(), plain.len() + records * 22);
    exchange(&mut client, &mut server).unwrap();
    assert_eq!(server.plain, plain);
}

#[test]
fn a_key_update_is_followed_and_answered() {
    let (config, client) = World::new().pair(TlsVersion::V1_3);
    let mut server = End::server(&config);
    let mut client = ClientConnection::new(client.config(None), client.name()).unwrap();
    talk(&mut client, &mut server);
    for round in 0..3 {
        client.refresh_traffic_keys().unwrap();
        client.writer().write_all(b"after").unwrap();
        talk(&mut client, &mut server);
        assert_eq!(server.plain, b"after".repeat(round + 1));
        server.send(b"answer");
        talk(&mut client, &mut server);
        let mut answer = [0; 6];
        client.reader().read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
    }
}

#[test]
fn it_speaks_with_buffered_clients() {
    for version in BOTH {
        let (config, client) = World::new().pair(version);
        let mut server = End::server(&config);
        let mut client = ClientConnection::new(client.config(None), client.name()).unwrap();
        client.writer().write_all(&[5; 50_000]).unwrap();
        talk(&mut client, &mut server);
        assert_eq!(server.plain, [5; 50_000]);
        server.send(&[6; 15_000]);
        server.codec.close(&mut server.wire);
        talk(&mut client, &mut server);
        let mut heard = Vec::new();
        client.reader().read_to_end(&mut heard).unwrap();
        assert_eq!(heard, [6; 15_000]);
    }
}

#[test]
fn it_speaks_with_buffered_servers() {
    for version in BOTH {
        let (config, client) = World::new().pair(version);
        let mut client = End::of(&client, None);
        let mut server = ServerConnection::new(config).unwrap();
        client.read(&[]).unwrap();
        server.writer().write_all(b"I speak first").unwrap();
        talk(&mut server, &mut client);
        assert_eq!(client.plain, b"I speak first");
        client.send(&[6; 10_000]);
        client.codec.close(&mut client.wire);
        talk(&mut server, &mut client);
        let mut heard = Vec::new();
        server.reader().read_to_end(&mut heard).unwrap();
        assert_eq!(heard, [6; 10_000]);
    }
}

#[test]
fn a_server_may_ask_for_another_hello() {
    let (server, client) = World::new().pair(TlsVersion::V1_3);
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::SECP384R1];
    let narrow =
        rustls::ServerConfig::builder_with_details(Arc::new(provider), Arc::clone(&server.time_provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&server.cert_resolver));
    let (mut client, mut server) = (End::of(&client, None), End::server(&Arc::new(narrow)));
    converse(&mut client, &mut server).unwrap();
    assert_eq!(client.codec.agreed().key_exchange, Some("secp384r1"));
}

#[test]
fn a_name_of_another_form_can_be_asked_for() {
    let (server, client) = World::new().pair(TlsVersion::V1_3);
    let name = ServerName::try_from("A.Example.COM.").unwrap();
    let mut client = ClientConnection::new(client.config(None), name).unwrap();
    let mut server = End::server(&server);
    talk(&mut client, &mut server);
    assert!(!server.codec.is_handshaking());
}

/// Carries bytes between a buffered connection and a codec until both are silent.
fn talk<C, D>(buffered: &mut C, end: &mut End)
where
    C: std::ops::DerefMut<Target = rustls::ConnectionCommon<D>>,
    D: rustls::SideData,
{
    loop {
        let mut bytes = Vec::new();
        while buffered.wants_write() {
            buffered.write_tls(&mut bytes).unwrap();
        }
        if bytes.is_empty() && end.wire.is_empty() {
            return;
        }
        end.read(&bytes).unwrap();
        let wire = std::mem::take(&mut end.wire);
        let mut rest = &wire[..];
        while !rest.is_empty() {
            buffered.read_tls(&mut rest).unwrap();
            buffered.process_new_packets().unwrap();
        }
    }
}
