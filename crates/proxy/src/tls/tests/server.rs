//! Which certificate clients are shown, what they may speak, and when a listener must not serve at all.

use std::sync::Arc;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SignatureScheme};
use tidegate_plan::{BlobId, Handling, Reason, TlsVersion};

use super::support::{Authority, End, Failed, World, converse, exchange, listener, only, protocols, tls_of};
use crate::tls::TlsError;

/// A client that trusts one authority and knows only some signatures.
fn knowing(authority: &Authority, schemes: &[SignatureScheme], protocols: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let tidegate_plan::Blob::Bundle(bundle) = authority.bundle() else { panic!("no bundle") };
    roots.add(bundle[0].clone().into()).unwrap();
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let all = provider.signature_verification_algorithms;
    if !schemes.is_empty() {
        let known =
            all.mapping.iter().filter(|(scheme, _)| schemes.contains(scheme)).copied().collect::<Vec<_>>();
        provider.signature_verification_algorithms =
            WebPkiSupportedAlgorithms { all: all.all, mapping: Vec::leak(known) };
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// The index of the certificate that is shown, out of these.
fn shown(server: &Arc<ServerConfig>, client: &ClientConfig, name: &str, all: &[Vec<u8>]) -> Option<usize> {
    let seen = Arc::new(Seen::default());
    let mut client = client.clone();
    client.dangerous().set_certificate_verifier(Arc::clone(&seen) as _);
    *seen.schemes.lock().unwrap() =
        client.crypto_provider().signature_verification_algorithms.supported_schemes();
    let (mut client, mut server) = (End::client(Arc::new(client), name), End::server(server));
    exchange(&mut client, &mut server).ok()?;
    let leaf = seen.leaf.lock().unwrap().clone();
    all.iter().position(|certificate| *certificate == leaf)
}

/// Takes any certificate, and remembers it.
#[derive(Debug, Default)]
struct Seen {
    leaf: std::sync::Mutex<Vec<u8>>,
    schemes: std::sync::Mutex<Vec<SignatureScheme>>,
}

impl rustls::client::danger::ServerCertVerifier for Seen {
    fn verify_server_cert(
        &self,
        leaf: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        *self.leaf.lock().unwrap() = leaf.to_vec();
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.lock().unwrap().clone()
    }
}

#[test]
fn the_certificate_is_the_one_that_the_plan_chooses() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let issued = [
        authority.issue(&["default.example.com"]),
        authority.issue(&["*.example.com"]),
        authority.issue(&["a.example.com"]),
    ];
    let certificates = issued.iter().map(|issued| world.certificate(issued)).collect::<Vec<_>>();
    let all: Vec<_> = issued.iter().map(|issued| issued.certificate.clone()).collect();
    let server = world.server(&listener("tls", certificates)).unwrap();
    let client = knowing(&authority, &[], &[]);
    for (name, expected) in [
        ("a.example.com", 2),
        ("A.Example.com.", 2),
        ("b.example.com", 1),
        ("a.b.example.com", 0),
        ("elsewhere.org", 0),
        // No name at all goes out for an address.
        ("192.0.2.1", 0),
    ] {
        assert_eq!(shown(&server, &client, name, &all), Some(expected), "{name}");
    }
}

#[test]
fn among_equals_it_is_one_whose_key_the_client_knows() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let types = [&rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_RSA_SHA256];
    let issued = types.map(|algorithm| authority.issue_as(&["a.example.com"], algorithm, |_| {}));
    let certificates: Vec<_> = issued.iter().map(|issued| world.certificate(issued)).collect();
    let all: Vec<_> = issued.iter().map(|issued| issued.certificate.clone()).collect();
    let server = world.server(&listener("tls", certificates)).unwrap();
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let server = only(&server, version);
        for (scheme, expected) in [
            (SignatureScheme::ED25519, Some(0)),
            (SignatureScheme::ECDSA_NISTP256_SHA256, Some(1)),
            (SignatureScheme::RSA_PSS_SHA256, Some(2)),
            (SignatureScheme::ECDSA_NISTP384_SHA384, None),
        ] {
            let client = knowing(&authority, &[scheme], &[]);
            for name in ["a.example.com", "other.example.com"] {
                assert_eq!(shown(&server, &client, name, &all), expected, "{version} {scheme:?}");
            }
        }
    }
}

#[test]
fn a_client_that_knows_none_of_the_keys_is_told_so() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let certificate = world.certificate(&authority.issue(&["a.example.com"]));
    let server = world.server(&listener("tls", vec![certificate])).unwrap();
    let client = knowing(&authority, &[SignatureScheme::RSA_PSS_SHA256], &[]);
    let (mut client, mut server) = (End::client(client, "a.example.com"), End::server(&server));
    assert_eq!(exchange(&mut client, &mut server), Err(Failed::Server(TlsError::NoCommonCipher)));
}

