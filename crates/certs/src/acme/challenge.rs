//! How a CA is shown that a name is ours: what the data plane must answer, and for how long.

use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256};
use tidegate_plan::Hostname;

use crate::Boxed;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChallengeKind {
    /// RFC 8555, 8.3: a file on port 80.
    Http01,
    /// RFC 8737: a certificate for the protocol `acme-tls/1` on port 443.
    TlsAlpn01,
}

/// What is to be answered for a name.
#[derive(Clone, PartialEq, Eq)]
pub enum Answer {
    /// `GET /.well-known/acme-challenge/TOKEN` with the name as host.
    Http01 { token: String, key_authorization: String },
    /// A handshake with the name as server name and `acme-tls/1` as the only protocol; both in DER.
    TlsAlpn01 { certificate: Vec<u8>, key: Vec<u8> },
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Http01 { token, .. } => {
                f.debug_struct("Http01").field("token", token).finish_non_exhaustive()
            }
            Self::TlsAlpn01 { .. } => f.debug_struct("TlsAlpn01").finish_non_exhaustive(),
        }
    }
}

/// Whoever answers for names: the data plane.
pub trait Challenges: Send + Sync {
    /// What can be answered for a name at this moment, what is best first.
    fn kinds(&self, name: &Hostname) -> Vec<ChallengeKind>;
    /// Has it answered everywhere; done when it is.
    fn answer<'a>(&'a self, name: &'a Hostname, answer: Answer) -> Boxed<'a, Result<(), String>>;
    /// The answers for a name are no longer needed.
    fn withdraw(&self, name: &Hostname);
}

/// The certificate that proves the key authorization whose digest this is.
pub(super) fn tls_alpn(name: &Hostname, digest: &[u8]) -> Result<Answer, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new(vec![name.to_string()])?;
    params.distinguished_name = DistinguishedName::new();
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = params.self_signed(&key)?;
    Ok(Answer::TlsAlpn01 { certificate: certificate.der().to_vec(), key: key.serialize_der() })
}
