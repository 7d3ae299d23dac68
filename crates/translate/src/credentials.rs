//! Certificates with their keys, and bundles of CAs, out of Secrets, ConfigMaps and ClusterTrustBundles.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tidegate_api::core::Secret;
use tidegate_plan::{Blob, Certificate, CertifiedKey, Hostname, ObjectName};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Chains and bundles above this are a mistake or an attack; none comes near it.
const MAX_PEM: usize = 512 * 1024;

/// A certificate that can be served, and the bytes it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyMaterial {
    pub(crate) certificate: Certificate,
    pub(crate) blob: Arc<Blob>,
}

type Parsed = (Arc<Secret>, Result<Arc<KeyMaterial>, String>);

/// Secrets that were opened before: opening one costs more than all else about a listener.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    keys: RefCell<BTreeMap<ObjectName, Parsed>>,
}

impl Credentials {
    /// The certificate and key of a Secret, or what is wrong with them.
    pub(crate) fn key(&self, secret: &Arc<Secret>) -> Result<Arc<KeyMaterial>, String> {
        let name = secret.meta.object_name();
        if let Some((known, result)) = self.keys.borrow().get(&name)
            && Arc::ptr_eq(known, secret)
        {
            return result.clone();
        }
        let result = read_key(secret).map(Arc::new);
        self.keys.borrow_mut().insert(name, (Arc::clone(secret), result.clone()));
        result
    }

    pub(crate) fn forget(&self, name: &ObjectName) {
        self.keys.borrow_mut().remove(name);
    }
}

