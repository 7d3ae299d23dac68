//! An authority of one's own, for development and closed networks: a root that is made once, and leaves that live for
//! days.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree,
    IsCa, KeyPair, KeyUsagePurpose, NameConstraints, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use serde::{Deserialize, Serialize};
use tidegate_plan::Hostname;

use crate::record::{Facts, parse};
use crate::{Certificate, DAY, Failure, HOUR, Intent, Seconds, Shelf, Store, StoreError};

const NAME: &str = "root";
const ROOT_LIFE: Seconds = 3650 * DAY;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedSettings {
    pub leaf_life: Seconds,
    /// The root vouches for names at or below these alone; empty: for every name.
    pub domains: Vec<Hostname>,
}

impl Default for EmbeddedSettings {
    fn default() -> Self {
        Self { leaf_life: 3 * DAY, domains: Vec::new() }
    }
}

pub struct Authority {
    issuer: rcgen::Issuer<'static, KeyPair>,
    root: String,
    domains: Vec<Hostname>,
    not_after: Seconds,
    leaf_life: Seconds,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("domains", &self.domains).finish_non_exhaustive()
    }
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Root {
    certificate: String,
    key: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    domains: Vec<Hostname>,
}

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the root certificate cannot be made or used: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error(
        "the root was made for {}, not for {}; a root cannot be changed: remove it from the state, and have clients trust the new one",
        told(made),
        told(asked)
    )]
    OtherDomains { made: Vec<Hostname>, asked: Vec<Hostname> },
    #[error("the root certificate cannot be read")]
    Unreadable,
    #[error("the root has expired; remove it from the state, and have clients trust the new one")]
    Expired,
}

fn told(domains: &[Hostname]) -> String {
    let all: Vec<&str> = domains.iter().map(Hostname::as_str).collect();
    if all.is_empty() { "all names".to_owned() } else { all.join(", ") }
}

impl Authority {
    /// The authority of a store; it is made the first time.
    pub async fn open(
        store: &dyn Store,
        settings: &EmbeddedSettings,
        now: Seconds,
    ) -> Result<Self, AuthorityError> {
        let root = match load(store).await? {
            Some(root) => root,
            None => {
                let root = make_root(&settings.domains, now)?;
                let content = serde_json::to_vec_pretty(&root).unwrap_or_default();
                store.put(Shelf::Authority, NAME, &content).await?;
                root
            }
        };
        // Without a word about domains, those of the root hold.
        if !settings.domains.is_empty() && root.domains != settings.domains {
            let asked = settings.domains.clone();
            return Err(AuthorityError::OtherDomains { made: root.domains, asked });
        }
        let facts = Facts::read(&root.certificate).map_err(|_| AuthorityError::Unreadable)?;
        if facts.not_after <= now {
            return Err(AuthorityError::Expired);
        }
        let key = KeyPair::from_pem(&root.key)?;
        let issuer = rcgen::Issuer::new(root_params(&key, &root.domains), key);
        Ok(Self {
            issuer,
            root: root.certificate,
            domains: root.domains,
            not_after: facts.not_after,
            leaf_life: settings.leaf_life,
        })
    }

    /// The root certificate in PEM, where there is one.
    pub async fn root(store: &dyn Store) -> Result<Option<String>, StoreError> {
        Ok(load(store).await?.map(|root| root.certificate))
    }

    /// Makes a certificate.
    pub fn issue(&self, intent: &Intent, now: Seconds) -> Result<Certificate, Failure> {
        let outside = |name: &&Hostname| !self.domains.is_empty() && !self.vouches_for(name);
        let refused: Vec<(Hostname, String)> = intent
            .order
            .names
            .iter()
            .filter(outside)
            .map(|name| (name.clone(), format!("the root vouches for {} alone", told(&self.domains))))
            .collect();
        if !refused.is_empty() {
            return Err(Failure::Names(refused));
        }
        let failed = |error: rcgen::Error| Failure::Here(format!("the certificate cannot be made: {error}"));
        let leaf = self.leaf(intent, now).map_err(failed)?;
        intent.fulfilled(leaf).map_err(|error| Failure::Here(error.to_string()))
    }

    fn vouches_for(&self, name: &Hostname) -> bool {
        self.domains.iter().any(|domain| {
            let base = name.base();
            base == domain.base() || base.ends_with(&format!(".{}", domain.base()))
        })
    }

    fn leaf(&self, intent: &Intent, now: Seconds) -> Result<String, rcgen::Error> {
        let names: Vec<String> = intent.order.names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        set_times(&mut params, now - HOUR, (now + self.leaf_life).min(self.not_after));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(&intent.key_pair()?, &self.issuer)?.pem())
    }

    #[must_use]
    pub fn root_pem(&self) -> &str {
        &self.root
    }
}

/// A certificate that vouches for itself, to be shown until there is a real one.
pub fn stand_in(names: &[Hostname], now: Seconds) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Tidegate stand-in");
    set_times(&mut params, now - HOUR, now + 365 * DAY);
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

async fn load(store: &dyn Store) -> Result<Option<Root>, StoreError> {
    let documents = store.all(Shelf::Authority).await?;
    let root = documents.iter().find(|document| document.name == NAME);
    root.map(|document| parse(Shelf::Authority, NAME, &document.content)).transpose()
}

