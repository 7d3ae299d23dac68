//! What is stored: a certificate with its key, and an order with the key it is made for.

use std::fmt;

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use tidegate_plan::{Hostname, ObjectName};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{Held, Issuer, Order, Seconds, Shelf, StoreError};

/// A certificate with its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    #[serde(flatten)]
    pub held: Held,
    /// In PEM, the leaf first.
    pub chain: String,
    /// In PEM.
    pub key: String,
}

/// What was, or is about to be, asked for. It is stored before anybody is asked.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    pub order: Order,
    pub begun: Seconds,
    /// In PEM.
    pub key: String,
    /// Where the CA keeps the order, once it has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Keys are not shown.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("held", &self.held).finish_non_exhaustive()
    }
}

impl fmt::Debug for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Intent").field("order", &self.order).field("url", &self.url).finish_non_exhaustive()
    }
}

/// Why what came from an issuer is no certificate for what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("the chain cannot be read")]
    Chain,
    #[error("the certificate does not belong to the key")]
    Key,
    #[error("the certificate does not have the name {0}")]
    Name(Hostname),
}

impl Intent {
    /// With a fresh key.
    pub fn new(order: Order, begun: Seconds) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(Self { order, begun, key: key.serialize_pem(), url: None })
    }

    pub(crate) fn key_pair(&self) -> Result<KeyPair, rcgen::Error> {
        KeyPair::from_pem(&self.key)
    }

    /// What came of it, if it is what was asked for.
    pub(crate) fn fulfilled(&self, chain: String) -> Result<Certificate, Unusable> {
        let Order { secret, target, issuer, names, .. } = self.order.clone();
        let facts = Facts::read(&chain)?;
        if !facts.belongs_to(&self.key) {
            return Err(Unusable::Key);
        }
        if let Some(name) = names.iter().find(|name| !facts.names.contains(name)) {
            return Err(Unusable::Name(name.clone()));
        }
        let held = Held {
            secret,
            target,
            issuer,
            names,
            not_before: facts.not_before,
            not_after: facts.not_after,
            serial: facts.serial,
            suggestion: None,
            usable: true,
        };
        Ok(Certificate { held, chain, key: self.key.clone() })
    }
}

impl Certificate {
    /// What chain and key say of themselves, for who keeps nothing else.
    pub fn read(
        secret: ObjectName,
        target: ObjectName,
        issuer: Issuer,
        chain: String,
        key: String,
    ) -> Result<Self, Unusable> {
        let facts = Facts::read(&chain)?;
        let usable = facts.belongs_to(&key);
        let mut names = facts.names;
        names.sort();
        let Facts { not_before, not_after, serial, .. } = facts;
        let held =
            Held { secret, target, issuer, names, not_before, not_after, serial, suggestion: None, usable };
        Ok(Self { held, chain, key })
    }

    /// As a store has it; whether key and certificate belong together is looked at again.
    pub fn parse(name: &str, content: &[u8]) -> Result<Self, StoreError> {
        let mut certificate: Self = parse(Shelf::Certificates, name, content)?;
        let facts = Facts::read(&certificate.chain);
        certificate.held.usable = facts.is_ok_and(|facts| facts.belongs_to(&certificate.key));
        Ok(certificate)
    }

    pub(crate) fn leaf(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.chain.as_bytes()).next()?.ok()
    }
}

pub(crate) fn parse<T: for<'de> Deserialize<'de>>(
    shelf: Shelf,
    name: &str,
    content: &[u8],
) -> Result<T, StoreError> {
    serde_json::from_slice(content).map_err(|error| StoreError::Content {
        shelf,
        name: name.to_owned(),
        error,
    })
}

/// What a certificate says of itself.
pub(crate) struct Facts {
    names: Vec<Hostname>,
    pub(crate) not_before: Seconds,
    pub(crate) not_after: Seconds,
    serial: String,
    public_key: Vec<u8>,
}

impl Facts {
    pub(crate) fn read(chain: &str) -> Result<Self, Unusable> {
        let all: Result<Vec<CertificateDer<'_>>, _> =
            CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let all = all.map_err(|_| Unusable::Chain)?;
        let first = all.first().ok_or(Unusable::Chain)?;
        let (_, leaf) = X509Certificate::from_der(first).map_err(|_| Unusable::Chain)?;
        let alternative = leaf.subject_alternative_name().ok().flatten();
        let names = alternative.iter().flat_map(|extension| &extension.value.general_names);
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Hostname::parse(name).ok(),
            _ => None,
        });
        Ok(Self {
            names: names.collect(),
            not_before: leaf.validity().not_before.timestamp(),
            not_after: leaf.validity().not_after.timestamp(),
            serial: leaf.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect(),
            public_key: leaf.public_key().subject_public_key.data.to_vec(),
        })
    }

    fn belongs_to(&self, key: &str) -> bool {
        KeyPair::from_pem(key).is_ok_and(|key| key.public_key_raw() == self.public_key)
    }
}
