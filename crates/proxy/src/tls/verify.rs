//! Whether a backend is who it should be: its chain leads to an authority that the policy trusts, and it has one of
//! the names that the policy asks for. rustls' own verifier knows one name, and no URIs.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, DnsName, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use tidegate_plan::Hostname;
use webpki::EndEntityCert;

#[derive(Debug)]
pub(super) struct BackendVerifier {
    pub(super) algorithms: WebPkiSupportedAlgorithms,
    /// `None`: the certificate is taken as it is.
    pub(super) rule: Option<Rule>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) roots: Arc<RootCertStore>,
    /// One of them must be in the certificate.
    pub(super) names: Vec<Expected>,
}

/// A name that a backend may have.
#[derive(Debug)]
pub(super) enum Expected {
    Dns(ServerName<'static>),
    /// Any name with one label before this one.
    DnsBelow(Hostname),
    Uri(String),
}

impl Expected {
    pub(super) fn dns(hostname: &Hostname) -> Option<Self> {
        if hostname.is_wildcard() {
            return Some(Self::DnsBelow(hostname.clone()));
        }
        let name = DnsName::try_from(hostname.as_str().to_owned()).ok()?;
        Some(Self::Dns(ServerName::DnsName(name)))
    }

    fn is_in(&self, certificate: &EndEntityCert<'_>) -> bool {
        match self {
            Self::Dns(name) => certificate.verify_is_valid_for_subject_name(name).is_ok(),
            Self::DnsBelow(wildcard) => certificate.valid_dns_names().any(|name| stands_for(wildcard, name)),
            Self::Uri(uri) => certificate.valid_uri_names().any(|name| name == uri),
        }
    }
}

/// Whether a name in a certificate is the wildcard itself, or a name that it stands for the way certificates mean
/// it: with one label in its place.
fn stands_for(wildcard: &Hostname, name: &str) -> bool {
    let Ok(name) = Hostname::parse(name) else { return false };
    let is_one_below = !name.is_wildcard() && name.labels() == wildcard.labels() + 1;
    *wildcard == name || (is_one_below && wildcard.covers(&name))
}

impl Rule {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let roots = &self.roots;
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms.all)
            .or_else(|error| if self.is_a_root_itself(certificate, &error) { Ok(()) } else { Err(error) })?;
        let leaf = EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
        if self.names.iter().any(|name| name.is_in(&leaf)) {
            Ok(())
        } else {
            Err(CertificateError::NotValidForName.into())
        }
    }
}

impl Rule {
    /// What `openssl req -x509` makes says of itself that it is a CA, which webpki takes from no server, after it
    /// has looked at the dates. Where the policy trusts this very key under this very name, it is as good as a
    /// certificate that it signed: the handshake shows that the backend has the key.
    fn is_a_root_itself(&self, certificate: &CertificateDer<'_>, error: &Error) -> bool {
        let Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error else {
            return false;
        };
        cause.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
            && webpki::anchor_from_trusted_cert(certificate).is_ok_and(|own| self.roots.roots.contains(&own))
    }
}

impl ServerCertVerifier for BackendVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(rule) = &self.rule {
            rule.check(certificate, intermediates, now, &self.algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.or_unverified(
            verify_tls12_signature(message, certificate, signed, &self.algorithms),
            certificate,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.or_unverified(
            verify_tls13_signature(message, certificate, signed, &self.algorithms),
            certificate,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl BackendVerifier {
    fn or_unverified(
        &self,
        verified: Result<HandshakeSignatureValid, Error>,
        certificate: &CertificateDer<'_>,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.rule.is_some() { verified } else { unless_unreadable(verified, certificate) }
    }
}

/// Where any certificate will do, one that cannot even be read (of X.509 version 1, say) will do as well, and no
/// signature can be checked against it. One that can be read proves that the peer has its key.
pub(super) fn unless_unreadable(
    verified: Result<HandshakeSignatureValid, Error>,
    certificate: &CertificateDer<'_>,
) -> Result<HandshakeSignatureValid, Error> {
    verified.or_else(|error| {
        if EndEntityCert::try_from(certificate).is_err() {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(error)
        }
    })
}
