//! How TLS is spoken to a backend: as its policy says, and never without.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ClientConfig;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::{DnsName, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::{ConfigBuilder, WantsVerifier};
use tidegate_plan::{AlternativeName, BackendTls, Blob, BlobId, Certificate, Reason, Trust};

use super::keys::Keys;
use super::verify::{BackendVerifier, Expected, Rule};
use super::{provider, roots, versions};

/// A client certificate with its key, as a Gateway or a backend's policy has it.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    id: BlobId,
    key: Arc<CertifiedKey>,
}

impl Identity {
    pub(crate) fn new(
        certificate: &Certificate,
        keys: &mut Keys,
        blobs: &BTreeMap<BlobId, Arc<Blob>>,
    ) -> Result<Self, Reason> {
        let key = keys.open(&certificate.id, blobs).map_err(|_| Reason::PolicyInvalid)?;
        Ok(Self { id: certificate.id.clone(), key })
    }
}

/// TLS towards one backend. Each identity it is spoken under has a configuration of its own, and with it sessions of
/// its own: one that was made under another identity, or another trust, is never resumed.
#[derive(Debug)]
pub(crate) struct Client {
    name: ServerName<'static>,
    alpn: Vec<Vec<u8>>,
    verifier: Arc<BackendVerifier>,
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    /// The backend's own, which goes before any Gateway's.
    identity: Option<Identity>,
    configs: ArcSwap<Vec<(Option<BlobId>, Arc<ClientConfig>)>>,
}

/// Of the identities of Gateways that use one backend so many are remembered; renewed certificates push out the old.
const IDENTITIES: usize = 16;

/// Sessions to keep for one backend: more would be used only if it were connected to as often at one moment.
const SESSIONS: usize = 8;

impl Client {
    pub(crate) fn new(
        tls: &BackendTls,
        keys: &mut Keys,
        blobs: &BTreeMap<BlobId, Arc<Blob>>,
    ) -> Result<Self, Reason> {
        Self::at(tls, keys, blobs, Arc::new(DefaultTimeProvider))
    }

    /// The same by any clock.
    pub(super) fn at(
        tls: &BackendTls,
        keys: &mut Keys,
        blobs: &BTreeMap<BlobId, Arc<Blob>>,
        clock: Arc<dyn TimeProvider>,
    ) -> Result<Self, Reason> {
        let name = DnsName::try_from(tls.sni.as_str().to_owned()).map_err(|_| Reason::PolicyInvalid)?;
        let identity = tls.client_certificate.as_ref().map(|own| Identity::new(own, keys, blobs));
        let builder = ClientConfig::builder_with_details(provider(), clock)
            .with_protocol_versions(versions(tls.minimum_version))
            .map_err(|_| Reason::PolicyInvalid)?;
        Ok(Self {
            name: ServerName::DnsName(name),
            alpn: tls.alpn.iter().map(|name| name.as_bytes().to_vec()).collect(),
            verifier: Arc::new(verifier(tls, blobs)?),
            builder,
            identity: identity.transpose()?,
            configs: ArcSwap::default(),
        })
    }

    /// What the backend is called in the hello.
    pub(crate) fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    /// What is offered for bytes, given what was agreed on with the client that they come from.
    pub(crate) fn offers(&self, agreed: Option<&[u8]>) -> Vec<Vec<u8>> {
        if self.alpn.is_empty() {
            agreed.map(<[u8]>::to_vec).into_iter().collect()
        } else {
            self.alpn.clone()
        }
    }

    /// The configuration for connections on behalf of a Gateway with this identity.
    pub(crate) fn config(&self, gateway: Option<&Identity>) -> Arc<ClientConfig> {
        let identity = self.identity.as_ref().or(gateway);
        let id = identity.map(|identity| &identity.id);
        let known = find(&self.configs.load(), id);
        known.unwrap_or_else(|| self.remember(identity))
    }

    #[cold]
    fn remember(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        let id = identity.map(|identity| &identity.id);
        let made = Arc::new(self.make(identity));
        self.configs.rcu(|configs| {
            let mut configs = configs.as_ref().clone();
            // Another worker may have been faster; all go on with the same, to share its sessions.
            if find(&configs, id).is_none() {
                configs.truncate(IDENTITIES - 1);
                configs.insert(0, (id.cloned(), Arc::clone(&made)));
            }
            configs
        });
        find(&self.configs.load(), id).unwrap_or(made)
    }

    fn make(&self, identity: Option<&Identity>) -> ClientConfig {
        let verifier = Arc::clone(&self.verifier);
        let builder = self.builder.clone().dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let single: Arc<dyn ResolvesClientCert> =
                    Arc::new(SingleCertAndKey::from(Arc::clone(&identity.key)));
                builder.with_client_cert_resolver(single)
            }
        };
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        config
    }
}

#[cfg(test)]
impl Client {
    pub(super) fn verifier(&self) -> Arc<BackendVerifier> {
        Arc::clone(&self.verifier)
    }
}

#[cfg(test)]
impl Identity {
    /// The certificate of another with this one's key.
    pub(super) fn with_chain_of(&self, other: &Self) -> Self {
        let stolen = CertifiedKey::new(other.key.cert.clone(), Arc::clone(&self.key.key));
        Self { id: BlobId("stolen".into()), key: Arc::new(stolen) }
    }
}

fn find(configs: &[(Option<BlobId>, Arc<ClientConfig>)], id: Option<&BlobId>) -> Option<Arc<ClientConfig>> {
    configs.iter().find(|(known, _)| known.as_ref() == id).map(|(_, config)| Arc::clone(config))
}

fn verifier(tls: &BackendTls, blobs: &BTreeMap<BlobId, Arc<Blob>>) -> Result<BackendVerifier, Reason> {
    let roots = match &tls.trust {
        Trust::Bundles(bundles) => {
            Some(Arc::new(roots::of_bundles(bundles, blobs).map_err(|_| Reason::PolicyInvalid)?))
        }
        Trust::System => Some(roots::of_system()),
        Trust::Unverified => None,
    };
    let names = expected(tls).ok_or(Reason::PolicyInvalid)?;
    Ok(BackendVerifier {
        algorithms: provider().signature_verification_algorithms,
        rule: roots.map(|roots| Rule { roots, names }),
    })
}

/// The names of which the certificate must have one.
fn expected(tls: &BackendTls) -> Option<Vec<Expected>> {
    if tls.names.is_empty() {
        return Some(vec![Expected::dns(&tls.sni)?]);
    }
    let names = tls.names.iter().map(|name| match name {
        AlternativeName::Dns(hostname) => Expected::dns(hostname),
        AlternativeName::Uri(uri) => Some(Expected::Uri(uri.clone())),
    });
    names.collect()
}
