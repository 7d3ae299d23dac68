//! Certificates that clients show: checked against the listener's CAs, and only where the listener says so let in
//! unchecked.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use tidegate_plan::{Blob, BlobId, ClientCertificates};

use super::keys::Unusable;
use super::{provider, roots, verify};

pub(super) fn verifier(
    rule: &ClientCertificates,
    blobs: &BTreeMap<BlobId, Arc<Blob>>,
) -> Result<Arc<dyn ClientCertVerifier>, Unusable> {
    let roots = Arc::new(roots::of_bundles(&rule.trust, blobs)?);
    let strict = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
    let strict = strict.map_err(|_| Unusable)?;
    Ok(if rule.allow_insecure { Arc::new(Lenient(strict)) } else { strict })
}

/// Asks for a certificate and takes any, or none. A client that shows one that can be read must still have its key.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify::unless_unreadable(self.0.verify_tls12_signature(message, certificate, signed), certificate)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify::unless_unreadable(self.0.verify_tls13_signature(message, certificate, signed), certificate)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
