//! The link's own certificate authority. It is made here and kept by the caller, who also says when another one takes
//! over; both are trusted for as long as the caller wants.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_STANDARD, Engine};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::identity::{IdentityError, ProxyIdentity};

/// The name that every controller has for its data planes, wherever it is.
pub const SERVER_NAME: &str = "controller.link.tidegate.io";

/// Clocks of two machines differ by this much at most.
const SKEW: Duration = Duration::from_secs(300);

/// A CA with its key.
pub struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    not_after: SystemTime,
}

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("this is no certificate with its key in PEM: {0}")]
    Pem(String),
    #[error("the key does not belong to the certificate")]
    OtherKey,
    #[error("this is no certificate of a CA")]
    NoCa,
    #[error("the CA has expired")]
    Expired,
    #[error("the certificate request cannot be used: {0}")]
    Request(rcgen::Error),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Sign(#[from] rcgen::Error),
}

impl Authority {
    /// A new one with a new key.
    pub fn generate(lifetime: Duration) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = named("Tidegate link");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let not_after = valid_for(&mut params, lifetime, None)?;
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Self { certificate, issuer: Issuer::new(params, key), not_after })
    }

    /// One that was kept by [`certificate_pem`](Self::certificate_pem) and [`key_pem`](Self::key_pem).
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, AuthorityError> {
        let broken = |error: &dyn fmt::Display| AuthorityError::Pem(error.to_string());
        let certificate =
            CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| broken(&error))?;
        let key = KeyPair::from_pem(key).map_err(|error| broken(&error))?;
        let not_after = {
            let (_, parsed) =
                x509_parser::parse_x509_certificate(&certificate).map_err(|error| broken(&error))?;
            if !parsed.is_ca() {
                return Err(AuthorityError::NoCa);
            }
            if parsed.public_key().subject_public_key.data != key.public_key_raw() {
                return Err(AuthorityError::OtherKey);
            }
            from_epoch(parsed.validity().not_after.timestamp())
        };
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        Ok(Self { certificate, issuer, not_after })
    }

    #[must_use]
    pub fn certificate_pem(&self) -> String {
        pem(&self.certificate)
    }

    /// The secret of this authority, for whoever keeps it.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    #[must_use]
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// What a controller shows to data planes.
    pub(crate) fn server(&self, lifetime: Duration) -> Result<Leaf, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = named("Tidegate controller");
        params.subject_alt_names = vec![SanType::DnsName(SERVER_NAME.try_into()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let not_after = valid_for(&mut params, lifetime, Some(self.not_after))?;
        let certificate = params.signed_by(&key, &self.issuer)?.der().clone();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        Ok(Leaf { chain: vec![certificate], key, not_after })
    }

    /// What a data plane shows to controllers. Of its request only the key counts: who it is was found out elsewhere.
    pub(crate) fn proxy(
        &self,
        identity: &ProxyIdentity,
        request: &[u8],
        lifetime: Duration,
    ) -> Result<(CertificateDer<'static>, SystemTime), AuthorityError> {
        let mut request =
            CertificateSigningRequestParams::from_der(&CertificateSigningRequestDer::from(request))
                .map_err(AuthorityError::Request)?;
        let mut params = named("Tidegate data plane");
        params.subject_alt_names = vec![SanType::URI(identity.uri()?.try_into()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let not_after = valid_for(&mut params, lifetime, Some(self.not_after))?;
        request.params = params;
        Ok((request.signed_by(&self.issuer)?.der().clone(), not_after))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

/// A certificate for one end of a connection, with its key.
pub(crate) struct Leaf {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) not_after: SystemTime,
}

/// Who signs, and whose signatures count. During a rotation these are more than one.
#[derive(Debug)]
pub struct Trust {
    signing: Authority,
    others: Vec<CertificateDer<'static>>,
}

impl Trust {
    #[must_use]
    pub fn new(signing: Authority) -> Self {
        Self { signing, others: Vec::new() }
    }

    /// Also trusts the CAs in a PEM text: the one before, or the one to come.
    pub fn and(mut self, certificates: &str) -> Result<Self, AuthorityError> {
        for certificate in CertificateDer::pem_slice_iter(certificates.as_bytes()) {
            let certificate = certificate.map_err(|error| AuthorityError::Pem(error.to_string()))?;
            if certificate != self.signing.certificate && !self.others.contains(&certificate) {
                self.others.push(certificate);
            }
        }
        Ok(self)
    }

    /// The bundle that data planes verify their controller with: the file for `tidegate proxy --ca`.
    #[must_use]
    pub fn bundle_pem(&self) -> String {
        self.certificates().map(pem).collect()
    }

    pub(crate) fn signing(&self) -> &Authority {
        &self.signing
    }

    pub(crate) fn certificates(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        std::iter::once(&self.signing.certificate).chain(&self.others)
    }

    pub(crate) fn roots(&self) -> Result<RootCertStore, rustls::Error> {
        let mut roots = RootCertStore::empty();
        self.certificates().try_for_each(|certificate| roots.add(certificate.clone()))?;
        Ok(roots)
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// From a little ago, for clocks that are late, and never for longer than who signs it.
fn valid_for(
    params: &mut CertificateParams,
    lifetime: Duration,
    signer: Option<SystemTime>,
) -> Result<SystemTime, AuthorityError> {
    let now = SystemTime::now();
    let wanted = now + lifetime;
    let not_after = signer.map_or(wanted, |signer| signer.min(wanted));
    if not_after <= now {
        return Err(AuthorityError::Expired);
    }
    let epoch = date_time_ymd(1970, 1, 1);
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = epoch + since(now - SKEW);
    params.not_after = epoch + since(not_after);
    Ok(not_after)
}

pub(crate) fn from_epoch(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let text = BASE64_STANDARD.encode(certificate);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_after_it_was_kept() {
        let made = Authority::generate(Duration::from_secs(3600)).unwrap();
        let kept = Authority::from_pem(&made.certificate_pem(), &made.key_pem()).unwrap();
        assert_eq!(kept.certificate, made.certificate);
        assert_eq!(kept.key_pem(), made.key_pem());
        let apart = made.not_after.duration_since(kept.not_after).unwrap();
        assert!(apart < Duration::from_secs(1), "{apart:?}");
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let [one, other] = [(); 2].map(|()| Authority::generate(Duration::from_secs(3600)).unwrap());
        let error = Authority::from_pem(&one.certificate_pem(), &other.key_pem()).unwrap_err();
        assert!(matches!(error, AuthorityError::OtherKey), "{error}");
        let leaf = one.server(Duration::from_secs(60)).unwrap();
        let key = KeyPair::from_der_and_sign_algo(&leaf.key, &rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let error = Authority::from_pem(&pem(&leaf.chain[0]), &key.serialize_pem()).unwrap_err();
        assert!(matches!(error, AuthorityError::NoCa), "{error}");
        assert!(matches!(Authority::from_pem("", ""), Err(AuthorityError::Pem(_))));
    }

    #[test]
    fn nothing_outlives_its_signer() {
        let short = Authority::generate(Duration::from_secs(60)).unwrap();
        assert_eq!(short.server(Duration::from_secs(3600)).unwrap().not_after, short.not_after);
    }

    #[test]
    fn a_bundle_has_each_once() {
        let [one, other] = [(); 2].map(|()| Authority::generate(Duration::from_secs(3600)).unwrap());
        let (first, second) = (one.certificate_pem(), other.certificate_pem());
        let trust = Trust::new(one).and(&format!("{second}{first}{second}")).unwrap();
        assert_eq!(trust.bundle_pem(), format!("{first}{second}"));
    }
}
