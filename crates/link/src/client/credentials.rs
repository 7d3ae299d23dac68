//! Who this data plane is to controllers, and whom it takes for one.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::wire::proto::{EnrollRequest, EnrollResponse};

/// Why the other side was not even asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{} has no CA certificate", .0.display())]
    NoAuthority(PathBuf),
    #[error("{} is empty", .0.display())]
    NoToken(PathBuf),
    #[error("no key can be made: {0}")]
    Key(#[from] rcgen::Error),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// The files that say so. They are read each time: mounts change them under way.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) ca: PathBuf,
    pub(crate) token: PathBuf,
}

impl Files {
    pub(crate) fn token(&self) -> Result<String, CredentialsError> {
        let token = read(&self.token)?;
        let token = String::from_utf8_lossy(&token).trim().to_owned();
        if token.is_empty() { Err(CredentialsError::NoToken(self.token.clone())) } else { Ok(token) }
    }

    /// What connections to a controller are made with. Authorities that a controller told of count beside the file's:
    /// a mount may be a minute late with a new one.
    pub(crate) fn tls(
        &self,
        certificate: Option<&Certificate>,
    ) -> Result<Arc<ClientConfig>, CredentialsError> {
        let mut roots = RootCertStore::empty();
        let bundle = read(&self.ca)?;
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&bundle).flatten());
        if roots.is_empty() {
            return Err(CredentialsError::NoAuthority(self.ca.clone()));
        }
        roots.add_parsable_certificates(certificate.iter().flat_map(|own| own.authorities.iter().cloned()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots);
        let mut config = match certificate {
            Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    std::fs::read(path).map_err(|error| CredentialsError::Read { path: path.to_owned(), error })
}

/// A certificate that a controller gave.
pub(crate) struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Vec<CertificateDer<'static>>,
    /// When the next one is due.
    pub(crate) renew: Instant,
    pub(crate) expires: Instant,
}

/// A question for a certificate, with the key that stays here.
pub(crate) struct Enrolment {
    key: KeyPair,
    asked: Instant,
}

impl Enrolment {
    pub(crate) fn new(files: &Files, name: &str) -> Result<(Self, EnrollRequest), CredentialsError> {
        let key = KeyPair::generate()?;
        let request = CertificateParams::default().serialize_request(&key)?.der().to_vec();
        let request = EnrollRequest { token: files.token()?, request, name: name.to_owned() };
        Ok((Self { key, asked: Instant::now() }, request))
    }

    /// Renewed after two thirds of its life, so that there is time for a controller to come back.
    pub(crate) fn finish(self, response: EnrollResponse) -> Certificate {
        let certificates = |ders: Vec<Vec<u8>>| ders.into_iter().map(CertificateDer::from).collect();
        let lifetime = Duration::from_secs(response.lifetime);
        Certificate {
            chain: certificates(response.chain),
            key: PrivatePkcs8KeyDer::from(self.key.serialize_der()).into(),
            authorities: certificates(response.authorities),
            renew: self.asked + lifetime * 2 / 3,
            expires: self.asked + lifetime,
        }
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("renew", &self.renew).finish_non_exhaustive()
    }
}
