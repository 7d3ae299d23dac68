//! Every type of key, and keys that come and go.

use std::sync::Arc;

use tidegate_plan::{Blob, CertifiedKey};

use super::support::{Authority, World};

#[test]
fn every_type_is_opened_and_rubbish_is_not() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    for algorithm in [
        &rcgen::PKCS_RSA_SHA256,
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ] {
        let id = world.add(authority.issue_as(&["a.example.com"], algorithm, |_| {}).blob());
        assert!(world.keys.open(&id, &world.blobs).is_ok(), "{algorithm:?}");
    }

    let (one, other) = (authority.issue(&["a.example.com"]), authority.issue(&["a.example.com"]));
    let mixed = Blob::Key(CertifiedKey { chain: vec![one.certificate.clone()], key: other.key });
    let garbage = Blob::Key(CertifiedKey { chain: vec![one.certificate], key: vec![1, 2, 3] });
    let bundle = authority.bundle();
    for blob in [mixed, garbage, bundle] {
        let id = world.add(blob);
        assert!(world.keys.open(&id, &world.blobs).is_err());
    }
    assert!(world.keys.open(&one_that_is_not_there(), &world.blobs).is_err());
}

fn one_that_is_not_there() -> tidegate_plan::BlobId {
    tidegate_plan::BlobId("none".into())
}

#[test]
fn a_key_is_opened_once_for_as_long_as_it_is_used() {
    let mut world = World::new();
    let authority = Authority::new("CA");
    let id = world.add(authority.issue(&["a.example.com"]).blob());
    let first = world.keys.open(&id, &world.blobs).unwrap();
    let second = world.keys.open(&id, &world.blobs).unwrap();
    assert!(Arc::ptr_eq(&first, &second));

    // The private key goes with its last user, not with the next change of the plan.
    let watch = Arc::downgrade(&first);
    drop((first, second));
    assert!(watch.upgrade().is_none());
    for _ in 0..100 {
        let id = world.add(authority.issue(&["a.example.com"]).blob());
        world.keys.open(&id, &world.blobs).unwrap();
    }
    let remembered = format!("{:?}", world.keys);
    let count: usize = remembered.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
    assert!(count <= 16, "{remembered}");
}