#[test]
fn https_agrees_on_a_protocol_and_bytes_in_tls_on_what_their_owner_says() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let certificate = world.certificate(&authority.issue(&["a.example.com"]));
    let mut listener = listener("tls", vec![certificate]);
    let bytes = world.server(&listener).unwrap();
    tls_of(&mut listener).alpn = protocols(&["postgresql", "pg"]);
    let named = world.server(&listener).unwrap();
    listener.handling = Handling::Https(tls_of(&mut listener).clone());
    let https = world.server(&listener).unwrap();
    let agreed = |server: &Arc<ServerConfig>, offered: &[&str]| {
        let client = knowing(&authority, &[], offered);
        let (mut client, mut server) = (End::client(client, "a.example.com"), End::server(server));
        converse(&mut client, &mut server)?;
        Ok(server.codec.agreed().alpn.map(|name| String::from_utf8(name.to_vec()).unwrap()))
    };
    assert_eq!(agreed(&https, &["http/1.1", "h2"]), Ok(Some("h2".to_owned())));
    assert_eq!(agreed(&https, &["http/1.1"]), Ok(Some("http/1.1".to_owned())));
    assert_eq!(agreed(&https, &["http/1.0"]), Ok(Some("http/1.0".to_owned())));
    assert_eq!(agreed(&https, &[]), Ok(None));
    assert_eq!(agreed(&https, &["imap"]), Err(Failed::Server(TlsError::NoCommonProtocol)));
    assert_eq!(agreed(&bytes, &["imap"]), Ok(None));
    assert_eq!(agreed(&named, &["imap", "pg", "postgresql"]), Ok(Some("postgresql".to_owned())));
    assert_eq!(agreed(&named, &[]), Ok(None));
    assert_eq!(agreed(&named, &["h2"]), Err(Failed::Server(TlsError::NoCommonProtocol)));
}

#[test]
fn the_minimum_version_holds() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let certificate = world.certificate(&authority.issue(&["a.example.com"]));
    let mut listener = listener("tls", vec![certificate]);
    let mut old = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS12])
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    old.dangerous().set_certificate_verifier(knowing_all());
    let old = Arc::new(old);
    for (minimum, expected) in [
        (None, Ok(())),
        (Some(TlsVersion::V1_2), Ok(())),
        (Some(TlsVersion::V1_3), Err(Failed::Server(TlsError::NoCommonVersion))),
    ] {
        tls_of(&mut listener).minimum_version = minimum;
        let server = world.server(&listener).unwrap();
        let (mut client, mut server) = (End::client(Arc::clone(&old), "a.example.com"), End::server(&server));
        assert_eq!(exchange(&mut client, &mut server), expected, "{minimum:?}");
    }
}

fn knowing_all() -> Arc<Seen> {
    let seen = Seen::default();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    *seen.schemes.lock().unwrap() = provider.signature_verification_algorithms.supported_schemes();
    Arc::new(seen)
}

#[test]
fn a_listener_that_cannot_do_what_it_was_told_has_no_configuration() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let certificate = world.certificate(&authority.issue(&["a.example.com"]));
    let missing = BlobId("none".into());
    let not_a_bundle = certificate.id.clone();
    let unreadable = world.add(tidegate_plan::Blob::Bundle(vec![vec![1, 2, 3]]));
    let good = world.trusting(&authority);

    assert_eq!(world.server(&listener("tls", Vec::new())).unwrap_err(), Reason::NoCertificate);
    let mut lost = certificate.clone();
    lost.id = missing.clone();
    assert_eq!(world.server(&listener("tls", vec![lost.clone()])).unwrap_err(), Reason::NoCertificate);
    assert!(world.server(&listener("tls", vec![lost, certificate.clone()])).is_ok());

    for allow_insecure in [false, true] {
        for trust in [
            vec![],
            vec![missing.clone()],
            vec![not_a_bundle.clone()],
            vec![unreadable.clone()],
            vec![good.trust[0].clone(), missing.clone()],
        ] {
            let mut listener = listener("tls", vec![certificate.clone()]);
            tls_of(&mut listener).client_certificates =
                Some(tidegate_plan::ClientCertificates { trust, allow_insecure });
            assert_eq!(world.server(&listener).unwrap_err(), Reason::NoClientCa);
        }
    }
    let mut plain = listener("tls", vec![certificate]);
    plain.handling = Handling::Tcp;
    assert_eq!(world.server(&plain).unwrap_err(), Reason::ListenerInvalid);
}