fn read_key(secret: &Secret) -> Result<KeyMaterial, String> {
    let field = |key: &str| {
        let bytes = secret.spec.data.get(key).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or_else(|| format!("it has no `{key}`"))?;
        if bytes.len() > MAX_PEM {
            Err(format!("its `{key}` is larger than {MAX_PEM} bytes"))
        } else {
            Ok(bytes)
        }
    };
    let chain = certificates(field("tls.crt")?).map_err(|error| format!("its `tls.crt` {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(field("tls.key")?)
        .map_err(|_| "its `tls.key` holds no private key in PEM (PKCS#8, PKCS#1 or SEC1)".to_owned())?;
    let (_, leaf) = X509Certificate::from_der(&chain[0])
        .map_err(|_| "its first certificate is not readable".to_owned())?;
    let public = public_key(&key)
        .ok_or("its `tls.key` is of a type that cannot be used: RSA of 2048 to 8192 bits, ECDSA on P-256, P-384 or P-521, and Ed25519 can")?;
    if public != leaf.public_key().subject_public_key.data.as_ref() {
        return Err("its `tls.key` does not belong to the first certificate of its `tls.crt`".to_owned());
    }
    let names = names(&leaf);
    let not_after = leaf.validity().not_after.timestamp();
    let blob = Blob::Key(CertifiedKey {
        chain: chain.iter().map(|certificate| certificate.to_vec()).collect(),
        key: key.secret_der().to_vec(),
    });
    let certificate = Certificate { id: blob.id(), secret: secret.meta.object_name(), names, not_after };
    Ok(KeyMaterial { certificate, blob: Arc::new(blob) })
}

/// A bundle of CA certificates in PEM, or what is wrong with it.
pub(crate) fn bundle(pem: &[u8]) -> Result<Blob, String> {
    if pem.len() > MAX_PEM {
        return Err(format!("is larger than {MAX_PEM} bytes"));
    }
    let certificates = certificates(pem)?;
    if certificates.iter().any(|certificate| X509Certificate::from_der(certificate).is_err()) {
        return Err("holds a certificate that is not readable".to_owned());
    }
    Ok(Blob::Bundle(certificates.iter().map(|certificate| certificate.to_vec()).collect()))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err("holds no certificate in PEM".to_owned()),
        Err(error) => Err(format!("is not PEM: {error}")),
    }
}

/// The public half, in the form that a certificate has it.
fn public_key(key: &PrivateKeyDer<'_>) -> Option<Vec<u8>> {
    let der = key.secret_der();
    if let Ok(pair) = rsa::KeyPair::from_pkcs8(der).or_else(|_| rsa::KeyPair::from_der(der)) {
        return Some(pair.public_key().as_ref().to_vec());
    }
    for curve in
        [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING, &ECDSA_P521_SHA512_ASN1_SIGNING]
    {
        if let Ok(pair) = EcdsaKeyPair::from_private_key_der(curve, der) {
            return Some(pair.public_key().as_ref().to_vec());
        }
    }
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(|pair| pair.public_key().as_ref().to_vec())
}

/// The DNS names of a certificate; the common name where there are no alternative names at all.
fn names(certificate: &X509Certificate<'_>) -> Vec<Hostname> {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let mut names: Vec<Hostname> = match alternative {
        Some(extension) => extension
            .value
            .general_names
            .iter()
            .filter_map(
                |name| if let GeneralName::DNSName(name) = name { Hostname::parse(name).ok() } else { None },
            )
            .collect(),
        None => certificate
            .subject()
            .iter_common_name()
            .filter_map(|name| Hostname::parse(name.as_str().ok()?).ok())
            .collect(),
    };
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use tidegate_api::Meta;
    use tidegate_api::core::SecretSpec;

    use super::*;

    /// Certificate and key of each type that can be used, and of two that cannot, each pair in one file.
    const PAIRS: [(&str, &str); 11] = [
        ("rsa-pkcs1", include_str!("../tests/keys/rsa-pkcs1.pem")),
        ("rsa-pkcs8", include_str!("../tests/keys/rsa-pkcs8.pem")),
        ("p256-sec1", include_str!("../tests/keys/p256-sec1.pem")),
        ("p256-pkcs8", include_str!("../tests/keys/p256-pkcs8.pem")),
        ("p384-sec1", include_str!("../tests/keys/p384-sec1.pem")),
        ("p384-pkcs8", include_str!("../tests/keys/p384-pkcs8.pem")),
        ("p521-sec1", include_str!("../tests/keys/p521-sec1.pem")),
        ("p521-pkcs8", include_str!("../tests/keys/p521-pkcs8.pem")),
        ("ed25519-pkcs8", include_str!("../tests/keys/ed25519-pkcs8.pem")),
        ("rsa1024-pkcs1", include_str!("../tests/keys/rsa1024-pkcs1.pem")),
        ("k256-sec1", include_str!("../tests/keys/k256-sec1.pem")),
    ];

    fn pair(name: &str) -> &'static str {
        PAIRS.iter().find(|(known, _)| *known == name).expect("is there").1
    }

    fn read(certificate: &str, key: &str) -> Result<KeyMaterial, String> {
        let data = [("tls.crt", certificate), ("tls.key", key)];
        let data = data.into_iter().map(|(key, pem)| (key.to_owned(), pem.as_bytes().to_vec())).collect();
        let spec = SecretSpec { kind: "kubernetes.io/tls".to_owned(), data };
        read_key(&Secret { meta: Meta::new("shop", "web"), spec })
    }

    #[test]
    fn every_usual_type_of_key_is_taken() {
        for (name, pem) in &PAIRS[..9] {
            let material = read(pem, pem).unwrap_or_else(|error| panic!("{name}: {error}"));
            let host = format!("{}.example.com", name.split('-').next().expect("a part"));
            assert_eq!(material.certificate.names, [Hostname::parse(&host).unwrap()], "{name}");
            assert!(material.certificate.not_after > 4_000_000_000, "{name}");
        }
    }

    #[test]
    fn other_types_are_named() {
        for name in ["rsa1024-pkcs1", "k256-sec1"] {
            let error = read(pair(name), pair(name)).unwrap_err();
            assert!(error.contains("of a type that cannot be used"), "{name}: {error}");
        }
    }

    #[test]
    fn a_key_belongs_to_its_certificate() {
        for other in ["p384-pkcs8", "rsa-pkcs1", "ed25519-pkcs8"] {
            let error = read(pair("p256-pkcs8"), pair(other)).unwrap_err();
            assert!(error.contains("does not belong"), "{other}: {error}");
        }
    }

    #[test]
    fn the_leaf_is_first_in_the_chain() {
        let chain = format!("{}{}", pair("p256-pkcs8"), pair("rsa-pkcs8"));
        let Blob::Key(key) = read(&chain, pair("p256-pkcs8")).unwrap().blob.as_ref().clone() else {
            panic!("not a key");
        };
        assert_eq!(key.chain.len(), 2);
        let error = read(&chain, pair("rsa-pkcs8")).unwrap_err();
        assert!(error.contains("does not belong to the first certificate"), "{error}");
    }

    #[test]
    fn garbage_is_told_apart() {
        let good = pair("p256-pkcs8");
        let no_certificate = "-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n";
        let broken = "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n";
        let large = format!("{good}{}", "#".repeat(MAX_PEM));
        for (certificate, key, expected) in [
            ("", good, "it has no `tls.crt`"),
            (good, "", "it has no `tls.key`"),
            ("certificate", good, "its `tls.crt` holds no certificate in PEM"),
            (broken, good, "its `tls.crt` is not PEM"),
            (no_certificate, good, "its first certificate is not readable"),
            (good, "key", "its `tls.key` holds no private key in PEM"),
            (&large, good, "its `tls.crt` is larger than 524288 bytes"),
            (good, &large, "its `tls.key` is larger than 524288 bytes"),
        ] {
            let error = read(certificate, key).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn bundles_are_read_as_a_whole() {
        let two = format!("{}{}", pair("p256-pkcs8"), pair("rsa-pkcs8"));
        assert!(matches!(bundle(two.as_bytes()), Ok(Blob::Bundle(all)) if all.len() == 2));
        let half = format!(
            "{}-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n",
            pair("p256-pkcs8")
        );
        assert_eq!(bundle(half.as_bytes()).unwrap_err(), "holds a certificate that is not readable");
        assert_eq!(bundle(b"").unwrap_err(), "holds no certificate in PEM");
        assert!(bundle(&vec![b'#'; MAX_PEM + 1]).unwrap_err().starts_with("is larger"));
    }
}
