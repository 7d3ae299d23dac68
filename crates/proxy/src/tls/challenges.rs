//! Names that are being proved to a CA, by `acme-tls/1` (RFC 8737) or by a file (RFC 8555, 8.3): what is shown to it, and
//! to nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tidegate_plan::{Blob, BlobId, Challenge, Proof as Planned};

use super::{provider, versions};

const PROTOCOL: &[u8] = b"acme-tls/1";
const PATH: &str = "/.well-known/acme-challenge/";

/// As many as are proved at a time, and more.
const MOST: usize = 4_096;

/// What is answered at this moment. Workers look at it for clients that offer that one protocol alone, and for requests
/// with that path.
#[derive(Debug, Default)]
pub struct Challenges {
    proofs: ArcSwap<BTreeMap<Box<str>, Proof>>,
}

#[derive(Clone, Debug)]
enum Proof {
    Tls(Arc<ServerConfig>),
    File { token: Box<str>, content: Arc<str> },
}

impl Challenges {
    /// Shows this certificate, in DER with its PKCS#8 key, to a CA that asks for the name; by all workers when it
    /// returns.
    pub fn show_certificate(&self, name: &str, certificate: Vec<u8>, key: Vec<u8>) -> Result<(), String> {
        let unusable = |error: rustls::Error| format!("the proof cannot be shown: {error}");
        let key = provider().key_provider.load_private_key(PrivatePkcs8KeyDer::from(key).into());
        // It is not looked at: its extension is critical, and known to CAs alone.
        let shown = CertifiedKey::new(vec![CertificateDer::from(certificate)], key.map_err(unusable)?);
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions(None))
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        self.put(name, &Proof::Tls(Arc::new(config)))
    }

    /// Answers with this content where a CA asks the name for the file of a token.
    pub fn show_file(&self, name: &str, token: &str, content: &str) -> Result<(), String> {
        self.put(name, &Proof::File { token: token.into(), content: content.into() })
    }

    /// As a plan has it. Without its certificate, as in a plan that was kept, nothing is shown.
    pub(crate) fn show(&self, challenge: &Challenge, blobs: &BTreeMap<BlobId, Arc<Blob>>) {
        let name = challenge.name.as_str();
        let shown = match &challenge.proof {
            Planned::File { token, content } => self.show_file(name, token, content),
            Planned::Certificate(id) => match blobs.get(id).map(AsRef::as_ref) {
                Some(Blob::Key(key)) => self.show_certificate(name, key.chain.concat(), key.key.clone()),
                Some(Blob::Bundle(_)) | None => Err("its certificate is not there".to_owned()),
            },
        };
        if shown.is_err() {
            self.withdraw(name);
        }
    }

    pub fn withdraw(&self, name: &str) {
        self.proofs.rcu(|proofs| {
            let mut proofs = BTreeMap::clone(proofs);
            proofs.remove(name);
            proofs
        });
    }

    fn put(&self, name: &str, proof: &Proof) -> Result<(), String> {
        if self.proofs.load().len() >= MOST {
            return Err("too many names are being proved".to_owned());
        }
        self.proofs.rcu(|proofs| {
            let mut proofs = BTreeMap::clone(proofs);
            proofs.insert(name.into(), proof.clone());
            proofs
        });
        Ok(())
    }

    /// How to answer a hello, where it is a CA's.
    pub(crate) fn of_hello(&self, hello: &tidegate_plan::Hello<'_>) -> Option<Arc<ServerConfig>> {
        if hello.alpn != [PROTOCOL] {
            return None;
        }
        match self.proofs.load().get(hello.sni?)? {
            Proof::Tls(config) => Some(Arc::clone(config)),
            Proof::File { .. } => None,
        }
    }

    /// What to answer to a request, where it is a CA's. The host may have a port.
    pub(crate) fn of_request(&self, host: &str, path: &str) -> Option<Arc<str>> {
        let asked = path.strip_prefix(PATH)?;
        let name = host.split(':').next()?.to_ascii_lowercase();
        match self.proofs.load().get(name.as_str())? {
            Proof::File { token, content } if **token == *asked => Some(Arc::clone(content)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shown_to_whoever_asks_for_its_token() {
        let challenges = Challenges::default();
        challenges.show_file("a.example.com", "token", "content").unwrap();
        let ask = |host, path| challenges.of_request(host, path);
        assert_eq!(ask("A.example.com:80", "/.well-known/acme-challenge/token").as_deref(), Some("content"));
        for (host, path) in [
            ("a.example.com", "/.well-known/acme-challenge/other"),
            ("a.example.com", "/.well-known/acme-challenge/"),
            ("a.example.com", "/token"),
            ("b.example.com", "/.well-known/acme-challenge/token"),
        ] {
            assert_eq!(ask(host, path), None, "{host}{path}");
        }
        challenges.withdraw("a.example.com");
        assert_eq!(challenges.of_request("a.example.com", "/.well-known/acme-challenge/token"), None);
    }

    #[test]
    fn what_a_plan_has_is_shown_until_it_has_it_no_more() {
        let challenges = Challenges::default();
        let name = tidegate_plan::Hostname::parse("a.example.com").unwrap();
        let proof = Planned::File { token: "token".to_owned(), content: "content".to_owned() };
        challenges.show(&Challenge { name: name.clone(), proof }, &BTreeMap::new());
        let path = "/.well-known/acme-challenge/token";
        assert_eq!(challenges.of_request("a.example.com", path).as_deref(), Some("content"));

        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a.example.com".to_owned()]).unwrap();
        let chain = vec![params.self_signed(&key).unwrap().der().to_vec()];
        let blob = Blob::Key(tidegate_plan::CertifiedKey { chain, key: key.serialize_der() });
        let challenge = Challenge { name, proof: Planned::Certificate(blob.id()) };
        let hello = tidegate_plan::Hello { sni: Some("a.example.com"), alpn: &[b"acme-tls/1"] };
        challenges.show(&challenge, &BTreeMap::from([(blob.id(), Arc::new(blob))]));
        assert!(
            challenges.of_hello(&hello).is_some() && challenges.of_request("a.example.com", path).is_none()
        );
        challenges.show(&challenge, &BTreeMap::new());
        assert!(challenges.of_hello(&hello).is_none(), "a plan that was kept has no keys");
    }

    #[test]
    fn a_certificate_is_shown_for_that_protocol_alone() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["a.example.com".to_owned()]).unwrap();
        params.custom_extensions = vec![rcgen::CustomExtension::new_acme_identifier(&[7; 32])];
        let challenges = Challenges::default();
        let (certificate, key) = (params.self_signed(&key).unwrap().der().to_vec(), key.serialize_der());
        challenges.show_certificate("a.example.com", certificate, key).unwrap();
        let of = |sni, alpn: &[&[u8]]| challenges.of_hello(&tidegate_plan::Hello { sni, alpn }).is_some();
        assert!(of(Some("a.example.com"), &[b"acme-tls/1"]));
        assert!(!of(Some("a.example.com"), &[b"acme-tls/1", b"h2"]));
        assert!(!of(Some("a.example.com"), &[b"h2"]) && !of(Some("a.example.com"), &[]));
        assert!(!of(Some("b.example.com"), &[b"acme-tls/1"]) && !of(None, &[b"acme-tls/1"]));
        assert!(challenges.show_certificate("a.example.com", vec![1], vec![2]).is_err());
    }
}