fn make_root(domains: &[Hostname], now: Seconds) -> Result<Root, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = root_params(&key, domains);
    set_times(&mut params, now - DAY, now + ROOT_LIFE);
    let certificate = params.self_signed(&key)?.pem();
    Ok(Root { certificate, key: key.serialize_pem(), domains: domains.to_vec() })
}

/// All but its times follows from the key and the domains, so that leaves can be signed without reading it again.
fn root_params(key: &KeyPair, domains: &[Hostname]) -> CertificateParams {
    let mut params = CertificateParams::default();
    let id: String = params.key_identifier(key).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    params.distinguished_name = DistinguishedName::new();
    // Roots of several machines can be told apart where they are trusted.
    params.distinguished_name.push(DnType::CommonName, format!("Tidegate root {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    if !domains.is_empty() {
        let permitted = domains.iter().map(|name| GeneralSubtree::DnsName(name.base().to_owned())).collect();
        params.name_constraints =
            Some(NameConstraints { permitted_subtrees: permitted, excluded_subtrees: Vec::new() });
    }
    params
}

fn set_times(params: &mut CertificateParams, from: Seconds, to: Seconds) {
    let time =
        |seconds| date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    params.not_before = time(from);
    params.not_after = time(to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FolderStore, Issuer, Order, Why};
    use tidegate_plan::ObjectName;

    const NOW: Seconds = 1_800_000_000;

    fn intent(names: &[&str]) -> Intent {
        let names: Vec<Hostname> = names.iter().map(|name| Hostname::parse(name).unwrap()).collect();
        let secret = ObjectName::new("infra", "tls");
        let order = Order {
            target: secret.clone(),
            secret,
            issuer: Issuer::Embedded,
            asked: names.clone(),
            names,
            why: Why::NewNames,
        };
        Intent::new(order, NOW).unwrap()
    }

    fn constrained(domain: &str) -> EmbeddedSettings {
        EmbeddedSettings { domains: vec![Hostname::parse(domain).unwrap()], ..EmbeddedSettings::default() }
    }

    #[tokio::test]
    async fn the_root_is_made_once_and_vouches_for_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let authority = Authority::open(&store, &EmbeddedSettings::default(), NOW).await.unwrap();
        let again = Authority::open(&store, &EmbeddedSettings::default(), NOW + DAY).await.unwrap();
        assert_eq!(authority.root_pem(), again.root_pem());
        assert_eq!(Authority::root(&store).await.unwrap().unwrap(), again.root_pem());
        assert!(!again.root_pem().contains("PRIVATE"));

        let certificate = again.issue(&intent(&["a.example.com", "*.b.example.com"]), NOW).unwrap();
        assert_eq!((certificate.held.not_before, certificate.held.not_after), (NOW - HOUR, NOW + 3 * DAY));
        verify(&certificate, again.root_pem(), "a.example.com", true);
        verify(&certificate, again.root_pem(), "x.b.example.com", true);
        verify(&certificate, again.root_pem(), "c.example.com", false);
    }

    /// By the verifier that clients have.
    fn verify(certificate: &Certificate, root: &str, name: &str, expected: bool) {
        use rustls::client::danger::ServerCertVerifier;
        use rustls_pki_types::pem::PemObject;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(rustls_pki_types::CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        let verified = verifier.build().unwrap().verify_server_cert(
            &certificate.leaf().unwrap(),
            &[],
            &name.to_owned().try_into().unwrap(),
            &[],
            rustls_pki_types::UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(NOW).unwrap())),
        );
        assert_eq!(verified.is_ok(), expected, "{name}: {verified:?}");
    }

    #[tokio::test]
    async fn a_constrained_root_vouches_for_its_domains_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let authority = Authority::open(&store, &constrained("example.com"), NOW).await.unwrap();
        let certificate = authority.issue(&intent(&["a.example.com"]), NOW).unwrap();
        verify(&certificate, authority.root_pem(), "a.example.com", true);
        let refused = authority.issue(&intent(&["a.example.com", "a.example.org"]), NOW).unwrap_err();
        assert!(matches!(&refused, Failure::Names(names) if names.len() == 1), "{refused:?}");

        let error = Authority::open(&store, &constrained("example.org"), NOW).await.unwrap_err().to_string();
        assert!(error.starts_with("the root was made for example.com, not for example.org"), "{error}");
        let unasked = Authority::open(&store, &EmbeddedSettings::default(), NOW).await.unwrap();
        assert!(unasked.issue(&intent(&["a.example.org"]), NOW).is_err(), "the root's own domains hold");
    }

    #[tokio::test]
    async fn a_root_that_cannot_be_read_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        store.put(Shelf::Authority, NAME, b"{").await.unwrap();
        let error = Authority::open(&store, &EmbeddedSettings::default(), NOW).await.unwrap_err().to_string();
        assert!(error.starts_with("authority/root cannot be read"), "{error}");
    }

    #[tokio::test]
    async fn a_root_past_its_time_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        let authority = Authority::open(&store, &EmbeddedSettings::default(), NOW).await.unwrap();
        let late = NOW + ROOT_LIFE - DAY;
        let certificate = authority.issue(&intent(&["a.example.com"]), late).unwrap();
        assert_eq!(certificate.held.not_after, NOW + ROOT_LIFE, "a leaf ends with its root at the latest");
        let error = Authority::open(&store, &EmbeddedSettings::default(), NOW + ROOT_LIFE).await;
        assert!(matches!(error, Err(AuthorityError::Expired)));
    }
}
