//! Certificates by ACME (RFC 8555): an account, orders, and challenges that the data plane answers.

mod account;
mod challenge;
mod courier;
mod order;
mod problem;

#[cfg(test)]
mod steps_tests;

use std::path::PathBuf;
use std::sync::Arc;

use instant_acme::{Account, CertificateIdentifier, HttpClient};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

pub use self::challenge::{Answer, ChallengeKind, Challenges};
use self::courier::{Courier, asked_to_wait, heeding};
use crate::{Certificate, DEFAULT_ACCOUNT, Failure, HOUR, Intent, Seconds, Store, Suggestion};

/// How often the CA is asked again after a nonce that it did not want, besides what its library tries.
const STALE_NONCES: u32 = 5;

pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

#[derive(Clone, PartialEq, Eq)]
pub struct AcmeSettings {
    /// By which its account is known here.
    pub name: Arc<str>,
    pub directory: String,
    /// Certificates in PEM that vouch for the CA's server, instead of what the system trusts.
    pub roots: Option<Vec<u8>>,
    /// `mailto:` is put before what is a bare address.
    pub contacts: Vec<String>,
    pub external_account: Option<ExternalAccount>,
    /// A profile of the CA, `shortlived` for one.
    pub profile: Option<String>,
}

/// An account elsewhere to which the ACME account is bound.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    pub id: String,
    /// As decoded.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for AcmeSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AcmeSettings").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalAccount").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AcmeSettings {
    #[must_use]
    pub fn new(directory: &str) -> Self {
        Self {
            name: DEFAULT_ACCOUNT.into(),
            directory: directory.to_owned(),
            roots: None,
            contacts: Vec::new(),
            external_account: None,
            profile: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AcmeError {
    #[error("the ACME directory {0} is not a URL that begins with https://")]
    Directory(String),
    #[error("the certificates for the ACME server cannot be read: {0}")]
    Roots(String),
    #[error("TLS to the ACME server cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: std::io::Error },
}

pub struct Acme {
    settings: AcmeSettings,
    http: Arc<dyn HttpClient>,
    account: tokio::sync::Mutex<Option<Account>>,
}

impl std::fmt::Debug for Acme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acme").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Acme {
    /// Nobody is asked yet.
    pub fn new(settings: AcmeSettings) -> Result<Self, AcmeError> {
        if !settings.directory.starts_with("https://") {
            return Err(AcmeError::Directory(settings.directory));
        }
        let roots = settings.roots.as_deref().map(read_roots).transpose()?;
        Ok(Self::over(settings, Arc::new(Courier::new(roots)?)))
    }

    fn over(settings: AcmeSettings, http: Arc<dyn HttpClient>) -> Self {
        Self { settings, http, account: tokio::sync::Mutex::new(None) }
    }

    #[must_use]
    pub const fn settings(&self) -> &AcmeSettings {
        &self.settings
    }

    /// Carries an order through, from wherever it was left. `replaced` is the certificate that it renews.
    pub async fn issue(
        &self,
        intent: &mut Intent,
        replaced: Option<&Certificate>,
        store: &dyn Store,
        challenges: &dyn Challenges,
    ) -> Result<Certificate, Failure> {
        heeding(self.carry_through(intent, replaced, store, challenges)).await
    }

    async fn carry_through(
        &self,
        intent: &mut Intent,
        replaced: Option<&Certificate>,
        store: &dyn Store,
        challenges: &dyn Challenges,
    ) -> Result<Certificate, Failure> {
        let account = self.account(store).await?;
        let mut stale = 0;
        // Proofs stay while the CA may be looking.
        let mut answered = order::Answered::new(challenges);
        loop {
            match order::carry_out(self, &account, intent, replaced, store, &mut answered).await {
                Ok(certificate) => return Ok(certificate),
                Err(order::Stop::Failure(failure)) => return Err(failure),
                // It says nothing about the order, which is gone on with where it was.
                Err(order::Stop::Error(error)) if problem::is_stale_nonce(&error) && stale < STALE_NONCES => {
                    stale += 1;
                }
                Err(order::Stop::Error(error)) => return Err(problem::failure(&error, asked_to_wait())),
            }
        }
    }

    /// When the CA would have a certificate renewed; `None` where it does not say.
    pub async fn suggestion(
        &self,
        certificate: &Certificate,
        store: &dyn Store,
        now: Seconds,
    ) -> Option<Suggestion> {
        let leaf = certificate.leaf()?;
        let id = CertificateIdentifier::try_from(&leaf).ok()?;
        let asked = heeding(async { self.account(store).await.ok()?.renewal_info(&id).await.ok() });
        let (info, again) = asked.await?;
        let window = info.suggested_window;
        let again = Seconds::try_from(again.as_secs()).unwrap_or(HOUR).clamp(60, 24 * HOUR);
        Some(Suggestion {
            start: window.start.unix_timestamp(),
            end: window.end.unix_timestamp(),
            look: now + again,
        })
    }
}

fn read_roots(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, AcmeError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(AcmeError::Roots("there is none in PEM".to_owned())),
        Err(error) => Err(AcmeError::Roots(error.to_string())),
    }
}
