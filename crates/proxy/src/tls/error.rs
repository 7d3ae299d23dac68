//! What goes wrong in TLS, in words for the log. Bytes of the peer, names in its certificate included, never become
//! part of them.

use rustls::{AlertDescription, CertificateError, Error, OtherError, PeerIncompatible};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("the peer ended it with the alert {0}")]
    Alert(&'static str),
    #[error("the peer's certificate {0}")]
    Certificate(CertificateFault),
    #[error("the peer showed no certificate")]
    NoCertificate,
    #[error("no version of TLS that both sides speak")]
    NoCommonVersion,
    #[error("no cipher, key exchange or signature that both sides know")]
    NoCommonCipher,
    #[error("no application protocol that both sides speak")]
    NoCommonProtocol,
    #[error("a message that is not well formed")]
    Malformed,
    #[error("a message that is not allowed there")]
    Misbehaved,
    #[error("a record that was changed on its way")]
    Forged,
    #[error("a message larger than any may be")]
    TooLarge,
    #[error("more data than may be sent with one key")]
    Exhausted,
    #[error("the connection is already closed")]
    Closed,
    #[error("the handshake is not complete")]
    NotReady,
    #[error("no memory, clock or randomness for it")]
    Internal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CertificateFault {
    #[error("is not readable, or not of X.509 version 3")]
    Unreadable,
    #[error("is expired")]
    Expired,
    #[error("is not valid yet")]
    NotYetValid,
    #[error("is not of an authority that is trusted")]
    UnknownIssuer,
    #[error("names another server")]
    OtherName,
    #[error("is for another purpose")]
    OtherPurpose,
    #[error("is signed wrongly, or in a way that is not supported")]
    Signature,
    #[error("is that of an authority, and not itself trusted")]
    Authority,
    #[error("does not verify")]
    Other,
}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        match error {
            Error::AlertReceived(alert) => Self::Alert(alert_name(alert)),
            Error::InvalidCertificate(error) => Self::Certificate(error.into()),
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::NoApplicationProtocol => Self::NoCommonProtocol,
            Error::PeerIncompatible(why) => incompatible(&why),
            Error::PeerMisbehaved(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. } => Self::Misbehaved,
            Error::InvalidMessage(_) | Error::InvalidEncryptedClientHello(_) => Self::Malformed,
            Error::DecryptError => Self::Forged,
            Error::PeerSentOversizedRecord => Self::TooLarge,
            Error::EncryptError => Self::Exhausted,
            Error::HandshakeNotComplete => Self::NotReady,
            // A server without a certificate that the client can use says so in this way.
            Error::General(_) => Self::NoCommonCipher,
            _ => Self::Internal,
        }
    }
}

impl From<CertificateError> for CertificateFault {
    fn from(error: CertificateError) -> Self {
        use CertificateError as E;
        match error {
            E::BadEncoding | E::UnhandledCriticalExtension => Self::Unreadable,
            E::Expired | E::ExpiredContext { .. } => Self::Expired,
            E::NotValidYet | E::NotValidYetContext { .. } => Self::NotYetValid,
            E::UnknownIssuer => Self::UnknownIssuer,
            E::NotValidForName | E::NotValidForNameContext { .. } => Self::OtherName,
            E::InvalidPurpose | E::InvalidPurposeContext { .. } => Self::OtherPurpose,
            E::BadSignature
            | E::UnsupportedSignatureAlgorithmContext { .. }
            | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => Self::Signature,
            E::Other(OtherError(cause)) => match cause.downcast_ref() {
                Some(webpki::Error::UnsupportedCertVersion) => Self::Unreadable,
                Some(webpki::Error::CaUsedAsEndEntity) => Self::Authority,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

fn incompatible(why: &PeerIncompatible) -> TlsError {
    use PeerIncompatible as P;
    match why {
        P::SupportedVersionsExtensionRequired
        | P::Tls12NotOffered
        | P::Tls12NotOfferedOrEnabled
        | P::Tls13RequiredForQuic
        | P::ServerDoesNotSupportTls12Or13
        | P::ServerTlsVersionIsDisabledByOurConfig => TlsError::NoCommonVersion,
        _ => TlsError::NoCommonCipher,
    }
}

/// As the RFC's registry has it, without the numbers that a peer may make up.
fn alert_name(alert: AlertDescription) -> &'static str {
    alert.as_str().unwrap_or("of an unknown number")
}
