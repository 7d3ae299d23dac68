//! Tells by its certificate who ended the TLS of a connection: proxies and backends have different ones, so that a
//! proxy which passes on what it should terminate is noticed. Signatures are not checked, which keeps the load cheap.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

#[derive(Debug)]
pub(super) struct Expected {
    certificate: Option<CertificateDer<'static>>,
    schemes: Vec<SignatureScheme>,
}

impl Expected {
    pub(super) fn new(provider: &CryptoProvider, certificate: Option<CertificateDer<'static>>) -> Self {
        Self { certificate, schemes: provider.signature_verification_algorithms.supported_schemes() }
    }
}

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.certificate {
            Some(expected) if expected != shown => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
