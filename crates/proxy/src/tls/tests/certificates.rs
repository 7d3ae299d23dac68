//! Client certificates: who is let in under which rule.

use std::sync::Arc;

use rustls::ServerConfig;
use tidegate_plan::{ClientCertificates, TlsVersion};

use super::support::{
    Authority, End, Failed, Issued, World, converse, expired, listener, of_the_future, tls_of, version_1,
};
use crate::tls::error::CertificateFault;
use crate::tls::{Client, Identity, TlsError};

struct Setting {
    world: World,
    ours: Authority,
    strict: Arc<ServerConfig>,
    lenient: Arc<ServerConfig>,
    clients: Vec<Client>,
}

fn setting() -> Setting {
    let mut world = World::new();
    let (authority, ours) = (Authority::new("servers"), Authority::new("clients"));
    let certificate = world.certificate(&authority.issue(&["a.example.com"]));
    let mut listener = listener("tls", vec![certificate]);
    let strict = world.trusting(&ours);
    let lenient = ClientCertificates { allow_insecure: true, ..strict.clone() };
    let mut serve = |rule| {
        tls_of(&mut listener).client_certificates = Some(rule);
        world.server(&listener).unwrap()
    };
    let (strict, lenient) = (serve(strict), serve(lenient));
    let policy = world.policy("a.example.com", &authority);
    let clients = vec![world.client(&policy).unwrap()];
    Setting { world, ours, strict, lenient, clients }
}

impl Setting {
    fn identity(&mut self, issued: &Issued) -> Identity {
        self.world.identity(issued)
    }

    fn ask(&self, server: &Arc<ServerConfig>, identity: Option<&Identity>) -> Result<(), Failed> {
        let (mut client, mut server) = (End::of(&self.clients[0], identity), End::server(server));
        converse(&mut client, &mut server)
    }
}

fn refused(fault: CertificateFault) -> Result<(), Failed> {
    Err(Failed::Server(TlsError::Certificate(fault)))
}

#[test]
fn a_certificate_of_a_trusted_authority_is_let_in() {
    let mut setting = setting();
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_RSA_SHA256, &rcgen::PKCS_ED25519] {
        let issued = setting.ours.issue_as(&["client.example.com"], algorithm, |_| {});
        let identity = setting.identity(&issued);
        assert_eq!(setting.ask(&setting.strict, Some(&identity)), Ok(()), "{algorithm:?}");
        assert_eq!(setting.ask(&setting.lenient, Some(&identity)), Ok(()), "{algorithm:?}");
    }
}

#[test]
fn others_are_let_in_only_where_the_rule_says_so() {
    let mut setting = setting();
    assert_eq!(setting.ask(&setting.strict, None), Err(Failed::Server(TlsError::NoCertificate)));
    assert_eq!(setting.ask(&setting.lenient, None), Ok(()));

    let p256 = &rcgen::PKCS_ECDSA_P256_SHA256;
    let stranger = Authority::new("clients").issue(&["client.example.com"]);
    let late = setting.ours.issue_as(&["client.example.com"], p256, expired);
    let early = setting.ours.issue_as(&["client.example.com"], p256, of_the_future);
    let for_servers = setting.ours.issue_as(&["client.example.com"], p256, |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    });
    for (issued, fault) in [
        // Of an authority with the same name and another key.
        (stranger, CertificateFault::Signature),
        (late, CertificateFault::Expired),
        (early, CertificateFault::NotYetValid),
        (for_servers, CertificateFault::OtherPurpose),
        (version_1(), CertificateFault::Unreadable),
    ] {
        let identity = setting.identity(&issued);
        assert_eq!(setting.ask(&setting.strict, Some(&identity)), refused(fault));
        assert_eq!(setting.ask(&setting.lenient, Some(&identity)), Ok(()), "{fault}");
    }
}

#[test]
fn a_certificate_without_its_key_is_let_in_nowhere() {
    let mut setting = setting();
    let (shown, other) = (setting.ours.issue(&["a.example.com"]), setting.ours.issue(&["b.example.com"]));
    let key = setting.identity(&other);
    let thief = key.with_chain_of(&setting.identity(&shown));
    for server in [&setting.strict, &setting.lenient] {
        assert_eq!(setting.ask(server, Some(&thief)), refused(CertificateFault::Signature));
    }
}

#[test]
fn in_tls_1_2_the_same_rules_hold() {
    let mut setting = setting();
    let good = setting.ours.issue(&["client.example.com"]);
    let bad = Authority::new("others").issue(&["client.example.com"]);
    let (good, bad) = (setting.identity(&good), setting.identity(&bad));
    let ask = |server: &Arc<ServerConfig>, identity: Option<&Identity>| {
        let config = old(&setting.clients[0], identity);
        let (mut client, mut server) = (End::client(config, "a.example.com"), End::server(server));
        let done = converse(&mut client, &mut server);
        assert_eq!(server.codec.agreed().version, Some(TlsVersion::V1_2));
        done
    };
    assert_eq!(ask(&setting.strict, Some(&good)), Ok(()));
    assert_eq!(ask(&setting.strict, Some(&bad)), refused(CertificateFault::UnknownIssuer));
    assert_eq!(ask(&setting.strict, None), Err(Failed::Server(TlsError::NoCertificate)));
    assert_eq!(ask(&setting.lenient, Some(&good)), Ok(()));
    assert_eq!(ask(&setting.lenient, Some(&bad)), Ok(()));
    assert_eq!(ask(&setting.lenient, None), Ok(()));
}

/// What the client has, for TLS 1.2 alone.
fn old(client: &Client, identity: Option<&Identity>) -> Arc<rustls::ClientConfig> {
    let config = client.config(identity);
    let provider = Arc::clone(config.crypto_provider());
    let builder = rustls::ClientConfig::builder_with_details(provider, Arc::clone(&config.time_provider));
    let mut old = builder
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_client_cert_resolver(Arc::clone(&config.client_auth_cert_resolver));
    old.dangerous().set_certificate_verifier(client.verifier());
    Arc::new(old)
}
