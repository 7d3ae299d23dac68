//! Backends: which are who they should be, and whom we are to them.

use std::sync::Arc;

use rustls::ServerConfig;
use tidegate_plan::{AlternativeName, BackendTls, BlobId, Certificate, Reason, TlsVersion, Trust};

use super::support::{
    Authority, End, Failed, Issued, World, converse, dns, expired, listener, of_the_future, only, protocols,
    self_signed, tls_of, uri, version_1,
};
use crate::tls::error::CertificateFault;
use crate::tls::{Client, Identity, TlsError};

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V1_2, TlsVersion::V1_3];

impl World {
    fn backend(&mut self, issued: &Issued) -> Arc<ServerConfig> {
        let certificate = self.certificate(issued);
        self.server(&listener("backend", vec![certificate])).unwrap()
    }
}

fn ask(client: &Client, server: &Arc<ServerConfig>) -> Result<(), Failed> {
    converse(&mut End::of(client, None), &mut End::server(server))
}

fn refused(fault: CertificateFault) -> Result<(), Failed> {
    Err(Failed::Client(TlsError::Certificate(fault)))
}

#[test]
fn every_type_of_certificate_is_verified() {
    let authority = Authority::new("CA");
    for algorithm in [
        &rcgen::PKCS_RSA_SHA256,
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ] {
        for version in VERSIONS {
            let mut world = World::new();
            let issued = authority.issue_as(&["db.example.com"], algorithm, |_| {});
            let server = only(&world.backend(&issued), version);
            let policy = world.policy("db.example.com", &authority);
            assert_eq!(ask(&world.client(&policy).unwrap(), &server), Ok(()), "{algorithm:?} {version}");
        }
    }
}

#[test]
fn a_certificate_that_is_not_in_order_is_refused() {
    let authority = Authority::new("CA");
    let p256 = &rcgen::PKCS_ECDSA_P256_SHA256;
    for version in VERSIONS {
        for (issued, fault) in [
            (authority.issue_as(&["db.example.com"], p256, expired), CertificateFault::Expired),
            (authority.issue_as(&["db.example.com"], p256, of_the_future), CertificateFault::NotYetValid),
            (Authority::new("CA").issue(&["db.example.com"]), CertificateFault::Signature),
            (Authority::new("other").issue(&["db.example.com"]), CertificateFault::UnknownIssuer),
            (authority.issue(&["www.example.com"]), CertificateFault::OtherName),
            (authority.issue(&["spiffe://example.com/db"]), CertificateFault::OtherName),
            (self_signed(&["db.example.com"], |_| {}), CertificateFault::Authority),
            (version_1(), CertificateFault::Unreadable),
        ] {
            let mut world = World::new();
            let server = only(&world.backend(&issued), version);
            let mut policy = world.policy("db.example.com", &authority);
            assert_eq!(ask(&world.client(&policy).unwrap(), &server), refused(fault));
            policy.trust = Trust::Unverified;
            assert_eq!(ask(&world.client(&policy).unwrap(), &server), Ok(()), "taken as it is: {fault}");
        }
    }
}

#[test]
fn one_of_the_names_must_be_there_and_the_sni_need_not() {
    let authority = Authority::new("CA");
    let issued = authority.issue(&["db.internal", "*.cluster.local", "spiffe://example.com/db"]);
    let cases: &[(&[AlternativeName], bool)] = &[
        (&[], false),
        (&[dns("db.internal")], true),
        (&[dns("DB.internal")], true),
        (&[dns("x.cluster.local")], true),
        (&[dns("x.y.cluster.local")], false),
        (&[dns("*.cluster.local")], true),
        (&[dns("*.internal")], true),
        (&[dns("*.local")], false),
        (&[dns("*.org")], false),
        (&[uri("spiffe://example.com/db")], true),
        (&[uri("spiffe://example.com/DB")], false),
        (&[uri("spiffe://example.com/db/")], false),
        (&[uri("spiffe://example.com")], false),
        (&[dns("other.internal"), uri("spiffe://example.com/web")], false),
        (&[dns("other.internal"), uri("spiffe://example.com/db")], true),
    ];
    let mut world = World::new();
    let server = world.backend(&issued);
    for (names, good) in cases {
        let mut policy = world.policy("sni.example.com", &authority);
        policy.names = names.to_vec();
        let expected = if *good { Ok(()) } else { refused(CertificateFault::OtherName) };
        assert_eq!(ask(&world.client(&policy).unwrap(), &server), expected, "{names:?}");
    }
}

