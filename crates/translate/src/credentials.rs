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