#[test]
fn the_sni_is_what_the_policy_says() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let certificates =
        ["a.example.com", "b.example.com"].map(|name| world.certificate(&authority.issue(&[name])));
    let server = world.server(&listener("backend", certificates.to_vec())).unwrap();
    for name in ["a.example.com", "b.example.com"] {
        let policy = world.policy(name, &authority);
        assert_eq!(ask(&world.client(&policy).unwrap(), &server), Ok(()), "{name}");
    }
}

#[test]
fn the_minimum_version_holds() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let server = world.backend(&authority.issue(&["db.example.com"]));
    let mut policy = world.policy("db.example.com", &authority);
    policy.minimum_version = Some(TlsVersion::V1_3);
    let client = world.client(&policy).unwrap();
    assert_eq!(ask(&client, &only(&server, TlsVersion::V1_3)), Ok(()));
    assert!(ask(&client, &only(&server, TlsVersion::V1_2)).is_err());
}

#[test]
fn the_backends_certificate_goes_before_the_gateways() {
    let mut world = World::new();
    let (servers, gateways, backends) = (Authority::new("s"), Authority::new("g"), Authority::new("b"));
    let certificate = world.certificate(&servers.issue(&["db.example.com"]));
    let mut asking = listener("backend", vec![certificate]);
    let mut requiring = |world: &mut World, authority: &Authority| {
        tls_of(&mut asking).client_certificates = Some(world.trusting(authority));
        world.server(&asking).unwrap()
    };
    let (of_gateways, of_backends) = (requiring(&mut world, &gateways), requiring(&mut world, &backends));
    let gateway = world.identity(&gateways.issue(&["gateway.example.com"]));
    let own = world.certificate(&backends.issue(&["own.example.com"]));
    let mut policy = world.policy("db.example.com", &servers);
    let converse_as = |client: &Client, gateway: Option<&Identity>, server: &Arc<ServerConfig>| {
        converse(&mut End::of(client, gateway), &mut End::server(server)).is_ok()
    };

    let client = world.client(&policy).unwrap();
    assert!(converse_as(&client, Some(&gateway), &of_gateways));
    assert!(!converse_as(&client, None, &of_gateways));
    assert!(!converse_as(&client, Some(&gateway), &of_backends));

    policy.client_certificate = Some(own);
    let client = world.client(&policy).unwrap();
    for gateway in [None, Some(&gateway)] {
        assert!(converse_as(&client, gateway, &of_backends));
        assert!(!converse_as(&client, gateway, &of_gateways));
    }
}

#[test]
fn each_identity_has_one_configuration_and_sessions_of_its_own() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let server = world.backend(&authority.issue(&["db.example.com"]));
    let policy = world.policy("db.example.com", &authority);
    let client = world.client(&policy).unwrap();
    let one = world.identity(&authority.issue(&["one.example.com"]));
    let other = world.identity(&authority.issue(&["other.example.com"]));
    assert!(Arc::ptr_eq(&client.config(Some(&one)), &client.config(Some(&one.clone()))));
    assert!(!Arc::ptr_eq(&client.config(Some(&one)), &client.config(Some(&other))));

    let resumed = |client: &Client, identity: Option<&Identity>| {
        let mut end = End::of(client, identity);
        converse(&mut end, &mut End::server(&server)).unwrap();
        end.codec.agreed().resumed
    };
    for identity in [None, Some(&one), Some(&other)] {
        assert!(!resumed(&client, identity));
        assert!(resumed(&client, identity));
    }
    // Trust is the client's own: one made of another policy begins anew.
    let another = world.client(&BackendTls { names: vec![dns("db.example.com")], ..policy }).unwrap();
    assert!(!resumed(&another, None));
}

#[test]
fn renewed_identities_push_out_the_old() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let policy = world.policy("db.example.com", &authority);
    let client = world.client(&policy).unwrap();
    let first = world.identity(&authority.issue(&["gateway.example.com"]));
    let watch = Arc::downgrade(&client.config(Some(&first)));
    for _ in 0..15 {
        client.config(Some(&world.identity(&authority.issue(&["gateway.example.com"]))));
    }
    assert!(watch.upgrade().is_some());
    client.config(Some(&world.identity(&authority.issue(&["gateway.example.com"]))));
    assert!(watch.upgrade().is_none());
}

#[test]
fn a_policy_that_cannot_be_followed_gives_no_client() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let good = world.policy("db.example.com", &authority);
    let missing = BlobId("none".into());
    let unreadable = world.add(tidegate_plan::Blob::Bundle(vec![vec![1, 2, 3]]));
    let Trust::Bundles(bundles) = good.trust.clone() else { panic!("bundles") };
    let certificate = world.certificate(&authority.issue(&["a.example.com"]));
    let lost = Certificate { id: missing.clone(), ..certificate };
    let with_trust = |trust| BackendTls { trust: Trust::Bundles(trust), ..good.clone() };
    for bad in [
        with_trust(vec![]),
        with_trust(vec![missing.clone()]),
        with_trust(vec![unreadable]),
        with_trust([bundles, vec![missing]].concat()),
        BackendTls { client_certificate: Some(lost), ..good.clone() },
        BackendTls { sni: tidegate_plan::Hostname::parse("*.example.com").unwrap(), ..good.clone() },
    ] {
        assert_eq!(world.client(&bad).unwrap_err(), Reason::PolicyInvalid, "{bad:?}");
    }
    assert!(world.client(&good).is_ok());
    assert!(world.client(&BackendTls { trust: Trust::System, ..good }).is_ok());
}

#[test]
fn a_self_signed_certificate_is_good_where_it_is_the_one_that_is_trusted() {
    let good = self_signed(&["db.example.com"], |_| {});
    let twin = self_signed(&["db.example.com"], |_| {});
    let late = self_signed(&["db.example.com"], expired);
    let early = self_signed(&["db.example.com"], of_the_future);
    let other = self_signed(&["www.example.com"], |_| {});
    for (shown, trusted, expected) in [
        (&good, &good, Ok(())),
        (&twin, &good, refused(CertificateFault::Authority)),
        (&late, &late, refused(CertificateFault::Expired)),
        (&early, &early, refused(CertificateFault::NotYetValid)),
        (&other, &other, refused(CertificateFault::OtherName)),
    ] {
        let mut world = World::new();
        let server = world.backend(shown);
        let bundle = world.add(tidegate_plan::Blob::Bundle(vec![trusted.certificate.clone()]));
        let trust = Trust::Bundles(vec![bundle]);
        let policy = BackendTls { trust, ..world.policy("db.example.com", &Authority::new("other")) };
        assert_eq!(ask(&world.client(&policy).unwrap(), &server), expected);
    }
}

#[test]
fn the_system_does_not_trust_everybody() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let server = world.backend(&authority.issue(&["db.example.com"]));
    let policy = BackendTls { trust: Trust::System, ..world.policy("db.example.com", &authority) };
    let client = world.client(&policy).unwrap();
    assert_eq!(ask(&client, &server), refused(CertificateFault::UnknownIssuer));
}

#[test]
fn a_backend_is_offered_what_the_policy_says_and_else_what_the_client_has() {
    let mut world = World::new();
    let policy = world.policy("db.example.com", &Authority::new("CA"));
    let offered = |world: &mut World, own: &[&str], agreed: Option<&str>| {
        let client = world.client(&BackendTls { alpn: protocols(own), ..policy.clone() }).unwrap();
        let offers = client.offers(agreed.map(str::as_bytes));
        offers.into_iter().map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(offered(&mut world, &[], None), "");
    assert_eq!(offered(&mut world, &[], Some("h2")), "h2");
    assert_eq!(offered(&mut world, &["postgresql", "pg"], None), "postgresql pg");
    assert_eq!(offered(&mut world, &["postgresql"], Some("h2")), "postgresql");
}

#[test]
fn a_backend_may_say_nothing_to_what_it_is_offered() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let certificate = world.certificate(&authority.issue(&["db.example.com"]));
    let mut backend = listener("backend", vec![certificate]);
    let policy =
        BackendTls { alpn: protocols(&["postgresql"]), ..world.policy("db.example.com", &authority) };
    let client = world.client(&policy).unwrap();
    let mut agreed = |spoken: &[&str]| {
        tls_of(&mut backend).alpn = protocols(spoken);
        let server = world.server(&backend).unwrap();
        let (mut client, mut server) = (End::of(&client, None), End::server(&server));
        converse(&mut client, &mut server)?;
        Ok(client.codec.agreed().alpn.map(<[u8]>::to_vec))
    };
    assert_eq!(agreed(&["postgresql"]), Ok(Some(b"postgresql".to_vec())));
    assert_eq!(agreed(&[]), Ok(None));
    assert_eq!(agreed(&["h2"]), Err(Failed::Server(TlsError::NoCommonProtocol)));
}
